"""Packed weights: never farther off than promised, small, and refused when damaged."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from naic.errors import CheckpointError, ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.folder import (
    ModelSettings,
    load_model,
    read_weights,
    weights_bytes,
    write_model,
    write_weights,
)
from naic.packing import (
    PackRule,
    dequantise,
    encode,
    largest_divisor,
    pack,
    pack_bits,
    quantise,
    unpack,
)
from naic.text.vocabulary import SPECIAL, Vocabulary
from naic.unpacking import unpack_bits
from tests.models.weights import assert_same

VOCABULARY = Vocabulary((*SPECIAL, "a", "circle"))
CONFIG = TransformerConfig(width=32, heads=2, encoder_layers=1, decoder_layers=1, hidden=64)
HERE = Path("model.safetensors")


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(
    seed=st.integers(0, 10_000),
    bits=st.integers(2, 12),
    size=st.integers(1, 130),
    spread=st.sampled_from([1e-3, 1.0, 30.0]),
    tail=st.booleans(),
    shift=st.sampled_from([0.0, 0.7, -5.0]),
)
def test_a_weight_is_off_by_half_a_step_at_most(
    seed: int, bits: int, size: int, spread: float, tail: bool, shift: float
) -> None:
    weights = draw(seed, 3, size) + shift
    weights = (weights**3 if tail else weights) * spread
    codes, scales = quantise(weights, bits)
    found, step = dequantise(codes, scales, bits), scales.float().abs()[:, None]
    off = (found - weights).abs()
    assert codes.min() >= 0
    assert codes.max() < 1 << bits
    half = 1 << bits - 1
    tiny = half * 2**-24  # float16 knows no finer step
    # Only what lies beyond the last code may be farther off, and then it is the last code.
    beyond = ((codes == 0) | (codes == 2 * half - 1)) & (found.abs() < weights.abs())
    assert ((off <= step * 0.5001 + tiny) | beyond).all()
    # Cutting off the largest is done only where the group as a whole gains by it.
    most = weights.abs().amax(1, keepdim=True)
    plain = (weights / most * (half - 1)).round() * most / (half - 1)
    rounding = (most[:, 0] * 2**-11 + tiny) * size**0.5  # of the scale, to float16
    assert (off.norm(dim=1) <= (plain - weights).norm(dim=1) + rounding * 1.001).all()


@given(seed=st.integers(0, 10_000), bits=st.integers(2, 12), count=st.integers(0, 70))
def test_bits_come_back_and_are_tight(seed: int, bits: int, count: int) -> None:
    drawn = np.random.default_rng(seed).integers(0, 1 << bits, count, np.int16)
    codes = torch.from_numpy(drawn)
    packed = pack_bits(codes, bits)
    assert packed.shape == (bits, (count + 7) // 8)
    assert np.array_equal(unpack_bits(packed.numpy(), count), codes.numpy())


def test_where_the_bits_lie() -> None:
    """The layout is in files: other code must read them the same way."""
    packed = pack_bits(torch.tensor([1, 2, 3, 0, 0, 0, 0, 0, 7], dtype=torch.uint8), 3)
    assert packed.tolist() == [[0b10100000, 0b10000000], [0b01100000, 0b10000000], [0, 0b10000000]]
    codes, scales = torch.tensor([[0, 4, 7]], dtype=torch.uint8), torch.tensor([0.5]).half()
    assert dequantise(codes, scales, 3).tolist() == [[-2.0, 0.0, 1.5]]
    assert encode(torch.tensor([[-9.0, 0.1, 0.8]]), scales, 3).tolist() == [[0, 4, 6]]


def test_whole_steps_come_back_exactly() -> None:
    """Both ends are reached, whichever side the extra code is needed on."""
    steps = torch.arange(-16.0, 16.0)
    for weights in (steps, -steps):
        codes, scales = quantise(weights[None] * 0.25, 5)
        assert torch.equal(dequantise(codes, scales, 5)[0], weights * 0.25)
    codes, scales = quantise(torch.zeros(2, 4), 5)
    assert torch.equal(dequantise(codes, scales, 5), torch.zeros(2, 4))


def test_the_search_beats_the_largest_weight() -> None:
    groups = draw(0, 500, 64)
    found = dequantise(*quantise(groups, 4), 4)
    reach = (groups.abs().amax(1) / 7).half()
    plain = dequantise(encode(groups, reach, 4), reach, 4)
    ratio = (found - groups).square().sum() / (plain - groups).square().sum()
    assert ratio < 0.75


def test_more_bits_are_nearer() -> None:
    groups = draw(1, 200, 64)
    errors = [
        float((dequantise(*quantise(groups, bits), bits) - groups).square().mean())
        for bits in range(2, 13)
    ]
    for coarse, fine in pairwise(errors):
        assert fine < coarse / 2.5  # in theory four times less for each bit


def test_what_gets_how_many_bits() -> None:
    rule = PackRule(bits=3, output_bits=6, backbone_bits=7, group=64)
    assert rule.of("encoder.project.weight", torch.zeros(4, 1280)) == (3, 64)
    assert rule.of("encoder.project.weight", torch.zeros(4, 90)) == (3, 45)
    assert rule.of("decoder.output.weight", torch.zeros(9, 512)) == (6, 64)
    assert rule.of("decoder.embedding.weight", torch.zeros(9, 512)) == (6, 64)
    assert rule.of("backbone.stem.weight", torch.zeros(32, 3, 3, 3)) == (7, 27)
    assert rule.of("backbone.networks.0.blocks.3.qkv.weight", torch.zeros(9, 768)) == (7, 64)
    assert rule.of("backbone.networks.0.patch.weight", torch.zeros(8, 3, 16, 16)) == (10, 768)
    assert rule.of("backbone.positions", torch.zeros(256, 384)) == (10, 384)
    assert PackRule(backbone_bits=11).of("backbone.positions", torch.zeros(4, 8)) == (11, 8)
    assert PackRule().of("backbone.stem.weight", torch.zeros(32, 3, 3, 3)) == (10, 27)
    assert PackRule().of("backbone.blocks.0.out.weight", torch.zeros(9, 96)) == (5, 48)
    assert rule.of("backbone.stem.bias", torch.zeros(32)) is None
    assert rule.of("seen", torch.zeros(2, 2, dtype=torch.int64)) is None
    assert [largest_divisor(number, 64) for number in (512, 90, 67, 1)] == [64, 45, 1, 1]
    for wrong in ({"bits": 1}, {"output_bits": 13}, {"backbone_bits": 0}, {"group": 0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            PackRule(**wrong)


WEIGHTS = {
    "encoder.weight": draw(2, 6, 128),
    "backbone.weight": draw(3, 4, 3, 3, 3),
    "bias": draw(4, 7),
    "count": torch.tensor(3),
}


def test_what_is_ready_is_taken_as_it_is() -> None:
    """A second rounding of what was rounded could move it."""
    coarse = pack(WEIGHTS, PackRule(bits=3))
    again = pack(WEIGHTS, PackRule(bits=8), coarse)
    assert_same(again, coarse)
    some = {name: tensor for name, tensor in coarse.items() if name.startswith("backbone.")}
    mixed = pack(WEIGHTS, PackRule(bits=8, backbone_bits=2), some)
    assert_same({name: mixed[name] for name in some}, some)
    assert len(mixed["encoder.weight/codes"]) == 8


def test_a_packed_file(tmp_path: Path) -> None:
    packed = pack(WEIGHTS, PackRule())
    assert {name: (str(t.dtype), tuple(t.shape)) for name, t in packed.items()} == {
        "encoder.weight/codes": ("torch.uint8", (5, 96)),
        "encoder.weight/scales": ("torch.float16", (6, 2)),
        "backbone.weight/codes": ("torch.uint8", (10, 14)),
        "backbone.weight/scales": ("torch.float16", (4, 1)),
        "bias": ("torch.float16", (7,)),
        "count": ("torch.int64", ()),
    }
    path = tmp_path / "w.safetensors"
    write_weights(path, packed)
    assert path.stat().st_size == weights_bytes(packed)
    found = unpack(path, read_weights(path), WEIGHTS)
    assert found.keys() == WEIGHTS.keys()
    for name, step in (("encoder.weight", 0.25), ("backbone.weight", 0.01)):
        assert found[name].dtype == torch.float32
        torch.testing.assert_close(found[name], WEIGHTS[name], atol=step, rtol=0)
        assert (found[name] != WEIGHTS[name]).any()
    assert torch.equal(found["bias"], WEIGHTS["bias"].half())
    assert_same(unpack(path, WEIGHTS, WEIGHTS), WEIGHTS)  # a plain file stays as it is


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("name", ["encoder.weight", "bias"])
def test_weights_that_are_no_numbers_are_refused(name: str, value: float) -> None:
    broken = {key: tensor.clone() for key, tensor in WEIGHTS.items()}
    broken[name].view(-1)[3] = value
    with pytest.raises(CheckpointError, match=f"{name}: it has numbers that are not finite"):
        pack(broken, PackRule())


@pytest.mark.parametrize(
    ("part", "tensor", "why"),
    [
        ("codes", torch.zeros(5, 96), "its codes are float32"),
        ("codes", torch.zeros(480, dtype=torch.uint8), "not 2 to 12 rows of bits"),
        ("codes", torch.zeros(1, 96, dtype=torch.uint8), "not 2 to 12 rows of bits"),
        ("codes", torch.zeros(13, 96, dtype=torch.uint8), "not 2 to 12 rows of bits"),
        ("codes", torch.zeros(5, 95, dtype=torch.uint8), "about 760 weights, and 768 are needed"),
        ("codes", torch.zeros(5, 97, dtype=torch.uint8), "about 776 weights, and 768 are needed"),
        ("scales", torch.zeros(6, 2), "its scales are float32"),
        ("scales", torch.zeros(12).half(), r"its scales are float16 \(12,\)"),
        ("scales", torch.zeros(3, 4).half(), r"its scales are float16 \(3, 4\)"),
        ("scales", torch.zeros(6, 3).half(), "128 inputs cannot be cut into 3 groups"),
        ("scales", torch.zeros(6, 0).half(), "128 inputs cannot be cut into 0 groups"),
        ("scales", torch.full((6, 2), torch.nan).half(), "its scales are no finite numbers"),
    ],
)
def test_damaged_parts_are_refused(part: str, tensor: Tensor, why: str) -> None:
    packed = pack(WEIGHTS, PackRule()) | {f"encoder.weight/{part}": tensor}
    with pytest.raises(CheckpointError, match=f"encoder.weight: .*{why}"):
        unpack(HERE, packed, WEIGHTS)


def test_a_strangers_sizes_take_no_memory() -> None:
    """The codes on the disk must be as many as the model is large."""
    huge = {"encoder.weight": torch.empty(10**6, 10**6, device="meta")}
    with pytest.raises(CheckpointError, match="1,000,000,000,000 are needed"):
        unpack(HERE, pack(WEIGHTS, PackRule()), huge)
    none = {"encoder.weight": torch.empty(0, 4), "scalar": torch.tensor(1.0)}
    for name in none:
        codes = {f"{name}/codes": torch.zeros(5, int(name == "scalar"), dtype=torch.uint8)}
        with pytest.raises(CheckpointError):
            unpack(HERE, codes | {f"{name}/scales": torch.zeros(0, 1).half()}, none)


def write_packed(folder: Path) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model = CAPTIONERS["parallel"].build(CONFIG, 12, len(VOCABULARY))
    settings = ModelSettings("parallel", 12, len(VOCABULARY), "efficientnet-lite2", CONFIG)
    weights = dict(model.state_dict())
    write_model(folder, pack(weights, PackRule()), settings, VOCABULARY, "# Packed\n")
    return weights


def test_a_packed_model_loads_like_any_other(tmp_path: Path) -> None:
    weights = write_packed(tmp_path / "packed")
    found = load_model(tmp_path / "packed").model.state_dict()
    assert found.keys() == weights.keys()
    for name, tensor in weights.items():
        assert found[name].dtype == torch.float32
        off = (found[name] - tensor).norm() / tensor.norm().clamp(min=1e-9)
        assert off < (0.05 if tensor.dim() > 1 else 1e-3), name


def test_a_model_that_lacks_a_part_is_refused(tmp_path: Path) -> None:
    write_packed(tmp_path / "packed")
    path = tmp_path / "packed" / "model.safetensors"
    whole = read_weights(path)
    lacking = {name: t for name, t in whole.items() if name != "encoder.project.weight/scales"}
    write_weights(path, lacking)
    why = r"1 missing \(encoder.project.weight\); 1 not known \(encoder.project.weight/codes\)"
    with pytest.raises(CheckpointError, match=why):
        load_model(tmp_path / "packed")
    write_weights(path, whole | {"encoder.project.weight": torch.zeros(32, 12)})  # which of them?
    with pytest.raises(CheckpointError, match=r"2 not known \(encoder.project.weight/codes"):
        load_model(tmp_path / "packed")
    write_weights(path, {name: t[:, :-1] if "/codes" in name else t for name, t in whole.items()})
    with pytest.raises(CheckpointError, match=r"model.safetensors: \S+: it has codes of about"):
        load_model(tmp_path / "packed")
