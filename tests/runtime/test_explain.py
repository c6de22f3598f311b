"""What all agents said, beside the caption that is made of it; and where they looked."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from naic.backbones.inside import backbone_digest, backbone_tensors
from naic.decode.wishes import Wishes, as_decoding
from naic.errors import ConfigError
from naic.models.decoder import DecoderLayer
from naic.models.folder import load_model
from naic.models.transformer import TransformerCaptioner
from naic.runtime.attention import recording
from naic.runtime.captioner import Captioner, Rescoring
from naic.runtime.explain import CHOICES, Explained, agents_of, can_look
from naic.runtime.sentences import Proposals
from naic.text import Vocabulary
from tests.runtime.small import CHAIN, LENGTH, NETWORK, PIXELS, WORDS, make_model

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (6, PIXELS, PIXELS, 3), np.uint8)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    make_model(folder / "plain", backbone=NETWORK)
    make_model(folder / "chain", backbone=NETWORK, transitions=4)
    own = backbone_digest(backbone_tensors(load_model(folder / "plain").model.state_dict()))
    make_model(folder / "teacher", "causal", seed=5, digest=own)
    return folder


@pytest.fixture(scope="module", params=["plain", "chain"])
def captioner(home: Path, request: pytest.FixtureRequest) -> Captioner:
    return Captioner(home / request.param, device="cpu", runtime="eager")


def said_by(explained: Explained) -> list[str]:
    return [agent.words[agent.said][0] for agent in explained.agents]


def check_whole(explained: Explained) -> None:
    """What is so of any agents."""
    for agent in explained.agents:
        chances = [chance for _, chance in agent.words]
        names = [text for text, _ in agent.words]
        assert 1 <= len(names) == len(set(names)) <= CHOICES
        others = [c for n, c in enumerate(chances) if n != agent.said]
        assert others == sorted(others, reverse=True)
        assert all(0 <= chance <= 1 for chance in chances)
        assert sum(chances) <= 1 + 1e-6
    said = said_by(explained)
    assert explained.end == (said.index(".") if "." in said else len(said))
    assert explained.seconds > 0


@pytest.mark.parametrize(
    "wishes",
    [
        {},
        {"forbid": "cat, dogs, looks"},
        {"prefer": "sofa"},
        {"max_words": 3},
        {"neutral": True},
    ],
)
def test_the_caption_is_that_of_say_and_made_of_the_agents_words(
    captioner: Captioner, wishes: Wishes
) -> None:
    for image in IMAGES:
        explained = captioner.explain(image, alternatives=3, **wishes)
        assert [explained.caption] == captioner.say(image[None], alternatives=3, **wishes)
        assert len(explained.agents) == LENGTH
        check_whole(explained)
        for word, agent in zip(explained.caption.words, explained.agents, strict=False):
            text, chance = agent.words[agent.said]
            assert word.text == text
            assert word.confidence == pytest.approx(chance, abs=1e-12)
            assert dict(word.alternatives).items() <= dict(agent.words).items()
        forbidden = {"cat", "dogs", "looks"} if "forbid" in wishes else set()
        assert all(forbidden.isdisjoint(dict(agent.words)) for agent in explained.agents)


def test_the_first_agent_of_a_chain_tells_all_that_it_could_have_said(home: Path) -> None:
    chain = Captioner(home / "chain", device="cpu", runtime="eager")
    first = chain.explain(IMAGES[0]).agents[0]
    assert len(first.words) == CHAIN
    assert sum(chance for _, chance in first.words) == pytest.approx(1)


def test_an_agent_that_may_say_nothing_ends_the_sentence(home: Path) -> None:
    captioner = Captioner(home / "plain", device="cpu", runtime="eager")
    words = [word for word in WORDS.words[4:] if word != "cat"]
    for image in IMAGES:
        explained = captioner.explain(image, forbid=words)
        assert [explained.caption] == captioner.say(image[None], forbid=words)
        check_whole(explained)
        assert set(said_by(explained)) <= {"cat", "."}


def test_words_without_guessed_genders_are_one() -> None:
    vocabulary = Vocabulary.build(["a man a woman a person rides"], more_than=0)
    ids = [vocabulary.id(word) for word in ("man", "woman", "rides", ".")]
    chances = np.log(np.array([0.4, 0.3, 0.2, 0.05], np.float32))
    own = Proposals(np.array([[ids, ids[::-1]]]), np.array([[chances, chances]]))
    agents, end = agents_of(own, own, vocabulary, as_decoding({"neutral": True}, 0))
    assert [text for text, _ in agents[0].words] == ["person", "rides", "."]
    assert agents[0].words[0][1] == pytest.approx(0.7)
    assert (agents[0].said, agents[1].words[0][0], end) == (0, ".", 1)


def test_a_teachers_choice_is_what_the_agents_said(home: Path) -> None:
    how = Rescoring(home / "teacher", choices=20)
    captioner = Captioner(home / "plain", device="cpu", runtime="eager", rescore=how)
    alone = Captioner(home / "plain", device="cpu", runtime="eager")
    others = 0
    for image in IMAGES:
        explained = captioner.explain(image)
        assert [explained.caption] == captioner.say(image[None])
        check_whole(explained)
        kept = [word.text for word in explained.caption.words]
        assert said_by(explained)[: len(kept)] == kept
        itself = alone.explain(image)
        others += said_by(itself) != said_by(explained)
        if said_by(itself) == said_by(explained):
            assert itself.agents == explained.agents
    assert others  # it chose something else now and then


def test_a_causal_model_has_no_agents(home: Path) -> None:
    causal = make_model(home / "causal", "causal", backbone=NETWORK)
    captioner = Captioner(causal, device="cpu", runtime="eager")
    assert can_look(captioner.engine) is None
    with pytest.raises(ConfigError, match="writes word by word"):
        captioner.explain(IMAGES[0])


def test_where_more_places_than_words_look_is_not_told(home: Path) -> None:
    made = make_model(home / "ctc", "ctc", backbone=NETWORK)
    explained = Captioner(made, device="cpu", runtime="eager").explain(IMAGES[0])
    assert len(explained.agents) == LENGTH
    assert explained.looks is None


def test_pixels_of_another_size_are_refused(captioner: Captioner) -> None:
    for wrong in (IMAGES, IMAGES[0, 1:], IMAGES[0].astype(float)):
        with pytest.raises(ConfigError, match=r"is not uint8"):
            captioner.explain(wrong)


def test_where_they_looked(captioner: Captioner) -> None:
    network = can_look(captioner.engine)
    assert network is not None
    one, other = (captioner.explain(image).looks for image in IMAGES[:2])
    assert one is not None
    assert other is not None
    side = PIXELS // 32
    assert one.grid == (side, side)
    assert one.weights.shape == (LENGTH, side * side)
    assert np.allclose(one.weights.sum(1), 1, atol=1e-12)
    assert (one.weights >= 0).all()
    assert not np.array_equal(one.weights, other.weights)
    again = captioner.explain(IMAGES[0]).looks
    assert again is not None
    assert np.array_equal(one.weights, again.weights)
    # Nothing of it stays with the network.
    decoder = network.decoder
    assert not decoder._forward_pre_hooks
    assert not any(module._forward_hooks for module in decoder.modules())


@pytest.mark.parametrize("masked", [False, True])
def test_the_weights_are_those_by_which_the_values_were_weighed(home: Path, masked: bool) -> None:
    """Times the values, through the output layer, they give what each module itself gave."""
    model = load_model(home / "chain").model
    assert isinstance(model, TransformerCaptioner)
    blind = load_model(home / "chain").spec.for_features(model, model.config, len(WORDS))
    assert isinstance(blind, TransformerCaptioner)
    torch.manual_seed(1)
    features = torch.randn(2, 4, 1280)
    mask = torch.tensor([[True] * 4, [True, True, False, True]]) if masked else None
    given: list[Tensor] = []
    for layer in blind.decoder.layers:
        assert isinstance(layer, DecoderLayer)
        layer.cross.register_forward_hook(lambda _m, _g, out: given.append(out))
    with torch.no_grad(), recording(blind) as recorded:
        blind(features, mask)
    weights = recorded.weights()
    assert recorded.memory is not None
    assert weights.shape == (1, 2, 2, LENGTH, 4)
    for number, layer in enumerate(blind.decoder.layers):
        assert isinstance(layer, DecoderLayer)
        seen = weights[number] @ recorded.memory.values[number]  # (B, H, T, d)
        with torch.no_grad():
            own = layer.cross.out(seen.transpose(1, 2).flatten(2))
        assert torch.allclose(own, given[number], atol=1e-6)
    if masked:
        assert (weights[:, 1, ..., 2] == 0).all()


def test_what_is_no_grid_has_none(home: Path) -> None:
    model = load_model(home / "plain").model
    blind: Any = load_model(home / "plain").spec.for_features(model, model.config, len(WORDS))
    with torch.no_grad(), recording(blind) as recorded:
        blind(torch.randn(1, 6, 1280))
    assert recorded.looks().grid is None
