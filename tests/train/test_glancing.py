"""xe.glance: which words are shown, what is learnt then, and that nothing is shown later."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from naic.data.features import FeatureStore
from naic.decode.decoding import Decoding
from naic.errors import ConfigError
from naic.models.decoder import Decoder
from naic.models.transformer import PARALLEL
from naic.text import PAD, PERIOD
from naic.train import glancing
from naic.train.config import check
from naic.train.engine import TrainingEngine
from naic.train.stages import STAGES
from tests.models.small import images, small
from tests.train.runs import make_engine, make_learnable_store, make_settings
from tests.train.stage_cases import A, B, C, by_hand, gradients, make_batch, make_tools


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return make_learnable_store(tmp_path_factory.mktemp("stores") / "store")


def engine_of(store: FeatureStore, **xe: Any) -> TrainingEngine:
    return make_engine(make_settings(store.folder, Path("out"), "student_xe", xe=xe), store)


def captions(count: int) -> tuple[Tensor, Tensor]:
    """What is said (B, 1, 5) and is to be said (B, 2, 5): 3 of 4 words wrong, and none of 2."""
    said = torch.tensor([A, B, C, PERIOD, PERIOD]).expand(count, 1, -1)
    words = torch.tensor([[A, C, B, 9, PAD], [A, B, PAD, PAD, PAD]]).expand(count, -1, -1)
    return said, words


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_the_share_is_of_what_would_be_wrong(share: float) -> None:
    torch.manual_seed(0)
    said, words = captions(4000)
    shown = glancing.choose_shown(said, words, share)
    assert not (shown & (words == PAD)).any()
    counts = shown.sum(-1)  # (4000, 2)
    assert not counts[:, 1].any()  # all of them right: nothing is shown
    lowest, exact = int(3 * share), 3 * share
    assert set(counts[:, 0].tolist()) == ({3} if share == 1 else {lowest, lowest + 1})
    assert float(counts[:, 0].float().mean()) == pytest.approx(exact, abs=0.03)
    # Which of the four is by chance, right ones too.
    assert_close(shown[:, 0, :4].float().mean(0), torch.full((4,), exact / 4), atol=0.03, rtol=0)


def test_a_caption_that_is_not_there_is_not_shown() -> None:
    said = torch.tensor([[[A, B]]])
    assert not glancing.choose_shown(said, torch.full((1, 3, 2), PAD), 1.0).any()


def choosing(monkeypatch: pytest.MonkeyPatch, shown: Tensor) -> None:
    monkeypatch.setattr(glancing, "choose_shown", lambda *_: shown)


@pytest.mark.parametrize("fill", [False, True])
def test_shown_words_are_given_and_not_learnt(fill: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = small(causal=False), make_batch(3)
    targets = batch.words.clone()
    if fill:
        targets[:, 0][targets[:, 0] == PAD] = PERIOD
        batch = batch._replace(normaliser=torch.tensor(float((targets != PAD).sum())))
    shown = torch.zeros_like(targets, dtype=torch.bool)
    shown[0, 0, 1] = shown[0, 1, 3] = shown[2, 1, 0] = True
    choosing(monkeypatch, shown)
    tools = make_tools("student_xe", model, xe={"glance": 0.5, "fill": fill})
    loss, logs = STAGES["student_xe"].step(model, batch, tools)
    logits = model(batch.features, None, shown=targets.masked_fill(~shown, PAD))
    assert logits.shape == (3, 2, 6, 12)
    rest = targets.masked_fill(shown, PAD)
    expected = by_hand(logits, rest) / int((rest != PAD).sum())  # the mean over what counts
    assert float(loss.detach()) == pytest.approx(expected, rel=1e-6)
    assert float(logs["shown"]) == pytest.approx(3 / float(batch.normaliser))
    free = logits.detach().requires_grad_()
    (slope,) = torch.autograd.grad(tools.cross_entropy(free, rest), [free])
    assert not slope[shown].any()
    assert slope[rest != PAD].any(-1).all()


def test_nothing_shown_is_the_plain_model_to_the_bit() -> None:
    model, features = small(causal=False), images(3)
    plain = model(features)
    assert torch.equal(model(features, None, shown=torch.full((3, 1, 6), PAD)), plain)
    told = model(features, None, shown=torch.full((3, 2, 6), PAD))
    assert_close(told, plain.expand(-1, 2, -1, -1))


def test_the_others_hear_what_one_is_shown() -> None:
    model, features = small(causal=False), images(2)
    shown = torch.full((2, 2, 6), PAD)
    shown[0, 1, 2] = A
    plain, told = model(features), model(features, None, shown=shown)
    same = torch.isclose(told, plain).all(-1)  # (2, 2, 6)
    assert same[1].all()
    assert same[0, 0].all()
    assert not same[0, 1].any()


def test_the_output_rows_learn_from_speaking_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that is shown and is nobody's target moves as all words do: by the normaliser."""
    model, batch = small(causal=False), make_batch(1)
    shown = torch.zeros_like(batch.words, dtype=torch.bool)
    shown[0, 0, 0] = True
    choosing(monkeypatch, shown)
    tools = make_tools("student_xe", model, xe={"glance": 0.5})
    loss, _ = STAGES["student_xe"].step(model, batch, tools)
    (found,) = torch.autograd.grad(loss, [model.decoder.output.weight])
    told = batch.words.masked_fill(~shown, PAD)
    heard: dict[str, Tensor] = {}
    model.decoder.norm.register_forward_hook(lambda *got: heard.update(x=got[2]))
    logits = model(batch.features, None, shown=told)
    rest = batch.words.masked_fill(shown, PAD)
    scale = 1 / int((rest != PAD).sum())
    wrong = logits.softmax(-1) - torch.nn.functional.one_hot(rest, 12)  # (1, 2, 6, 12)
    wrong = wrong * (rest != PAD)[..., None]
    expected = scale * torch.einsum("bcnv,bcnd->vd", wrong, heard["x"])
    assert_close(found, expected)


def test_a_whole_share_shows_as_many_as_are_wrong() -> None:
    model, batch = small(causal=False), make_batch(3)
    said = model(batch.features)[..., [0, *range(4, 12)]].argmax(-1)
    said = torch.where(said > 0, said + 3, 0)  # BOS, UNK and PAD are never said
    wrong = int(((said != batch.words) & (batch.words != PAD)).sum())
    assert wrong > 0
    tools = make_tools("student_xe", model, xe={"glance": 1.0})
    _, logs = STAGES["student_xe"].step(model, batch, tools)
    assert float(logs["shown"]) == pytest.approx(wrong / float(batch.normaliser))


def test_all_shown_is_no_loss_and_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = small(causal=False), make_batch(2)
    choosing(monkeypatch, batch.words != PAD)
    tools = make_tools("student_xe", model, xe={"glance": 1.0})
    loss, _ = STAGES["student_xe"].step(model, batch, tools)
    assert float(loss.detach()) == 0
    assert not any(gradient.any() for gradient in gradients(loss, model))


def test_nothing_is_shown_when_it_speaks(
    store: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(store, glance=0.5)

    def refuse(*_: object) -> None:
        raise AssertionError("a word was shown")

    monkeypatch.setattr(Decoder, "_show", refuse)
    features = torch.randn(2, 2, store.dim)
    for training in (True, False):
        engine.plain.train(training)
        PARALLEL.caption(engine.plain, features, None, Decoding())
    with pytest.raises(AssertionError, match="a word was shown"):
        engine.step(0, 1e-3)


def test_steps_learn_and_a_restored_run_goes_on_alike(store: FeatureStore) -> None:
    unbroken, other = engine_of(store, glance=0.5), engine_of(store, glance=0.5)
    logs = [unbroken.step(number, 3e-3) for number in range(40)]
    assert float(logs[-1]["loss"]) < 0.8 * float(logs[0]["loss"])
    other.restore(*({n: t.clone() for n, t in part.items()} for part in unbroken.tensors()))
    for number in (40, 41):
        one, two = unbroken.step(number, 3e-3), other.step(number, 3e-3)
        assert {n: float(v) for n, v in one.items()} == {n: float(v) for n, v in two.items()}


def test_words_are_shown_through_the_wrapper_of_several_processes(tmp_path: Path) -> None:
    model, batch = small(causal=False), make_batch(2)
    tools = make_tools("student_xe", model, xe={"glance": 0.5})
    torch.manual_seed(3)
    alone = gradients(STAGES["student_xe"].step(model, batch, tools)[0], model)
    where = f"file://{tmp_path / 'meeting'}"
    torch.distributed.init_process_group("gloo", init_method=where, world_size=1, rank=0)
    try:
        torch.manual_seed(3)
        loss, _ = STAGES["student_xe"].step(DistributedDataParallel(model), batch, tools)
        torch.autograd.backward(loss)
    finally:
        torch.distributed.destroy_process_group()
    for own, parameter in zip(alone, model.parameters(), strict=True):
        assert parameter.grad is not None
        assert_close(parameter.grad, own)


def test_only_the_students_cross_entropy_glances() -> None:
    for stage in ("teacher_xe", "student_xe"):
        settings = make_settings(Path("s"), Path("out"), stage, xe={"glance": 0.3})
        if stage == "student_xe":
            check(settings)
            continue
        with pytest.raises(ConfigError, match=r"xe\.glance"):
            check(settings)
    with pytest.raises(ConfigError, match=r"1.5 is not between 0 and 1"):
        check(make_settings(Path("s"), Path("out"), "student_xe", xe={"glance": 1.5}))
