"""VSUA: scene graphs of captions by rules, its graph in plain loops, and what its heads learn."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from naic.errors import ConfigError
from naic.models import scene_words
from naic.models.captioners import CAPTIONERS
from naic.models.folder import ModelSettings, load_model, write_model
from naic.models.scene_words import BREAK, CONTENT, PARTICIPLE, RELATION
from naic.models.unit_graph import VsuaConfig
from naic.models.vsua import GatedStep, Vsua
from naic.text.tokeniser import tokenise
from naic.text.vocabulary import PAD, PERIOD, Vocabulary
from tests.models.small import FEATURES, images
from tests.models.writers import SIZES, writer

CONFIG = VsuaConfig(**SIZES["vsua"], dropout=0.0, length=9)
NAMED, PAIRS = CONFIG.named, CONFIG.pairs
SPOKEN = [
    "A small dog is sitting on the red couch.",
    "A smiling man holds a parked bike.",
    "The dog, and a couch.",
]
WORDS = Vocabulary.build(SPOKEN, more_than=0)
VSUA = CAPTIONERS["vsua"]


def ids(captions: list[str], length: int = 9) -> Tensor:
    """(1, C, N) of one image's captions."""
    rows = []
    for caption in captions:
        words = [WORDS.words.index(word) for word in tokenise(caption)]
        rows.append((words + [PERIOD] + [PAD] * length)[:length])
    return torch.tensor([rows])


def word(place: Tensor) -> str:
    return WORDS.word(int(place))


def parsed(captions: list[str]) -> tuple[set[str], set[str], set[str]]:
    """Objects, "attribute object" and "object relation object"."""
    scene = scene_words.parse(ids(captions), torch.tensor(scene_words.kinds(WORDS)))
    objects = {word(i) for i in scene.objects[0] if i != PAD}
    rows = torch.stack(scene, -1)[0]
    has = {f"{word(row[1])} {word(row[2])}" for row in rows if row[1] != PAD}
    linked = [row[[4, 3, 5]] for row in rows if row[3] != PAD]
    related = {" ".join(map(word, row)) for row in linked}
    return objects, has, related


def model_of() -> Vsua:
    """Its words are met, and its weights are spread out."""
    model = VSUA.begin(CONFIG, FEATURES, WORDS)
    assert isinstance(model, Vsua)
    random = writer("vsua", words=len(WORDS)).state_dict()
    floats = {name: own for name, own in random.items() if own.is_floating_point()}
    model.to(torch.float64).load_state_dict(floats, strict=False)
    return model.eval()


def test_a_scene_graph_by_rules() -> None:
    assert parsed(SPOKEN[:1]) == (
        {"dog", "couch"},
        {"small dog", "red couch"},
        {"dog sitting couch", "dog on couch"},
    )
    assert parsed(SPOKEN[1:2]) == (
        {"man", "bike"},
        {"smiling man", "parked bike"},
        {"man holds bike"},
    )
    assert parsed(SPOKEN[2:]) == ({"dog", "couch"}, set(), set())  # "and" relates nothing
    kinds = {"the": BREAK, "<unk>": BREAK, "on": RELATION, "riding": PARTICIPLE, "red": CONTENT}
    assert {name: scene_words.kind_of(name) for name in kinds} == kinds


def test_captions_do_not_run_into_each_other() -> None:
    together, apart = parsed(SPOKEN), [parsed([caption]) for caption in SPOKEN]
    assert all(own == set().union(*parts) for own, *parts in zip(together, *apart, strict=True))


@torch.no_grad()
def test_units_are_those_of_the_graph() -> None:
    """Of each named object where it is, its attributes, and the pairs that relate most."""
    model, features = model_of(), images(1)
    graph, embedding = model.graph, model.decoder.embedding
    units, found = graph(features, None, embedding)
    regions, objects, attributes, relations = units[0].tensor_split((4, 4 + NAMED, 4 + 2 * NAMED))
    names = [
        [F.linear(embedding.weight[i], graph.names.weight[16 * k : 16 * k + 16]) for i in known]
        for k, known in enumerate((graph.content, graph.content, graph.relations))
    ]
    names = [
        [own + graph.names.bias[16 * k : 16 * k + 16] for own in row] for k, row in enumerate(names)
    ]
    by_region = graph.object_scores(regions).float()
    order = sorted(range(CONFIG.content), key=lambda a: -float(by_region[:, a].max()))[:NAMED]
    assert found.named[0].tolist() == [int(graph.content[a]) for a in order]
    for place, a in enumerate(order):
        shares = [math.exp(float(score)) for score in by_region[:, a]]
        seen = sum(s * r for s, r in zip(shares, regions, strict=True)) / sum(shares)
        share = 1 / (1 + math.exp(-float(by_region[:, a].max())))
        assert_close(
            objects[place], graph.objects_norm(seen + share * names[0][a]), atol=1e-5, rtol=1e-5
        )
        own = mixture(found.attributes[0, place], names[1])
        around = graph.of_attributes(torch.cat((objects[place], own))).relu()
        assert_close(attributes[place], graph.attributes_norm(own + around), atol=1e-5, rtol=1e-5)
    scores = found.relations[0]
    ways = [(i, j) for i in range(NAMED) for j in range(NAMED) if i != j]
    ways = sorted(ways, key=lambda way: -float(scores[way].max()))[:PAIRS]
    for place, (i, j) in enumerate(ways):
        own = mixture(scores[i, j], names[2])
        around = graph.of_relations(torch.cat((objects[i], own, objects[j]))).relu()
        assert_close(relations[place], graph.relations_norm(own + around), atol=1e-5, rtol=1e-5)


def mixture(scores: Tensor, names: list[Tensor]) -> Tensor:
    shares = scores.double().softmax(0)
    mixed = sum(share * name for share, name in zip(shares, names, strict=True))
    assert isinstance(mixed, Tensor)
    return mixed * scores.double().max().sigmoid()


@torch.no_grad()
def test_context_gated_attention_in_plain_loops() -> None:
    model = model_of()
    memory, step = model.encode(images(1)), model.decoder.layers[0]
    assert isinstance(step, GatedStep)
    hidden = torch.randn(1, 2, CONFIG.width, dtype=torch.float64)
    found = step.look(hidden, memory)[0]
    sizes = (4 + NAMED, NAMED, PAIRS)
    for sentence in range(2):
        own, first, contexts, gates = hidden[0, sentence], 0, [], []
        for size in sizes:
            places = range(first, first + size)
            scores = [step.score((memory.keys[0, s] + step.query(own)).tanh()) for s in places]
            shares = torch.cat(scores).softmax(0)
            context = sum(shares[n] * memory.regions[0, s] for n, s in enumerate(places))
            contexts.append(context)
            gates.append(step.gate((step.context(context) + step.about(own)).tanh()))
            first += size
        weights = torch.cat(gates).softmax(0)
        expected = sum(weights[k] * contexts[k] for k in range(3))
        assert_close(found[sentence], expected, rtol=0, atol=1e-10)


@torch.no_grad()
def test_heads_learn_what_captions_say_of_what_they_name() -> None:
    model = model_of()
    words, graph = ids(SPOKEN), model.graph
    _, found = graph(images(1), None, model.decoder.embedding)
    named = torch.tensor([[WORDS.words.index(own) for own in ("dog", "bike", "red")]])
    found = found._replace(named=named)
    losses = graph.losses(found, words)
    objects, has, related = parsed(SPOKEN)
    content, relating = ([word(i) for i in own] for own in (graph.content, graph.relations))
    names = ("dog", "bike", "red")

    def loss(scores: Tensor, true: set[str], known: list[str], form: str = "{}") -> float:
        parts = [
            math.log1p(math.exp(-float(s) if form.format(own) in true else float(s)))
            for s, own in zip(scores, known, strict=True)
        ]
        return sum(parts) / NAMED

    expected = loss(found.objects[0], objects, content)
    assert float(losses["objects"]) == pytest.approx(expected, rel=1e-4)
    said = [k for k, own in enumerate(names) if own in objects]
    assert [names[k] for k in said] == ["dog", "bike"]  # nothing is known of what is not spoken of
    expected = sum(loss(found.attributes[0, k], has, content, f"{{}} {names[k]}") for k in said)
    assert float(losses["attributes"]) == pytest.approx(expected, rel=1e-4)
    expected = sum(
        loss(found.relations[0, i, j], related, relating, f"{names[i]} {{}} {names[j]}")
        for i in said
        for j in said
    )
    assert float(losses["relations"]) == pytest.approx(expected, rel=1e-4)


def test_all_of_it_learns_from_words_alone_too() -> None:
    """As rewards teach it: no weight is left out, so that processes can share the gradient."""
    model, words = model_of(), ids(SPOKEN)
    plain = model(images(1), None, words)
    said = model(images(1), None, words, learn=True)
    assert torch.equal(said.logits, plain)
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(plain.square().sum(), list(named.values()))
    silent = [name for name, own in zip(named, gradients, strict=True) if not bool(own.any())]
    assert silent == []
    assert VSUA.losses is not None
    found = VSUA.losses(model, images(1), None, words, lambda logits, _: logits.sum())
    assert list(found) == ["words", "objects", "attributes", "relations"]
    count = int((words != PAD).sum())
    assert_close(found["relations"], count * said.heads["relations"].sum())


@pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles
def test_nothing_in_a_step_depends_on_values() -> None:
    """Forward pass and losses trace as one graph: no shape and no branch hangs on data."""
    model, features, words = model_of(), images(1), ids(SPOKEN, length=4)
    expected = model(features, None, words, learn=True)

    def step(features: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        said = model(features, None, words, learn=True)
        return said.logits, sum(said.heads.values())

    compiled = torch.compile(step, backend="eager", fullgraph=True)
    logits, losses = compiled(features, words)
    assert_close(logits, expected.logits)
    assert_close(losses, sum(expected.heads.values()))


def test_what_is_known_of_the_words_stays_with_the_model(tmp_path: Path) -> None:
    model = VSUA.begin(CONFIG, FEATURES, WORDS)
    settings = ModelSettings("vsua", FEATURES, len(WORDS), "", CONFIG)
    write_model(tmp_path / "m", model.state_dict(), settings, WORDS, "")
    loaded = load_model(tmp_path / "m").model
    assert isinstance(loaded, Vsua)
    graph = loaded.graph
    assert graph.kinds.tolist() == scene_words.kinds(WORDS)
    assert [word(i) for i in graph.content[:2]] == ["couch", "dog"]
    assert [word(i) for i in graph.relations] == ["holds", "on", "parked"]


def test_regions_of_a_grid_know_their_places() -> None:
    plain, told = (
        VSUA.build(replace(CONFIG, grid=grid), FEATURES, len(WORDS)).eval()
        for grid in (False, True)
    )
    told.load_state_dict(plain.state_dict())
    features = images(1, dtype=torch.float32)
    turned = features.flip(1)
    assert_close(plain(features, None, ids(SPOKEN)), plain(turned, None, ids(SPOKEN)))
    assert not torch.allclose(told(features, None, ids(SPOKEN)), told(turned, None, ids(SPOKEN)))


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.relations: 0 is below 1"):
        VsuaConfig(relations=0)
    with pytest.raises(ConfigError, match=r"model\.content: more than 4,096 words"):
        VsuaConfig(content=5000)
    with pytest.raises(ConfigError, match=r"model\.named: 9 is not from 2 to 64"):
        VsuaConfig(content=8, named=9)
    with pytest.raises(ConfigError, match=r"model\.pairs: 7 is not from 1 to the 6 pairs"):
        VsuaConfig(named=3, pairs=7)
