import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Literal, cast

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import ConfigError
from naic.learn.cider.references import References
from naic.learn.cider.rewards import Mix, NumbaRewards, Rewards, make_rewards
from naic.text import PERIOD, Vocabulary
from tests.learn.cider.cases import LENGTH, World, make_rows, make_world
from tests.learn.cider.public import counterfactuals, cut, public_bleu

Form = Literal["numba", "torch"]
FORMS: tuple[Form, ...] = ("numba", "torch")
EXACT = 1e-11
WORLD = make_world(seed=5)  # for property tests, which take no fixtures
SCORERS = {form: make_rewards(WORLD.references, "cpu", form=form) for form in FORMS}
MIXED = [make_rewards(WORLD.references, "cpu", Mix(cider=0.7, bleu4=2), form) for form in FORMS]


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(seed=0)


@pytest.fixture(scope="module", params=FORMS)
def rewards(world: World, request: pytest.FixtureRequest) -> Rewards:
    return make_rewards(world.references, "cpu", form=request.param)


def public_scores(
    world: World, words: torch.Tensor, alternatives: torch.Tensor, images: torch.Tensor
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The oracle's scores of rows and of their counterfactuals."""
    rows = words.tolist()
    base = world.public.score([cut(row) for row in rows], images.tolist())
    sentences, owners = [], []
    for row, choices, image in zip(rows, alternatives.tolist(), images.tolist(), strict=True):
        changed = counterfactuals(row, choices)
        sentences += changed
        owners += [image] * len(changed)
    return base, world.public.score(sentences, owners).reshape(alternatives.shape)


def test_scores_equal_the_public_code(world: World, rewards: Rewards) -> None:
    words, alternatives, images = make_rows(world, seed=1, rows=150, choices=3)
    base, changed = public_scores(world, words, alternatives, images)
    assert np.abs(rewards.score(words, images).numpy() - base).max() < EXACT
    found = rewards.counterfactual(words, alternatives, images).numpy()
    assert np.abs(found - changed).max() < EXACT
    assert base.max() > 1  # the rows are near enough to their references to mean something


@pytest.mark.slow
def test_a_hundred_thousand_cases(world: World) -> None:
    """Public, numba and torch; every way in which a replacement can change the end included."""
    forms = [make_rewards(world.references, "cpu", form=form) for form in FORMS]
    cases = 0
    kinds: dict[str, int] = {"period in": 0, "period out": 0, "no period": 0, "after it": 0}
    seed = 100
    while cases < 100_000:
        words, alternatives, images = make_rows(world, seed, rows=100, choices=4)
        base, changed = public_scores(world, words, alternatives, images)
        for form in forms:
            reward, outcomes = form.judge(words, alternatives, images)
            assert np.abs(reward.numpy() - base).max() < EXACT
            assert np.abs(outcomes.numpy() - changed).max() < EXACT
        count_kinds(kinds, words, alternatives)
        cases += base.size + changed.size
        seed += 1
    assert min(kinds.values()) > 1000, kinds


def count_kinds(kinds: dict[str, int], words: torch.Tensor, alternatives: torch.Tensor) -> None:
    ends = torch.tensor([len(cut(row)) for row in words.tolist()])[:, None, None]
    places = torch.arange(LENGTH)[:, None]
    has = (words == PERIOD).any(1)[:, None, None]
    different = alternatives != words[..., None]
    kinds["period in"] += int(((alternatives == PERIOD) & (places < ends - 1)).sum())
    kinds["period out"] += int((different & has & (places == ends - 1)).sum())
    kinds["no period"] += int((different & ~has).sum())
    kinds["after it"] += int((places >= ends).expand_as(different).sum())


def unchanged(words: torch.Tensor, alternatives: torch.Tensor) -> torch.Tensor:
    """(B, N, k) where a replacement leaves the sentence as it is."""
    ends = torch.tensor([len(cut(row)) for row in words.tolist()])
    after = torch.arange(LENGTH) >= ends[:, None]  # (B, N)
    return after[..., None] | (alternatives == words[..., None])


@given(seed=st.integers(0, 10_000), choices=st.integers(1, 5), rows=st.integers(1, 9))
def test_what_changes_nothing_has_the_same_bits(seed: int, choices: int, rows: int) -> None:
    words, alternatives, images = make_rows(WORLD, seed, rows, choices)
    same = unchanged(words, alternatives)
    for scorer in (*SCORERS.values(), *MIXED):
        reward = scorer.score(words, images)
        outcomes = scorer.counterfactual(words, alternatives, images)
        expected = reward[:, None, None].expand_as(outcomes)
        assert torch.equal(outcomes[same], expected[same])


@given(seed=st.integers(0, 10_000))
def test_a_counterfactual_is_the_score_of_its_sentence(seed: int) -> None:
    words, alternatives, images = make_rows(WORLD, seed, rows=2, choices=2)
    written = words[:, None, None].repeat(1, LENGTH, 2, 1)  # (B, N, k, N)
    agents = torch.arange(LENGTH)
    written[:, agents, :, agents] = alternatives.transpose(0, 1)
    owners = images[:, None, None].expand(alternatives.shape)
    for scorer in SCORERS.values():
        outcomes = scorer.counterfactual(words, alternatives, images).flatten()
        afresh = scorer.score(written.reshape(-1, LENGTH), owners.reshape(-1))
        assert torch.allclose(outcomes, afresh, rtol=0, atol=EXACT)


def test_the_words_after_the_period_count_when_it_is_replaced(rewards: Rewards) -> None:
    """A sentence that runs on to the next period is scored to there, and no further."""
    world = make_world(seed=0)
    image = 1
    first, second = 5, 6
    row = torch.full((1, LENGTH), 9)
    row[0, :4] = torch.tensor([first, PERIOD, second, PERIOD])
    alternatives = row[..., None].clone()
    alternatives[0, 1, 0] = 8
    outcome = rewards.counterfactual(row, alternatives, torch.tensor([image]))[0, 1, 0]
    expected = world.public.score([[first, 8, second, PERIOD]], [image])[0]
    assert abs(float(outcome) - expected) < EXACT


def test_without_any_period_the_whole_row_counts(world: World, rewards: Rewards) -> None:
    row = torch.tensor([[5, 6, 7, 8] * 4])
    expected = world.public.score([row[0].tolist()], [1])[0]
    assert abs(float(rewards.score(row, torch.tensor([1]))) - expected) < EXACT


@pytest.mark.parametrize("form", FORMS)
def test_bleu_and_mixtures_equal_the_public_code(world: World, form: Form) -> None:
    words, alternatives, images = make_rows(world, seed=2, rows=40, choices=2)
    bleu = make_rewards(world.references, "cpu", Mix(cider=0, bleu4=1), form)
    base, outcomes = bleu.judge(words, alternatives, images)
    for row, image, value in zip(words.tolist(), images.tolist(), base.tolist(), strict=True):
        assert abs(value - public_bleu(world.encoded[image], cut(row))) < EXACT
    changed = counterfactuals(words[0].tolist(), alternatives[0].tolist())
    for sentence, value in zip(changed, outcomes[0].flatten().tolist(), strict=True):
        assert abs(value - public_bleu(world.encoded[int(images[0])], sentence)) < EXACT
    cider = make_rewards(world.references, "cpu", form=form).judge(words, alternatives, images)
    both = make_rewards(world.references, "cpu", Mix(cider=0.5, bleu4=2), form)
    for mixed, c, b in zip(
        both.judge(words, alternatives, images), cider, (base, outcomes), strict=True
    ):
        assert torch.allclose(mixed, 0.5 * c + 2 * b, rtol=0, atol=EXACT)


def test_an_image_without_references_scores_zero(world: World, rewards: Rewards) -> None:
    assert not world.captions[0]
    words, alternatives, images = make_rows(world, seed=3, rows=4, choices=2)
    base, outcomes = rewards.judge(words, alternatives, torch.zeros_like(images))
    assert not base.any()
    assert not outcomes.any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mix", [Mix(), Mix(cider=0, bleu4=1)])
def test_scores_are_never_nan(form: Form, mix: Mix) -> None:
    """One training image: every n-gram of it weighs nothing, and all norms are zero."""
    vocabulary = Vocabulary.build(["a b c"], more_than=0)
    references = References.build([["a b c."], [""], []], vocabulary, [True, False, False])
    scorer = make_rewards(references, "cpu", mix, form)
    words = torch.randint(0, 7, (300, 5))
    alternatives = torch.randint(0, 7, (300, 5, 3))
    for values in scorer.judge(words, alternatives, torch.randint(0, 3, (300,))):
        assert torch.isfinite(values).all()


@given(seed=st.integers(0, 1000))
def test_the_order_of_references_changes_nothing(seed: int) -> None:
    random = np.random.default_rng(seed)
    shuffled = [list(random.permutation(texts)) for texts in WORLD.captions]
    other = References.build(shuffled, WORLD.vocabulary, WORLD.training)
    rows = make_rows(WORLD, seed, rows=5, choices=2)
    for form, scorer in SCORERS.items():
        for one, two in zip(
            scorer.judge(*rows), make_rewards(other, "cpu", form=form).judge(*rows), strict=True
        ):
            assert torch.allclose(one, two, rtol=0, atol=1e-12)


def test_many_choices_take_no_more_than_their_share(world: World) -> None:
    """All the words of the vocabulary as alternatives, the same word twice among them."""
    size = len(world.vocabulary)
    words, _, images = make_rows(world, seed=4, rows=3, choices=1)
    everything = torch.arange(size).expand(3, LENGTH, size)
    twice = torch.cat([everything, everything.flip(2)], 2)
    numba, torch_ = (make_rewards(world.references, "cpu", form=form) for form in FORMS)
    assert torch.allclose(
        numba.counterfactual(words, twice, images),
        torch_.counterfactual(words, twice, images),
        rtol=0,
        atol=EXACT,
    )


def test_equal_sentences_are_scored_once() -> None:
    """However many samples of an image say the same: copies cost next to nothing."""
    scorer = SCORERS["numba"]
    words, _, images = make_rows(WORLD, seed=6, rows=1, choices=1)
    many = words.repeat(50_000, 1)
    end = len(cut(words[0].tolist()))
    many[:, end:] = torch.randint(0, 20, (50_000, LENGTH - end))  # what follows does not matter
    found = scorer.score(many, images.repeat(50_000))
    assert torch.equal(found, scorer.score(words, images).expand(50_000))

    def cpu_seconds(rows: torch.Tensor, owners: torch.Tensor) -> float:
        started = time.process_time()
        scorer.score(rows, owners)
        return time.process_time() - started

    different, _, owners = make_rows(WORLD, seed=7, rows=50_000, choices=1)
    assert cpu_seconds(many, images.repeat(50_000)) < 0.5 * cpu_seconds(different, owners)


def test_how_the_tensors_lie_in_memory_does_not_matter(world: World, rewards: Rewards) -> None:
    rows = make_rows(world, seed=11, rows=20, choices=2)
    strided = [torch.stack([x, x], -1)[..., 0] for x in rows]
    assert not any(x.is_contiguous() for x in strided)
    for one, two in zip(rewards.judge(*strided), rewards.judge(*rows), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(rewards.score(strided[0], strided[2]), rewards.score(rows[0], rows[2]))


def test_no_rows_have_no_rewards(rewards: Rewards) -> None:
    words, images = torch.zeros(0, LENGTH, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
    assert rewards.score(words, images).shape == (0,)
    alternatives = torch.zeros(0, LENGTH, 2, dtype=torch.int64)
    assert rewards.counterfactual(words, alternatives, images).shape == (0, LENGTH, 2)


def test_many_rows_are_scored_as_few_are(world: World, rewards: Rewards) -> None:
    rows = make_rows(world, seed=10, rows=200, choices=2)
    whole = rewards.judge(*rows)
    parts = [rewards.judge(*(x[i : i + 1] for x in rows)) for i in range(200)]
    for one, two in zip(whole, map(torch.cat, zip(*parts, strict=True)), strict=True):
        assert torch.equal(one, two)


def test_what_is_out_of_range_is_refused(world: World, rewards: Rewards) -> None:
    words, alternatives, images = make_rows(world, seed=8, rows=2, choices=1)
    with pytest.raises(ValueError, match="image_index has 0 to 60"):
        rewards.score(words, torch.tensor([0, 60]))
    with pytest.raises(ValueError, match="words has -1"):
        rewards.score(torch.full_like(words, -1), images)
    with pytest.raises(ValueError, match=r"alternatives has .* must be 0 to 33"):
        rewards.counterfactual(words, alternatives + len(world.vocabulary), images)
    with pytest.raises(ValueError, match=r"words: torch.float32 on cpu, not torch.int64"):
        rewards.score(words.float(), images)
    with pytest.raises(ValueError, match=r"image_index: torch.int32"):
        rewards.score(words, images.int())
    with pytest.raises(ValueError, match=r"words are \(16,\), not"):
        rewards.score(words[0], images)
    with pytest.raises(ValueError, match=r"alternatives are \(2, 16\), not"):
        rewards.counterfactual(words, words, images)
    with pytest.raises(ValueError, match="alternatives are"):
        rewards.counterfactual(words, alternatives[:, 1:], images)
    with pytest.raises(ValueError, match="image_index is"):
        rewards.score(words, images[:1])


def test_the_torch_form_is_one_graph(world: World) -> None:
    scorer = make_rewards(world.references, "cpu", form="torch")
    rows = make_rows(world, seed=9, rows=4, choices=2)
    expected = scorer.judge(*rows)  # the first call makes the pattern
    compiled = torch.compile(scorer.judge, fullgraph=True, backend="eager")
    for one, two in zip(compiled(*rows), expected, strict=True):
        assert torch.equal(one, two)


def test_the_form_is_chosen_by_device(world: World) -> None:
    assert isinstance(make_rewards(world.references, "cpu"), NumbaRewards)
    with pytest.raises(ConfigError, match="numba runs on a CPU only"):
        make_rewards(world.references, "meta", form="numba")
    with pytest.raises(ConfigError, match="there is no form 'jax'"):
        make_rewards(world.references, "cpu", form=cast(Form, "jax"))
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="no CUDA device"):
            make_rewards(world.references, "cuda")


def test_without_numba_torch_takes_over() -> None:
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'numba' else find(name, *a)\n"
        "from naic.errors import MissingExtraError\n"
        "from naic.learn.cider.references import References\n"
        "from naic.learn.cider.rewards import TorchRewards, make_rewards\n"
        "from naic.text import Vocabulary\n"
        "r = References.build([['a b.'], ['b.']], Vocabulary.build(['a b'], more_than=0))\n"
        "assert isinstance(make_rewards(r, 'cpu'), TorchRewards)\n"
        "try: make_rewards(r, 'cpu', form='numba')\n"
        "except MissingExtraError as error: assert 'naic[train]' in str(error)\n"
        "else: raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_threads_take_turns(world: World) -> None:
    scorer = make_rewards(world.references, "cpu", form="numba")
    batches = [make_rows(world, seed, rows=200, choices=3) for seed in (20, 21)]
    expected = [scorer.judge(*batch) for batch in batches]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            for found, wanted in zip(
                pool.map(lambda batch: scorer.judge(*batch), batches), expected, strict=True
            ):
                assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize(
    ("cider", "bleu4"), [(0, 0), (-1, 2), (1, -1), (float("nan"), 1), (1, float("inf"))]
)
def test_a_mixture_of_nothing_is_refused(cider: float, bleu4: float) -> None:
    with pytest.raises(ConfigError, match="make no reward"):
        Mix(cider=cider, bleu4=bleu4)


@contextmanager
def forbidden_to_wait() -> Iterator[None]:
    """Any waiting of the host for the device is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.parametrize("mix", [Mix(), Mix(cider=0.7, bleu4=2)])
def test_on_a_gpu_without_waiting(world: World, mix: Mix) -> None:
    """The same scores as numba, in eager mode without a sync, in a CUDA graph, and compiled."""
    scorer, reference = (make_rewards(world.references, device, mix) for device in ("cuda", "cpu"))
    for rows in (1, 3, 50, 400):
        for choices in (1, 2, 5):
            cpu = make_rows(world, rows + choices, rows, choices)
            words, alternatives, images = (x.cuda() for x in cpu)
            scorer.judge(words, alternatives, images)
            scorer.score(words, images)  # both make their index
            with forbidden_to_wait():
                base, outcomes = scorer.judge(words, alternatives, images)
                score = scorer.score(words, images)
            for one, two in zip((base, outcomes), reference.judge(*cpu), strict=True):
                assert torch.allclose(one.cpu(), two, rtol=0, atol=EXACT)
            assert torch.equal(base, score)
            same = unchanged(cpu[0], cpu[1]).cuda()
            assert torch.equal(outcomes[same], base[:, None, None].expand_as(outcomes)[same])


@pytest.mark.gpu
def test_in_a_cuda_graph_and_compiled(world: World) -> None:
    scorer = make_rewards(world.references, "cuda")
    rows = [x.cuda() for x in make_rows(world, 0, 50, 2)]
    scorer.judge(*rows)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = scorer.judge(*rows)
    for seed in (1, 2):
        for static, fresh in zip(rows, make_rows(world, seed, 50, 2), strict=True):
            static.copy_(fresh)
        graph.replay()
        for one, two in zip(found, scorer.judge(*rows), strict=True):
            assert torch.equal(one, two)
    compiled = torch.compile(scorer.judge, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        fused = compiled(*rows)
    for one, two in zip(fused, scorer.judge(*rows), strict=True):
        assert torch.allclose(one, two, rtol=0, atol=EXACT)
