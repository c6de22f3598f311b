"""Few bits for a network's matrices, chosen by what the network does with them on images.

To round each weight to the nearest code is best for the weights. What counts is a layer's output,
and its inputs are correlated: an error of one weight can be made good by those beside it. With the
inputs x of a layer and H = sum x x^T, an error d of a row of weights costs d H d^T. The columns are
rounded one after another, and after each one the columns still to come are moved to where this cost
is least, given the errors already made. The least is known in closed form: with H^-1 = U^T U, U
upper triangular, an error e of column j moves column k by -e U[j, k] / U[j, j]; what is left of its
cost is (e / U[j, j])^2. If inputs are not correlated, U is diagonal, and nothing is moved.

H is that of the network before rounding, all layers in one pass over the images. To show each layer
what comes through the rounded layers before it was tried, and gained little.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from naic.errors import ConfigError
from naic.packing import PackRule, check_finite, dequantise, encode, packed_matrix, search

# Added to the diagonal of H, as a share of its mean: directions that the images do not show must
# not be free of cost.
DAMPING = 0.01


def round_matrices(
    network: nn.Module, products: Mapping[str, Tensor], rule: PackRule, prefix: str
) -> dict[str, Tensor]:
    """Codes and scales of a network's linear layers, as they are in a packed file.

    Args:
        network: with its weights, on the device that is to do the work.
        products: by layer, what `input_products` found.
        rule: how many bits a weight gets, by its name with `prefix`.
        prefix: how names begin in the file.
    """
    packed: dict[str, Tensor] = {}
    for name, own in products.items():
        key, weight = f"{prefix}{name}.weight", network.get_parameter(f"{name}.weight").detach()
        chosen = rule.of(key, weight)
        assert chosen is not None  # a matrix always has some
        bits, group = chosen
        check_finite(key, weight.half())
        check_finite(key, own)
        codes, scales = round_columns(weight, own, bits, group)
        packed |= packed_matrix(key, codes.cpu(), scales.cpu(), bits)
    return packed


@torch.inference_mode()
def input_products(network: nn.Module, batches: Iterable[Tensor]) -> dict[str, Tensor]:
    """H (I, I) of each linear layer: the sum of x x^T over its inputs x while the network sees.

    Batches are what the network takes, such as images uint8 (B, P, P, 3), on any device.
    """
    device = next(network.parameters()).device
    products: dict[str, Tensor] = {}

    def note(name: str, layer: nn.Linear) -> torch.utils.hooks.RemovableHandle:
        def add(_: nn.Module, given: tuple[Tensor, ...]) -> None:
            x = given[0].flatten(0, -2)  # (B * T, I)
            if name not in products:
                products[name] = x.new_zeros(x.shape[1], x.shape[1])
            products[name].addmm_(x.T, x)

        return layer.register_forward_pre_hook(add)

    handles = [note(name, m) for name, m in network.named_modules() if isinstance(m, nn.Linear)]
    try:
        for batch in batches:
            network(batch.to(device))
    finally:
        for handle in handles:
            handle.remove()
    if not products:
        why = "this backbone has no matrices: its layers are convolutions"
        raise ConfigError("--calibrate", why, "Leave it out.")
    return products


@torch.inference_mode()
def round_columns(weight: Tensor, products: Tensor, bits: int, group: int) -> tuple[Tensor, Tensor]:
    """Codes int16 (O, I) and scales float16 (O, I / group) of weights (O, I), given H (I, I).

    A group's scales are searched for when its turn comes, since its weights have moved by then.
    """
    factor = _factor(products)  # (I, I)
    # (I, O): a column of weights lies in one piece, and in a copy that can be moved about
    columns = weight.float().T.clone(memory_format=torch.contiguous_format)
    codes = torch.empty(columns.shape, dtype=torch.int16, device=weight.device)
    scales = []
    for start in range(0, len(columns), group):
        end = start + group
        own = factor[start:end, start:end]  # (group, group)
        block = columns[start:end]
        _, scale = search(block.T.contiguous(), bits, own.diagonal() ** -2)  # (O,)
        errors = torch.empty_like(block)
        for j in range(group):
            code = encode(block[j][:, None], scale, bits)  # (O, 1)
            codes[start + j] = code[:, 0]
            errors[j] = (block[j] - dequantise(code, scale, bits)[:, 0]) / own[j, j]
            block[j + 1 :].addr_(own[j, j + 1 :], errors[j], alpha=-1)
        columns[end:].addmm_(factor[start:end, end:].T, errors, alpha=-1)
        scales.append(scale)
    return codes.T.contiguous(), torch.stack(scales, dim=1)


def _factor(products: Tensor) -> Tensor:
    """U (I, I), upper triangular, with U^T U the inverse of the damped H; float64 on the way."""
    damped = products.double()
    mean = damped.diagonal().mean()
    damped.diagonal().add_(torch.where(mean > 0, DAMPING * mean, 1.0))
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(damped))
    factor: Tensor = torch.linalg.cholesky(inverse, upper=True)
    return factor.float()
