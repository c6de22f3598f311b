"""What each stage makes of a batch, against slow and simple ways to find the same."""

import inspect
import itertools

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.policy import log_policy, spoken
from naic.decode.stepwise import greedy
from naic.learn.cider.rewards import Rewards
from naic.models.transformer import TransformerCaptioner
from naic.text import PAD, PERIOD
from naic.text.vocabulary import NEVER
from naic.train import cmal_stage
from naic.train.batches import Batch
from naic.train.settings import STAGE_NAMES
from naic.train.stages import STAGES
from tests.models.small import small
from tests.train.runs import CAPTIONER_OF
from tests.train.stage_cases import (
    A,
    B,
    C,
    Table,
    all_sentences,
    by_hand,
    gradients,
    make_batch,
    make_tools,
    part_of,
    real_rewards,
    saying,
    sentence,
)


def test_all_have_one_signature() -> None:
    signatures = {str(inspect.signature(stage.step)) for stage in STAGES.values()}
    assert len(signatures) == 1
    assert tuple(STAGES) == STAGE_NAMES == ("teacher_xe", "scst", "student_xe", "cmal")


def test_teacher_xe_is_the_mean_over_all_words() -> None:
    model, batch = small(causal=True), make_batch(3)
    loss, logs = STAGES["teacher_xe"].step(model, batch, make_tools("teacher_xe", model))
    words = batch.words
    expected = by_hand(model(batch.features, None, words), words) / int((words != PAD).sum())
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)
    assert logs.keys() == {"loss"}
    assert torch.equal(logs["loss"], loss.detach())
    assert not logs["loss"].requires_grad


@pytest.mark.parametrize("fill", [False, True])
def test_student_xe_hears_no_words(fill: bool) -> None:
    model, batch = small(causal=False), make_batch(3)
    targets = batch.words.clone()
    if fill:
        for image, caption in itertools.product(range(3), range(2)):
            if targets[image, caption, 0] != PAD:
                targets[image, caption][targets[image, caption] == PAD] = PERIOD
    batch = batch._replace(normaliser=torch.tensor(float((targets != PAD).sum())))
    loss, _ = STAGES["student_xe"].step(
        model, batch, make_tools("student_xe", model, xe={"fill": fill})
    )
    logits = model(batch.features, None).expand(-1, 2, -1, -1)
    expected = by_hand(logits, targets) / float(batch.normaliser)
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("stage", ["teacher_xe", "student_xe"])
def test_smoothing_reaches_the_loss(stage: str) -> None:
    model, batch = small(causal=stage == "teacher_xe"), make_batch()
    plain, smooth = (
        STAGES[stage].step(model, batch, make_tools(stage, model, xe={"smoothing": share}))[0]
        for share in (0.0, 0.1)
    )
    logits = model(batch.features, None, batch.words).expand(-1, 2, -1, -1)
    real = (batch.words != PAD)[..., None]
    even = -(logits.log_softmax(-1).mean(-1, keepdim=True) * real).sum() / batch.normaliser
    assert_close(smooth.double(), 0.9 * plain.double() + 0.1 * even, rtol=1e-6, atol=0)


def test_what_is_no_word_counts_in_teacher_xe_but_not_in_scst() -> None:
    model, batch = small(causal=True), make_batch()
    said = torch.tensor([[[A, B, PERIOD, PAD, PAD, PAD], [C, A, B, A, B, C]]] * 2)
    worth = {sentence(row): float(i) for i, row in enumerate(said[0].tolist())}
    tools = saying(make_tools("scst", model, Table(worth), scst={"samples": 2}), said)
    losses = []
    for change in (0.0, 7.0):
        with torch.no_grad():
            model.decoder.output.bias[list(NEVER)] += change
        losses.append(
            [
                float(STAGES[stage].step(model, batch, own)[0].detach())
                for stage, own in (("teacher_xe", make_tools("teacher_xe", model)), ("scst", tools))
            ]
        )
    assert losses[1][0] > losses[0][0] + 1  # UNK is said for once, the others never
    assert losses[1][1] == pytest.approx(losses[0][1], rel=1e-12)


def tiny_teacher() -> tuple[TransformerCaptioner, Batch, dict[tuple[int, ...], float]]:
    """A teacher that knows two words, for one image, and what its sentences are worth."""
    model = small(causal=True, words=B + 1, length=3)
    batch = make_batch(1, words=torch.full((1, 1, 3), PAD), length=3)
    worth = {said: (i * 7 % 16) / 8 for i, said in enumerate(all_sentences(3))}
    return model, batch, worth


def padded(said: tuple[int, ...]) -> list[int]:
    return [*said, *[PAD] * (3 - len(said))]


def log_prob(model: TransformerCaptioner, batch: Batch, said: tuple[int, ...]) -> Tensor:
    words = torch.tensor([[padded(said)]])
    log_probs = log_policy(model(batch.features, None, words))[0, 0]
    return torch.stack([log_probs[i, word] for i, word in enumerate(said)]).sum()


def expected_reward_gradient(
    model: TransformerCaptioner, batch: Batch, worth: dict[tuple[int, ...], float]
) -> tuple[list[Tensor], dict[tuple[int, ...], float]]:
    """Of minus the expected reward, and the chance of each sentence."""
    chances = {said: log_prob(model, batch, said).exp() for said in worth}
    total = torch.stack(list(chances.values())).detach().sum()
    assert float(total) == pytest.approx(1, abs=1e-12)
    expected = -torch.stack([chances[said] * worth[said] for said in worth]).sum()
    return gradients(expected, model), {said: float(p.detach()) for said, p in chances.items()}


def test_scst_with_leave_one_out_climbs_the_expected_reward() -> None:
    """The mean over all pairs of samples is the very gradient of the expected reward."""
    model, batch, worth = tiny_teacher()
    wanted, chances = expected_reward_gradient(model, batch, worth)
    tools = make_tools("scst", model, Table(worth), scst={"samples": 2})
    found = [torch.zeros_like(part) for part in wanted]
    for one, two in itertools.combinations(worth, 2):  # both orders give the same
        own = saying(tools, torch.tensor([[padded(one), padded(two)]]))
        loss, logs = STAGES["scst"].step(model, batch, own)
        assert float(logs["reward"]) == (worth[one] + worth[two]) / 2
        assert float(logs["baseline"]) == float(logs["reward"])
        assert float(logs["words"]) == (len(one) + len(two)) / 2
        if worth[one] != worth[two]:
            for total, part in zip(found, gradients(loss, model), strict=True):
                total += 2 * chances[one] * chances[two] * part
    assert max(float(part.abs().max()) for part in wanted) > 1e-3
    for one_part, other in zip(found, wanted, strict=True):
        assert_close(one_part, other, rtol=0, atol=1e-10)


def test_scst_with_the_greedy_baseline_climbs_it_too() -> None:
    model, batch, worth = tiny_teacher()
    wanted, chances = expected_reward_gradient(model, batch, worth)
    settings = {"samples": 1, "baseline": "greedy"}
    tools = make_tools("scst", model, Table(worth), scst=settings)
    said = greedy(model, model.encode(batch.features)).words[0].tolist()
    found = [torch.zeros_like(part) for part in wanted]
    for one in worth:
        loss, logs = STAGES["scst"].step(model, batch, saying(tools, torch.tensor([[padded(one)]])))
        assert float(logs["baseline"]) == worth[sentence(said)]
        for total, part in zip(found, gradients(loss, model), strict=True):
            total += chances[one] * part
    for one_part, other in zip(found, wanted, strict=True):
        assert_close(one_part, other, rtol=0, atol=1e-10)


def test_scst_scores_its_own_samples() -> None:
    """Each sample for its image's row, and with nothing stubbed."""
    model, batch = small(causal=True), make_batch(2)
    seen: list[tuple[Tensor, Tensor]] = []

    class Watching(Table):
        def score(self, words: Tensor, image_index: Tensor) -> Tensor:
            seen.append((words, image_index))
            return (words == A).sum(1).double()

    tools = make_tools("scst", model, Watching({}), scst={"samples": 3})
    torch.manual_seed(5)
    loss, logs = STAGES["scst"].step(model, batch._replace(rows=torch.tensor([8, 3])), tools)
    torch.manual_seed(5)
    sample = tools.spec.sample
    assert sample is not None
    words = sample(model, batch.features, None, 3)
    assert torch.equal(seen[0][0], words.flatten(0, 1))
    assert seen[0][1].tolist() == [8, 8, 8, 3, 3, 3]
    reward = (words == A).sum(2).double()
    advantage = reward - (reward.sum(1, keepdim=True) - reward) / 2
    picked = log_policy(model(batch.features, None, words)).gather(-1, words[..., None])[..., 0]
    expected = -(picked.masked_fill(~spoken(words), 0) * advantage[..., None]).sum() / 6
    assert_close(loss, expected, rtol=1e-6, atol=1e-9)
    assert float(logs["reward"]) == pytest.approx(float(reward.mean()), rel=1e-6)


@pytest.fixture(scope="module")
def rewards(tmp_path_factory: pytest.TempPathFactory) -> Rewards:
    return real_rewards(tmp_path_factory.mktemp("stores"))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("baseline", ["loo", "greedy"])
def test_parts_of_a_batch_add_up_to_the_whole(
    stage: str, baseline: str, rewards: Rewards, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = small(causal=CAPTIONER_OF[stage] == "causal"), make_batch(4)
    tables = {"scst": {"samples": 2, "baseline": baseline}} if stage == "scst" else {}
    tools = make_tools(stage, model, rewards if tables or stage == "cmal" else None, **tables)
    # Chance must not differ between the two ways.
    monkeypatch.setattr(cmal_stage, "choose", lambda log_probs: log_probs.topk(2).indices[..., 1])
    said = torch.tensor([[[A, B, PERIOD, PAD, PAD, PAD], [7, A, 8, A, B, C]]])
    drawn = torch.cat([said, said.flip(1), said.masked_fill(said == A, 9), said])

    def run(own: slice) -> tuple[Tensor, dict[str, Tensor]]:
        part = part_of(batch, own)
        return STAGES[stage].step(model, part, saying(tools, drawn[own]))

    whole, logs = run(slice(None))
    parts = [run(slice(0, 1)), run(slice(1, 4))]
    assert_close(parts[0][0] + parts[1][0], whole, rtol=1e-6, atol=1e-9)
    assert logs.keys() == parts[0][1].keys()
    for name, value in logs.items():
        assert_close(parts[0][1][name] + parts[1][1][name], value, rtol=1e-6, atol=1e-7)
    expected = gradients(whole, model)
    found = [gradients(loss, model) for loss, _ in parts]
    assert max(float(part.abs().max()) for part in expected) > 1e-4
    for one, two, both in zip(*found, expected, strict=True):
        assert_close(one + two, both, rtol=1e-5, atol=1e-8)
