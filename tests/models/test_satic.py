"""SATIC: what its groups hear, and how many times the decoder is asked for a sentence.

What holds of all that write word by word is in test_writers.py: a later group changes nothing
before it, steps are the whole sentence, beams are those of a simple search.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.policy import log_policy, spoken
from naic.decode.stepwise import beam_search, greedy, sample
from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS, take_weights
from naic.models.satic import SATIC, GroupCaptioner, GroupConfig
from naic.models.transformer import TransformerCaptioner
from naic.runtime.fuse import fuse_layers
from naic.text.vocabulary import PAD, PERIOD
from tests.models.small import FEATURES, SIZES, images, small

MASK = torch.arange(4) < torch.tensor([4, 1, 3])[:, None]
LENGTH, WORDS = 6, 12


def make(group: int, *, length: int = LENGTH, seed: int = 0) -> GroupCaptioner:
    """With the weights of `small`'s causal captioner."""
    sizes = {**vars(SIZES), "length": length, "group": group}
    model = GroupCaptioner(GroupConfig(**sizes), FEATURES, WORDS).double().eval()
    taken = take_weights(model, small(causal=True, seed=seed).state_dict())
    assert (taken.reset, taken.unused) == ((), ())  # it starts from a teacher as it is
    return model


@torch.no_grad()
def test_groups_of_one_are_the_causal_captioner() -> None:
    model, causal, features = make(1), small(causal=True), images(3)
    words = torch.randint(WORDS, (3, 2, LENGTH))
    assert torch.equal(model(features, MASK, words), causal(features, MASK, words))
    memory = model.encode(features, MASK)
    assert torch.equal(greedy(model, memory).words, greedy(causal, memory).words)
    own, other = (beam_search(one, memory, 3, 3) for one in (model, causal))
    assert torch.equal(own.words, other.words)
    assert_close(own.scores, other.scores)


@pytest.mark.parametrize("group", [2, 3, 4, 6, 9])
@torch.no_grad()
def test_what_a_place_hears(group: int) -> None:
    """Every word of the groups before its own, and no other; also if the last group is cut."""
    model, features = make(group), images(1)
    words = torch.randint(4, WORDS, (1, 1, LENGTH))
    whole = model(features, None, words)[0, 0]
    for place in range(LENGTH):
        changed = words.clone()
        changed[..., place] = 4 + (words[..., place] - 3) % (WORDS - 4)
        differs = (model(features, None, changed)[0, 0] != whole).any(-1)
        assert differs.tolist() == [n // group > place // group for n in range(LENGTH)]


@pytest.mark.parametrize("group", [1, 2, 3, 4, 9])
@torch.no_grad()
def test_a_sentence_takes_one_pass_for_each_group(
    group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, features = make(group), images(3)
    model.decoder.output.bias[PERIOD] = -1e4  # sentences of full length
    asked: list[int] = []
    layer: Any = model.decoder.layers[0]
    inside = layer.step

    def count(*given: Tensor) -> Tensor:
        asked.append(len(given))
        found: Tensor = inside(*given)
        return found

    monkeypatch.setattr(layer, "step", count)
    words = greedy(model, model.encode(features, MASK)).words
    assert bool(spoken(words).all())
    assert len(asked) == -(-LENGTH // group)
    said = log_policy(model(features, MASK, words[:, None]))[:, 0].argmax(-1)
    assert torch.equal(said, words)  # of the whole sentence, read at once


@pytest.mark.parametrize("group", [2, 4])
@torch.no_grad()
def test_what_is_sampled_has_the_probability_that_learning_gives_it(group: int) -> None:
    """Learning by rewards reads whole sentences that were written group by group."""
    torch.manual_seed(3)
    model, features = make(group), images(3)
    words, log_probs = sample(model, model.encode(features, MASK), 5)
    own = spoken(words)
    policy = log_policy(model(features, MASK, words))
    said = policy.gather(-1, words.where(own, PERIOD)[..., None])[..., 0]
    assert_close(log_probs, said.where(own, 0.0), rtol=0, atol=1e-10)
    assert bool((words[~own] == PAD).all())


@torch.no_grad()
def test_in_fewer_kernels_it_says_the_same() -> None:
    """The layers that a GPU is given in half precision, here in full."""
    model, fused, features = make(2), make(2), images(3)
    fuse_layers(fused)
    assert type(fused.decoder.layers[0]) is not type(model.decoder.layers[0])
    words = torch.randint(WORDS, (3, 2, LENGTH))
    assert_close(fused(features, MASK, words), model(features, MASK, words))
    own, other = (SATIC.beams(one, features, MASK, 3, 3) for one in (model, fused))  # type: ignore[misc]
    assert torch.equal(own.words, other.words)


@pytest.mark.slow
@torch.no_grad()
def test_a_compiled_step_is_compiled_once_for_each_word_of_a_group() -> None:
    """As `naic benchmark` has it; the turn is a number of the host's."""
    compiled: list[Any] = []

    def keep(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    model, features = make(2), images(2)
    expected = greedy(model, model.encode(features)).words
    model.step = torch.compile(model.step, backend=keep, dynamic=False)  # type: ignore[method-assign]
    said = greedy(model, model.encode(features)).words
    torch.compiler.reset()
    assert torch.equal(said, expected)
    assert len(compiled) == 2


@pytest.mark.parametrize("group", [0, 65])
def test_what_cannot_be_is_refused(group: int) -> None:
    with pytest.raises(ConfigError, match=r"model\.group"):
        GroupConfig(group=group)


def test_without_words_it_cannot_learn() -> None:
    assert CAPTIONERS["satic"] is SATIC
    assert isinstance(make(2), TransformerCaptioner)
    with pytest.raises(ValueError, match="group by group needs the words"):
        make(2)(images(1))
