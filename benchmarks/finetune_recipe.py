r"""Which way of fine-tuning helps: one change at a time, from one start, with one budget.

python benchmarks/finetune_recipe.py data/flickr8k-features --out docs/results/finetune-recipe

The store is one of `naic prepare` or `benchmarks/finetune_features.py` with the backbone of the
model inside naic. Learnt from are PHOTOS of its split "train", the same for all; scored are JUDGED
of "val", which choose nothing. Each variant is a file in OUT; one that is there is not run again,
and several of these commands share the work. Images are encoded once, so all but the variants that
train the encoder take seconds a hundred steps.
"""

import argparse
import copy
import json
import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from naic.data.features import FeatureStore, read_features
from naic.decode.policy import spoken
from naic.learn.chain_losses import sentence_loss
from naic.learn.cider import References, make_rewards
from naic.learn.losses import cross_entropy, leave_one_out, policy_loss, team_advantage
from naic.metrics.cider import cider
from naic.metrics.score import habits
from naic.models.chain import (
    Chain,
    ChainScores,
    Steps,
    divergence,
    log_prob,
    marginals,
    sample,
    steps,
    tempered,
    viterbi,
)
from naic.models.folder import load_model
from naic.models.transformer import TransformerCaptioner
from naic.runtime.captioner import shipped_model
from naic.text import PAD, Vocabulary, tokenise

PHOTOS, JUDGED, STEPS, BATCH = 500, 500, 100, 16
LENGTH, REGIONS = 16, 64


@dataclass(frozen=True)
class Variant:
    """One way.

    Attributes:
        name: of its row.
        learns: "decoder", "output", "adapters" (low rank, in the decoder's matrices) or "all".
        xe: steps of cross-entropy with people's captions before CMAL.
        cmal: steps of CMAL.
        rate: the highest learning rate.
        samples: sentences of an image.
        temperature: of the policy that is sampled and learns.
        kl: weight of the divergence from the start.
        people: weight of cross-entropy with people's captions inside CMAL.
        own: weight of cross-entropy with the model's own captions inside CMAL (rehearsal).
        captions: of each photo; 0: all.
    """

    name: str
    learns: str = "decoder"
    xe: int = 0
    cmal: int = STEPS
    rate: float = 3e-4
    samples: int = 20
    temperature: float = 1.0
    kl: float = 0.02
    people: float = 0.0
    own: float = 0.0
    captions: int = 0


RECIPE = Variant("the recipe")
VARIANTS = (
    RECIPE,
    Variant("all weights learn", learns="all"),
    Variant("output and transitions alone learn", learns="output", rate=1e-3),
    Variant("adapters of rank 16 in the decoder learn", learns="adapters", rate=1e-3),
    Variant("cross-entropy alone", xe=STEPS, cmal=0, rate=1e-4),
    Variant("half cross-entropy, then CMAL", xe=STEPS // 2, cmal=STEPS // 2),
    Variant("people's captions as an anchor", people=0.2),
    Variant("its own captions rehearsed", own=0.2),
    Variant("no KL", kl=0.0),
    Variant("KL 0.2", kl=0.2),
    Variant("5 samples", samples=5),
    Variant("rate 1e-4", rate=1e-4),
    Variant("rate 1e-3", rate=1e-3),
    Variant("one caption of each photo", captions=1),
    Variant("temperature 2", temperature=2.0),
    Variant("temperature 3", temperature=3.0),
    Variant("temperature 3, rate 1e-3", temperature=3.0, rate=1e-3),
)


class Low(nn.Module):
    """W + B·A: a matrix with an adapter of low rank, which begins as the matrix itself."""

    def __init__(self, out: int, into: int, rank: int = 16) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, into) / math.sqrt(into))
        self.up = nn.Parameter(torch.zeros(out, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.up @ self.down


@torch.no_grad()
def encode(model: TransformerCaptioner, features: Tensor) -> Tensor:
    """(I, R, D) what the encoder makes of features (I, R, F)."""
    model.eval()
    return torch.cat([model.encoder(part.float(), None)[0] for part in torch.split(features, 64)])


def speak(model: TransformerCaptioner, encoded: Tensor) -> tuple[ChainScores, Chain]:
    """What the decoder says of encoded images, and its chain."""
    scores = model.decoder(model.decoder.remember(encoded, None), None)
    assert isinstance(scores, ChainScores)
    assert model.transitions is not None
    return scores, model.transitions.chain(scores.logits[:, 0], scores.context[:, 0])


class Trial:
    """The data of all variants, encoded once."""

    def __init__(self, folder: Path) -> None:
        store = FeatureStore(folder)
        loaded = load_model(shipped_model())
        settings = loaded.settings
        plain = loaded.spec.for_features(loaded.model, settings.model, settings.words)
        assert isinstance(plain, TransformerCaptioner)
        self.start = plain.eval()
        self.words: Vocabulary = loaded.vocabulary
        rows: dict[str, list[int]] = {"train": [], "val": []}
        for row, record in enumerate(store.records):
            rows[record.split].append(row)
        chosen = {
            split: sorted(random.Random(7).sample(own, len(own))[:count])
            for (split, own), count in zip(rows.items(), (PHOTOS, JUDGED), strict=True)
        }
        self.features = {
            split: torch.from_numpy(read_features(store, np.array(own), REGIONS)[0])
            for split, own in chosen.items()
        }
        self.encoded = {split: encode(self.start, own) for split, own in self.features.items()}
        self.captions = {
            split: [store.records[row].captions for row in own] for split, own in chosen.items()
        }

    @torch.no_grad()
    def say(self, model: TransformerCaptioner, encoded: Tensor) -> list[str]:
        model.eval()
        said = []
        for part in torch.split(encoded, 64):
            _, chain = speak(model, part)
            said += [self.words.decode(ids) for ids in viterbi(chain).tolist()]
        return said

    def score(self, said: list[str]) -> dict[str, float]:
        sentences = [" ".join(tokenise(text)) for text in said]
        wanted = [[" ".join(tokenise(text)) for text in own] for own in self.captions["val"]]
        manner = habits(sentences)
        return {
            "cider": cider(sentences, wanted).value,
            "repeats": manner.repeats,
            "bad_endings": manner.bad_endings,
            "words": manner.vocabulary,
        }


def learning(model: TransformerCaptioner, learns: str) -> list[Tensor]:
    """What learns of a model; the rest is frozen."""
    model.requires_grad_(learns == "all")
    if learns == "decoder":
        model.decoder.requires_grad_(True)
    elif learns == "output":
        for part in (model.decoder.output, model.decoder.transitions, model.decoder.norm):
            assert part is not None
            part.requires_grad_(True)
    elif learns == "adapters":
        for layer in [m for m in model.decoder.layers.modules() if isinstance(m, nn.Linear)]:
            parametrize.register_parametrization(layer, "weight", Low(*layer.weight.shape))
    if learns == "adapters":
        return [p for n, p in model.named_parameters() if n.endswith((".up", ".down"))]
    return [p for p in model.parameters() if p.requires_grad]


@torch.no_grad()
def start_chain(start: TransformerCaptioner, encoded: Tensor, words: Tensor) -> Chain:
    """The start model's chain over the same words."""
    assert start.transitions is not None
    scores, _ = speak(start, encoded)
    return start.transitions.chain(scores.logits[:, 0], scores.context[:, 0], words)


def from_start(policy: Steps, before: Steps) -> Tensor:
    """The divergence of the speakers from the start model, as `cmal.kl` has it."""
    reached = marginals(Steps(*(part.detach() for part in policy)))
    return (divergence(policy, before, reached).sum(1) / reached.sum((1, 2))).mean()


def run(trial: Trial, variant: Variant, seed: int) -> dict[str, Any]:
    """Train it; gives what came of it."""
    torch.manual_seed(seed)
    began = time.perf_counter()
    model = copy.deepcopy(trial.start)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.1
    model.encoder.seen = 1.0
    weights = learning(model, variant.learns)
    captions = [own[: variant.captions or None] for own in trial.captions["train"]]
    rewards = make_rewards(References.build(captions, trial.words), "cpu")
    people = _ids(trial, captions)
    own = _ids(trial, [(text,) for text in trial.say(trial.start, trial.encoded["train"])])
    order = _order(seed)

    def forward(rows: Tensor) -> tuple[ChainScores, Chain, Tensor]:
        encoded = trial.encoded["train"][rows]
        if variant.learns == "all":
            encoded = model.encoder(trial.features["train"][rows].float(), None)[0]
        return *speak(model, encoded), encoded.detach()

    def xe(scores: ChainScores, targets: Tensor) -> Tensor:
        assert model.transitions is not None
        loss = sentence_loss(model.transitions, scores.logits, scores.context, targets)
        words = cross_entropy(scores.logits, targets)
        return (loss + 0.5 * words) / (targets != PAD).sum()

    def cmal(rows: Tensor) -> Tensor:
        scores, chain, encoded = forward(rows)
        policy = steps(tempered(chain, variant.temperature))
        said = sample(policy, variant.samples)
        reward = rewards.score(said.flatten(0, 1), rows.repeat_interleave(variant.samples))
        reward = reward.view(len(rows), -1)
        advantage = team_advantage(reward, leave_one_out(reward), spoken(said))
        loss = policy_loss(log_prob(policy, said), advantage, spoken(said)) / reward.numel()
        if variant.kl:
            chain = start_chain(trial.start, encoded, chain.words)
            before = steps(tempered(chain, variant.temperature))
            loss = loss + variant.kl * from_start(policy, before)
        if variant.people:
            loss = loss + variant.people * xe(scores, people[rows])
        if variant.own:
            loss = loss + variant.own * xe(scores, own[rows])
        return loss

    first = partial(_train, model, weights, order=order, rate=variant.rate)
    first(variant.xe, loss=lambda rows: xe(forward(rows)[0], people[rows]))
    first(variant.cmal, loss=cmal)
    encoded = trial.encoded["val"]
    if variant.learns == "all":
        encoded = encode(model, trial.features["val"])
    found = trial.score(trial.say(model, encoded))
    return {**asdict(variant), **found, "seed": seed, "weights": sum(w.numel() for w in weights),
            "seconds": time.perf_counter() - began}  # fmt: skip


def _train(
    model: nn.Module,
    weights: list[Tensor],
    count: int,
    *,
    rate: float,
    loss: Callable[[Tensor], Tensor],
    order: Iterator[Tensor],
) -> None:
    """Adam with a warm-up and a cosine."""
    optimiser = torch.optim.Adam(weights, betas=(0.9, 0.98), eps=1e-9)
    for step in range(count):
        model.train()
        warm = min(1.0, (step + 1) / max(5, count // 10))
        for group in optimiser.param_groups:
            group["lr"] = rate * warm * (0.5 + 0.5 * math.cos(math.pi * step / count))
        optimiser.zero_grad()
        loss(next(order)).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimiser.step()


def _order(seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        photos = torch.randperm(PHOTOS, generator=generator)
        yield from torch.split(photos[: PHOTOS // BATCH * BATCH], BATCH)


def _ids(trial: Trial, captions: list[Any]) -> Tensor:
    """(I, C, N) target ids; of photos with fewer captions the last one comes again."""
    most = max(map(len, captions))
    rows = [[*own, *[own[-1]] * (most - len(own))] for own in captions]
    return torch.tensor([[trial.words.encode(text, LENGTH) for text in own] for own in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1])
    parser.add_argument("--only", nargs="*", help="numbers of variants")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    trial = Trial(asked.store)
    start = asked.out / "00.json"
    if not start.exists():
        graph = FeatureStore(asked.store).index.get("graph", "")
        facts = {"photos": PHOTOS, "judged": JUDGED, "batch": BATCH, "graph": graph}
        before = trial.score(trial.say(trial.start, trial.encoded["val"]))
        start.write_text(json.dumps({"name": "the model as it is", **before, **facts}, indent=1))
    for number, variant in enumerate(VARIANTS, 1):
        for seed in asked.seeds:
            path = asked.out / (f"{number:02d}.json" if seed == 1 else f"{number:02d}-{seed}.json")
            if path.exists() or (asked.only and str(number) not in asked.only):
                continue
            path.touch()
            found = run(trial, variant, seed)
            path.write_text(json.dumps(found, indent=1))
            print(f"{100 * found['cider']:.1f} {found['seconds']:.0f} s {variant.name}", flush=True)


if __name__ == "__main__":
    main()
