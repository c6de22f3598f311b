"""Agents that hear each other: their stages against a list of all sentences."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from naic.decode.policy import log_policy
from naic.models.captioners import take_weights
from naic.models.chain import Chain
from naic.models.transformer import TransformerCaptioner
from naic.text import PAD, PERIOD, UNK
from naic.train import chain_stages
from naic.train.chain_stages import transitions_of
from naic.train.stages import STAGES
from naic.train.tools import Tools
from tests.models.small import FEATURES, small
from tests.train.games import apart
from tests.train.stage_cases import A, B, C, Table, gradients, make_batch, make_tools, part_of

LENGTH, WORDS, EXACT = 3, 8, 1e-12
BATCH = make_batch(1, words=torch.full((1, 1, LENGTH), PAD), length=LENGTH)
Sentence = tuple[int, ...]


def chained(seed: int = 0, choices: int = 3, *, fresh: bool = False) -> TransformerCaptioner:
    plain = small(causal=False, seed=seed, words=WORDS, length=LENGTH)
    config = replace(plain.config, transitions=2, choices=choices)
    model = TransformerCaptioner(config, FEATURES, WORDS, causal=False).double().eval()
    take_weights(model, plain.state_dict())
    assert model.transitions is not None
    for parameter in [] if fresh else model.transitions.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model


def said_by(model: TransformerCaptioner, features: Tensor) -> Chain:
    assert model.transitions is not None
    logits, context = model(features, None)
    return model.transitions.chain(logits[:, 0], context[:, 0])


def chances(chain: Chain) -> dict[Sentence, Tensor]:
    """Of every sentence of the first image, with gradients, by listing them."""
    scores: dict[Sentence, Tensor] = {}
    for places in itertools.product(range(chain.words.shape[-1]), repeat=LENGTH):
        words = [int(chain.words[0, n, i]) for n, i in enumerate(places)]
        end = words.index(PERIOD) if PERIOD in words else LENGTH - 1
        score = chain.scores[0, 0, places[0]]
        for n in range(end):
            score = score + chain.pairs[0, n, places[n], places[n + 1]]
            score = score + chain.scores[0, n + 1, places[n + 1]]
        scores[tuple(words[: end + 1])] = score
    normaliser = torch.stack(list(scores.values())).logsumexp(0)
    return {sentence: (score - normaliser).exp() for sentence, score in scores.items()}


def loss_by_listing(model: TransformerCaptioner, features: Tensor, caption: list[int]) -> float:
    """-log p of one caption of one image: every candidate list made by hand."""
    assert model.transitions is not None
    logits, context = model(features, None)
    scores = log_policy(logits[0, 0])  # (N, V)
    rows = []
    for agent, target in enumerate(caption):
        own = scores[agent].topk(model.transitions.choices).indices.tolist()
        if target not in (UNK, PAD) and target not in own:
            own[-1] = target
        rows.append(own)
    words = torch.tensor([rows])
    pairs = model.transitions.pairs(words, context[:, 0])
    chain = Chain(words, scores[None].gather(-1, words), pairs)
    real = caption[: caption.index(PAD)] if PAD in caption else caption
    total = 0.0
    for sentence, chance in chances(chain).items():
        fits = len(sentence) == len(real) and all(
            word == target or (target == UNK and word != PERIOD)
            for word, target in zip(sentence, real, strict=True)
        )
        total += float(chance.detach()) if fits else 0.0
    return -math.log(total) if real else 0.0


CAPTIONS = torch.tensor(
    [
        [[A, B, PERIOD], [PERIOD, PAD, PAD], [C, 7, A]],  # the last has no period: it is cut off
        [[PAD, PAD, PAD], [UNK, B, PERIOD], [A, UNK, UNK]],
    ]
)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_captions_as_a_whole_and_word_by_word(seed: int, weight: float) -> None:
    model, batch = chained(seed), make_batch(2, words=CAPTIONS, length=LENGTH)
    tools = make_tools("student_xe", model, xe={"words": weight})
    loss, logs = STAGES["student_xe"].step(model, batch, tools)
    exact = sum(
        loss_by_listing(model, batch.features[row : row + 1], caption)
        for row in range(2)
        for caption in CAPTIONS[row].tolist()
    )
    total = float(batch.normaliser)
    assert float(logs["loss_sentences"]) == pytest.approx(exact / total, abs=1e-9)
    logits = model(batch.features, None).logits
    words = float(tools.cross_entropy(logits, batch.words).detach()) / total
    assert float(logs["loss_words"]) == pytest.approx(words, abs=1e-6)
    assert float(loss.detach()) == pytest.approx(exact / total + weight * words, abs=1e-6)


def test_parts_of_a_batch_add_up_and_a_caption_that_is_not_there_teaches_nothing() -> None:
    model, batch = chained(), make_batch(2, words=CAPTIONS, length=LENGTH)
    tools = make_tools("student_xe", model)
    whole = gradients(STAGES["student_xe"].step(model, batch, tools)[0], model)
    parts = [
        gradients(STAGES["student_xe"].step(model, part_of(batch, own), tools)[0], model)
        for own in (slice(0, 1), slice(1, 2))
    ]
    assert apart(whole, [a + b for a, b in zip(*parts, strict=True)]) < EXACT
    silent = batch._replace(words=torch.full_like(CAPTIONS, PAD))
    found = gradients(STAGES["student_xe"].step(model, silent, tools)[0], model)
    assert all(not part.any() for part in found)


class Game:
    """A captioner, what its sentences are worth, and the exact gradient of the expected reward."""

    def __init__(self, seed: int, choices: int = 2) -> None:
        self.model = chained(seed, choices)
        listing = chances(said_by(self.model, BATCH.features))
        generator = torch.Generator().manual_seed(seed)
        worth = 4 * torch.rand(len(listing), generator=generator, dtype=torch.float64)
        assert len({*map(len, listing)}) > 1, "sentences of one length only"
        self.worth = dict(zip(listing, worth.tolist(), strict=True))
        expected = torch.stack([p * self.worth[s] for s, p in listing.items()]).sum()
        self.exact = gradients(-expected, self.model)
        self.chances = {sentence: float(p.detach()) for sentence, p in listing.items()}

    def tools(self, **cmal: Any) -> Tools:
        return make_tools("cmal", self.model, Table(self.worth), cmal=cmal)

    def expected_gradient(self, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
        """The mean of the stage's gradient over all that can be sampled, as often as it is."""
        total = [torch.zeros_like(part) for part in self.exact]
        for teams in itertools.product(self.chances, repeat=tools.settings.cmal.samples):
            rows = [[*team, *[PERIOD] * (LENGTH - len(team))] for team in teams]
            monkeypatch.setattr(chain_stages, "sample", sampling(rows))
            loss, _ = STAGES["cmal"].step(self.model, BATCH, tools)
            chance = math.prod(self.chances[team] for team in teams)
            for part, own in zip(total, gradients(loss, self.model), strict=True):
                part.add_(own, alpha=chance)
        return total


def sampling(rows: list[list[int]]) -> Callable[..., Tensor]:
    return lambda *_: torch.tensor([rows])


@pytest.mark.parametrize(
    "cmal",
    [
        {"baseline": "none"},
        {"baseline": "sc"},
        {"baseline": "ma"},
        {"baseline": "loo", "samples": 2},
    ],
    ids=lambda cmal: str(cmal["baseline"]),
)
def test_no_baseline_changes_the_expected_gradient(
    cmal: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    game = Game(0, choices=4 - cmal.get("samples", 1))
    tools = game.tools(**cmal)
    if tools.moving is not None:
        tools.moving.update(torch.tensor(1.7))
    found = game.expected_gradient(tools, monkeypatch)
    assert max(float(part.abs().max()) for part in game.exact) > 0.05
    assert apart(found, game.exact) < EXACT


class Unjudged(Table):
    """Images without references: nothing said of them is worth anything."""

    def of(self, words: list[int]) -> float:
        return 0.0

    def judges(self, image_index: Tensor) -> Tensor:
        return torch.zeros_like(image_index, dtype=torch.bool)


def test_images_without_references_are_compared_with_no_other_images() -> None:
    model = chained()
    tools = make_tools("cmal", model, Unjudged({}), cmal={"baseline": "ma"})
    assert tools.moving is not None
    tools.moving.update(torch.tensor(0.7))
    loss, logs = STAGES["cmal"].step(model, BATCH, tools)
    assert float(logs["baseline"]) == 0
    assert not any(part.any() for part in gradients(loss, model))


def test_what_is_biased_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would prove nothing: the agent that said the period is left out."""
    game = Game(0)

    def wrong(reward: Tensor, baseline: Tensor, said: Tensor) -> Tensor:
        last = said.long().cumsum(-1) == said.long().sum(-1, keepdim=True)
        return torch.where(said & ~last, (reward - baseline)[..., None], 0.0)

    monkeypatch.setattr(chain_stages, "team_advantage", wrong)
    found = game.expected_gradient(game.tools(baseline="none"), monkeypatch)
    assert apart(found, game.exact) > 1e-2


def test_what_is_logged_and_the_weights_of_entropy_and_captions() -> None:
    game = Game(2)
    torch.manual_seed(0)
    plain, logs = STAGES["cmal"].step(game.model, BATCH, game.tools(baseline="loo", samples=4))
    unsure = -sum(p * math.log(p) for p in game.chances.values())
    speaking = sum(p * len(sentence) for sentence, p in game.chances.items())
    assert float(logs["entropy"]) == pytest.approx(unsure / speaking, abs=1e-9)
    assert {"reward", "baseline", "words", "sampled_repeats", "advantage_03"} <= logs.keys()
    caption = torch.tensor([[[A, PERIOD, PAD]]])
    batch = BATCH._replace(words=caption, normaliser=torch.tensor(2.0))
    both = game.tools(baseline="loo", samples=4, entropy=0.3, xe=0.2)
    torch.manual_seed(0)
    loss, _ = STAGES["cmal"].step(game.model, batch, both)
    own = loss_by_listing(game.model, BATCH.features, [A, PERIOD, PAD]) / 2
    expected = float(plain.detach()) - 0.3 * unsure / speaking + 0.2 * own
    assert float(loss.detach()) == pytest.approx(expected, abs=1e-6)
    assert all(bool(part.isfinite().all()) for part in gradients(loss, game.model))


def test_how_far_it_is_from_the_start_model() -> None:
    game = Game(2)
    tools = game.tools(baseline="loo", samples=4, kl=0.3)
    still, logs = STAGES["cmal"].step(game.model, BATCH, tools)
    assert float(logs["kl"]) == pytest.approx(0, abs=1e-12)
    assert all(bool(part.isfinite().all()) for part in gradients(still, game.model))
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in game.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    assert tools.start is not None
    chain = said_by(game.model, BATCH.features)
    start = transitions_of(tools.start)
    assert start is not None
    logits, context = tools.start(BATCH.features, None)
    before = chances(start.chain(logits[:, 0], context[:, 0], chain.words))
    now = {sentence: float(p.detach()) for sentence, p in chances(chain).items()}
    apart = sum(p * math.log(p / float(before[s].detach())) for s, p in now.items())
    speaking = sum(p * len(sentence) for sentence, p in now.items())
    _, logs = STAGES["cmal"].step(game.model, BATCH, tools)
    assert float(logs["kl"]) == pytest.approx(apart / speaking, rel=1e-6)
    assert apart > 1e-4
