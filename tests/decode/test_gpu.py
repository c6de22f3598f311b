"""On a GPU: every decoder runs inside a CUDA graph, compiled, and in mixed precision."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing import assert_close

from naic.decode.policy import parallel
from naic.decode.stepwise import beam_search, greedy, sample
from naic.models.config import TransformerConfig
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import BOS

pytestmark = pytest.mark.gpu

Decode = Callable[[TransformerCaptioner, Tensor, Tensor | None], tuple[Tensor, Tensor]]
FEATURES, WORDS, REGIONS = 24, 100, 9


def _greedy(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    said = greedy(model, model.encode(features, mask))
    return said.words, said.log_probs


def _beam(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    found = beam_search(model, model.encode(features, mask), 3, keep=2)
    return found.words, found.scores


def _sample(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    said = sample(model, model.encode(features, mask), 5)
    return said.words, said.log_probs


def _parallel(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    return parallel(model(features, mask)[:, 0], 4)


DECODERS = [_greedy, _beam, _sample, _parallel]


def medium(decode: Decode, dropout: float = 0.0) -> TransformerCaptioner:
    torch.manual_seed(0)
    config = TransformerConfig(128, 4, 2, 2, 256, dropout)
    model = (
        TransformerCaptioner(config, FEATURES, WORDS, causal=decode is not _parallel).cuda().eval()
    )
    with torch.no_grad():
        model.decoder.output.weight.mul_(3)  # sure of its words: kernels may round differently
    return model


def photos(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(6, REGIONS, FEATURES, generator=generator)
    counts = torch.randint(1, REGIONS + 1, (6, 1), generator=generator)
    return features.cuda(), (torch.arange(REGIONS) < counts).cuda()


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("decode", DECODERS)
@torch.no_grad()
def test_a_graph_replayed_on_new_images_equals_eager(decode: Decode, masked: bool) -> None:
    model = medium(decode)
    features, real = photos(0)
    mask = real if masked else None
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            decode(model, features, mask)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # fails at the first thing that waits for the host
        words, values = decode(model, features, mask)
    different = set()
    for seed in (1, 2, 3):
        for place, new in zip((features, real), photos(seed), strict=True):
            place.copy_(new)
        torch.manual_seed(seed)
        graph.replay()
        torch.manual_seed(seed)
        exact_words, exact_values = decode(model, features, mask)
        assert torch.equal(words, exact_words)
        assert_close(values, exact_values, rtol=1e-4, atol=1e-4)
        different.add(str(words.tolist()))
    assert len(different) == 3


@pytest.mark.parametrize("decode", [_greedy, _beam, _parallel])  # noise differs, so no sampling
@torch.no_grad()
def test_as_on_a_cpu(decode: Decode) -> None:
    model = medium(decode)
    features, mask = photos(4)
    words, values = decode(model, features, mask)
    model.cpu()
    exact_words, exact_values = decode(model, features.cpu(), mask.cpu())
    assert torch.equal(words.cpu(), exact_words)
    assert_close(values.cpu(), exact_values, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("decode", DECODERS)
def test_mixed_precision(decode: Decode) -> None:
    model = medium(decode)
    features, mask = photos(5)
    with torch.autocast("cuda", torch.bfloat16):
        words, values = decode(model, features.half(), mask)
    assert words.dtype == torch.int64
    assert values.dtype == torch.float32
    assert bool(values.isfinite().all())


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_training_in_mixed_precision_uses_fused_attention(causal: bool, masked: bool) -> None:
    model = medium(_greedy if causal else _parallel, dropout=0.1).train()
    features, real = photos(6)
    words = torch.randint(WORDS, (6, 5, model.length), device="cuda")
    fused = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    with sdpa_kernel(fused), torch.autocast("cuda", torch.bfloat16):
        logits = model(features.half(), real if masked else None, words)
        logits.float().log_softmax(-1)[..., 0].sum().backward()
    assert logits.dtype == torch.float32  # the last layer, so that likely words can be told apart
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name


@pytest.mark.filterwarnings("ignore")  # the compiler has much to say
@torch.no_grad()
def test_a_step_is_compiled_once() -> None:
    model = medium(_beam)
    features, mask = photos(7)
    memory = model.encode(features, mask)
    cache, fresh = model.empty_cache(memory, 3), model.empty_cache(memory, 3)
    step = torch.compile(model.step, fullgraph=True)
    words = torch.full((6, 3), BOS, device="cuda")
    parents = torch.tensor([[1, 0, 0]] * 6, device="cuda")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for position in torch.arange(model.length, device="cuda").unbind(0):
            logits = step(words, position, memory, cache)
            eager = model.step(words, position, memory, fresh)
            assert_close(logits, eager, rtol=1e-3, atol=1e-3)
            cache = model.follow(cache, parents, position)
            fresh = model.follow(fresh, parents, position)
            words = eager.argmax(-1)
