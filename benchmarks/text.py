"""How long it takes from what a network proposes to the text of captions, beside the way before.

    python -m benchmarks.text --out docs/results/speed/text/cpu.json

On the host, in microseconds an image: the search for the likeliest sentence; the texts, search
included; whole captions with the confidence of each word and its alternatives; and the texts as
they were had before, by way of whole captions. That way is kept here: which word is the best before
each other was found of all words, probabilities of all sentences were worked out, and each text was
taken apart again to see that it reads as it was meant. All take turns in one run; what they say is
compared first. The times are of the process, so that others on the machine count less, and the
least of several rounds. No text is kept from one call to the next.

The proposals are those of the model inside naic for parts of scikit-image's photos, each another,
and the same without the transitions between neighbours. With --made-up they are of chance.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from benchmarks.demo_photos import photos

from naic import __version__
from naic.decode.decoding import CHOICES, IMPOSSIBLE, READABLE, Decoding, LogProbs, Words
from naic.device import Place
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.runtime.captioner import Captioner, shipped_model
from naic.runtime.sentences import Caption, Proposals, _caption, places_said, texts, write
from naic.runtime.wording import Wording
from naic.tasks.benchmark.timing import machine
from naic.text.tokeniser import tokenise
from naic.text.vocabulary import PERIOD, SPECIAL, Vocabulary, _join, _spell

AGENTS, CANDIDATES = 16, 16
ENDING = 10  # the agent, from 0 on, from which on sentences end
ROUNDS, SECONDS = 15, 0.1
BATCHES = (1, 16, 256)
LEAST = 0.4  # of a photo's sides, that a part of it has


def made_up(batch: int, vocabulary: Vocabulary, seed: int = 0) -> Proposals:
    """Random ones as a trained network's: each agent is sure of few words, and near ones agree."""
    random = np.random.default_rng(seed)
    usual = [i for i, word in enumerate(vocabulary.words) if word.isalpha() and i >= len(SPECIAL)]
    shape = (batch, AGENTS, CANDIDATES)
    words = random.choice(usual[:2000], (batch, AGENTS + 1, CANDIDATES))
    words[:, 1:, CANDIDATES // 2 :] = words[:, :-1, CANDIDATES // 2 :]  # as neighbours' are
    words = words[:, 1:].copy()
    words[:, :ENDING, -1] = words[:, ENDING:, 0] = PERIOD
    chances = random.dirichlet(np.full(CANDIDATES, 0.1), shape[:2])
    log_probs = np.log(-np.sort(-chances) + 1e-9).astype(np.float32)
    pairs = random.normal(0, 1, (batch, AGENTS - 1, CANDIDATES, CANDIDATES)).astype(np.float32)
    return Proposals(words, log_probs, pairs)


def of_photos(count: int, captioner: Captioner, seed: int = 0) -> Proposals:
    """What the model proposes to say of so many parts of photos."""
    random = np.random.default_rng(seed)
    whole = [open_image(path) for path in photos()]
    side = captioner.engine.pixels
    pixels = np.empty((count, side, side, 3), np.uint8)
    for number in range(count):
        image = whole[number % len(whole)]
        wide, high = (int(length * random.uniform(LEAST, 1)) for length in image.size)
        left, top = random.integers(0, (image.width - wide + 1, image.height - high + 1)).tolist()
        part = image.crop((left, top, left + wide, top + high))
        pixels[number] = square_pixels(part, side)
    return captioner.engine(pixels)


def first(said: Proposals, count: int) -> Proposals:
    """Those of the first images."""
    return Proposals(*(None if own is None else own[:count] for own in said))  # type: ignore[arg-type]


def alone(said: Proposals) -> Proposals:
    """The same of a model without transitions."""
    return Proposals(said.words[..., :CHOICES], said.log_probs[..., :CHOICES])


class Before(Wording):
    """Texts as they were made before: each is taken apart again."""

    def text(self, kept: Sequence[int]) -> str:
        """What people read."""
        tokens = [self.vocabulary.word(id_) for id_ in kept]
        spelled = [_spell(token) for token in tokens]
        readable = _join(tokens, spelled)
        tried = (readable, " ".join(spelled), "  ".join(spelled))
        return next((text for text in tried if tokenise(text) == tokens), readable)


def before(said: Proposals, vocabulary: Vocabulary, how: Decoding = READABLE) -> list[Caption]:
    """The captions as they were found before."""
    words, log_probs = (array.tolist() for array in _spoken(said, repeats=how.repeats))
    wording = Before(vocabulary, how)
    return [_caption(wording, None, *row, None) for row in zip(words, log_probs, strict=True)]


def _spoken(said: Proposals, *, repeats: bool) -> tuple[Words, LogProbs]:
    words, log_probs, pairs = said
    chosen = np.zeros(words.shape[:2], np.intp)
    if pairs is not None:
        chosen = _best(*said, repeats=True)
    spoken = np.take_along_axis(words, chosen[..., None], -1)[..., 0]
    speaking = ~np.logical_or.accumulate(spoken == PERIOD, axis=1)
    again = ((spoken[:, 1:] == spoken[:, :-1]) & speaking[:, 1:]).any(1) & (not repeats)
    if again.any():
        heard = None if pairs is None else pairs[again]
        chosen[again] = _best(words[again], log_probs[again], heard, repeats=False)
    own: LogProbs = log_probs
    costs: npt.NDArray[Any] = np.arange(words.shape[-1])
    if pairs is not None:
        own = _after(words, log_probs, pairs, chosen)
        costs = -own
    order = np.where(np.arange(words.shape[-1]) == chosen[..., None], -np.inf, costs)
    order = order.argsort(-1, kind="stable")[..., : words.shape[-1] if pairs is None else CHOICES]
    return np.take_along_axis(words, order, -1), np.take_along_axis(own, order, -1)


def _best(words: Words, log_probs: LogProbs, pairs: LogProbs | None, *, repeats: bool) -> Words:
    rows, agents, choices = words.shape
    scores = np.maximum(log_probs, IMPOSSIBLE)
    same = (words[:, :-1, :, None] == words[:, 1:, None]) & (not repeats)
    heard = np.where(same, -np.inf, 0.0 if pairs is None else pairs).astype(scores.dtype)
    ends = words == PERIOD
    start, reached = np.zeros_like(scores), np.where(ends, -np.inf, scores)
    if not repeats:
        start[:, 0] = np.where(ends[:, 0], -np.inf, 0.0)
    for agent in range(1, agents):
        start[:, agent] = (reached[:, agent - 1, :, None] + heard[:, agent - 1]).max(1)
        reached[:, agent] += start[:, agent]
    links = (reached[:, :-1, :, None] + heard).argmax(2).tolist()
    total = start + scores
    if pairs is None:
        rest = scores[..., 0]
        total += (rest.sum(1, keepdims=True) - np.cumsum(rest, 1))[..., None]
    ends[:, -1] = True
    best = np.where(ends, total, -np.inf).reshape(rows, -1).argmax(1)
    chosen = np.zeros((rows, agents), np.int64)
    for row, (end, place) in enumerate(np.transpose(divmod(best, choices)).tolist()):
        places = [place]
        for link in links[row][:end][::-1]:
            places.append(link[places[-1]])
        chosen[row, : end + 1] = places[::-1]
    return chosen


def _after(
    words: Words, log_probs: LogProbs, pairs: LogProbs, chosen: Words
) -> npt.NDArray[np.float64]:
    own = np.maximum(log_probs, IMPOSSIBLE, dtype=np.float64)
    ended = words == PERIOD
    ways = np.exp(own[:, 1:, None] + pairs) * ~ended[:, :-1, :, None]
    onward = ended.astype(np.float64)
    onward[:, -1] = 1.0
    for agent in range(words.shape[1] - 2, -1, -1):
        onward[:, agent] += (ways[:, agent] @ onward[:, agent + 1, :, None])[..., 0]
    scores: npt.NDArray[np.float64] = own + np.log(onward)
    rows, agents = np.arange(len(words))[:, None], np.arange(words.shape[1] - 1)
    scores[:, 1:] += pairs[rows, agents, chosen[:, :-1]]
    scores -= scores.max(-1, keepdims=True)
    scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
    return scores


def check_same(old: list[Caption], new: list[Caption], told: list[str]) -> None:
    """The same words and others in their places; probabilities to what float64 can hold."""
    for one, other, text in zip(old, new, told, strict=True):
        kept, now = (
            [[word for word, _ in place.alternatives] for place in caption.words]
            for caption in (one, other)
        )
        if not one.text == other.text == text or kept != now:
            raise SystemExit(f"{one.text!r} was said before, and now {other.text!r}, {text!r}")
        if not math.isclose(one.probability, other.probability, rel_tol=0, abs_tol=1e-12):
            raise SystemExit(f"{one.text!r}: {one.probability} before, now {other.probability}")


def least(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of a call of each, in turns; each turn a tenth of a second or more."""
    found = dict.fromkeys(ways, math.inf)
    calls = dict.fromkeys(ways, 1)
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.process_time()
            for _ in range(calls[name]):
                way()
            taken = (time.process_time() - start) / calls[name]
            found[name] = min(found[name], taken)
            calls[name] = max(1, math.ceil(SECONDS / max(taken, 1e-6)))
    return found


def measure(said: Proposals, vocabulary: Vocabulary, batches: Sequence[int]) -> list[Any]:
    """A row for each model and batch, in microseconds an image."""
    rows = []
    for name, every in (("with transitions", said), ("without transitions", alone(said))):
        for batch in batches:
            own = first(every, batch)
            new, told = write(own, None, vocabulary, READABLE), texts(own, vocabulary, READABLE)
            check_same(before(own, vocabulary), new, told)
            taken = least(
                {
                    "search": partial(places_said, own, Wording(vocabulary, READABLE)),
                    "text": partial(texts, own, vocabulary, READABLE),
                    "captions": partial(write, own, None, vocabulary, READABLE),
                    "before": partial(before, own, vocabulary),
                }
            )
            found = {way: value / batch * 1e6 for way, value in taken.items()}
            rows.append({"model": name, "batch": batch, "microseconds": found})
            print(f"{name}, batch {batch}: " + ", ".join(f"{k} {v:.2f}" for k, v in found.items()))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Time the way from proposals to texts.")
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES, help="images at once")
    parser.add_argument("--made-up", action="store_true", help="proposals of chance, at once")
    parser.add_argument("--note", help="for the page: what else there is to know")
    parser.add_argument("--out", type=Path, help="a file for the figures")
    own = parser.parse_args(arguments)
    vocabulary = Vocabulary.load(shipped_model() / "vocab.json")
    most = max(own.batch)
    made = made_up(most, vocabulary) if own.made_up else of_photos(most, Captioner(device="cpu"))
    rows = measure(made, vocabulary, own.batch)
    if own.out is not None:
        about = {
            "naic": __version__,
            "machine": machine(Place("cpu", None)),
            "made_up": own.made_up,
            "texts": len(set(texts(made, vocabulary, READABLE))),
            "rows": rows,
        }
        note = {} if own.note is None else {"note": own.note}
        own.out.parent.mkdir(parents=True, exist_ok=True)
        own.out.write_text(json.dumps(about | note, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
