"""Vision transformers that learn inside a captioner, in every stage."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from naic.backbones import vit_weights
from naic.backbones.inside import backbone_digest, backbone_tensors
from naic.backbones.load import (
    can_be_inside,
    is_tuned,
    load_backbone,
    pretrained_backbone,
    trainable_backbone,
)
from naic.backbones.vit import VITS, VisionTransformer
from naic.errors import BackboneError, ConfigError
from naic.models.folder import load_model, read_weights
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare
from naic.train.config import model_config, read_settings
from tests.backbones.test_vit import TINY, noise
from tests.train.runs import MODEL
from tests.train.test_backbone import QUIET, run
from tests.train.test_backbone import make_store as make_pixels

PAIR = "clip-vit-b16+dinov2-vits14"
FAST = {"learning_rate": 1e-2}
GPU = {"device": "cuda", "precision": "bfloat16", "compile": True, "graph": True}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two tiny networks in the cache; pixels; a teacher on their features, and one that sees."""
    home = tmp_path_factory.mktemp("vits")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAIC_CACHE", str(home / "cache"))
        (home / "cache" / "backbones").mkdir(parents=True)
        for name, shape in TINY.items():
            patch.setitem(VITS, name, shape)
            torch.manual_seed(len(name))
            tensors = VisionTransformer(shape, tokens=shape.learnt).state_dict()
            save_file(tensors, home / "cache" / "backbones" / f"{name}-v1.safetensors")
        make_pixels(home / "features", network=PAIR)
        make_pixels(home / "pixels", pixels=True)
        run(home / "first", home / "features", model=MODEL)
        begin: dict[str, Any] = {"start": str(home / "first/best"), "model": {"backbone": PAIR}}
        run(home / "seeing", home / "pixels", **begin, schedule=FAST)
        yield home


def last(run: Path) -> dict[str, torch.Tensor]:
    return read_weights(max((run / "checkpoints").iterdir()) / "model.safetensors")


def moved(run: Path, start: dict[str, torch.Tensor]) -> dict[str, float]:
    """How far each weight of a run is from where it began."""
    return {
        name: float((value - start[name]).abs().max())
        for name, value in last(run).items()
        if name in start
    }


def test_the_joined_networks_are_one_part_of_a_captioner() -> None:
    assert can_be_inside(PAIR)
    assert trainable_backbone(PAIR)[1:] == (sum(VITS[n].width for n in TINY), 8)
    assert trainable_backbone("clip-vit-b16@4")[1:] == (VITS["clip-vit-b16"].width, 4)
    assert not can_be_inside("clip-vit-b16+colours")
    assert not can_be_inside("no-such-network")
    with pytest.raises(ConfigError, match=r"no backbone called 'clip-vit-b16\+eff") as refused:
        trainable_backbone("clip-vit-b16+efficientnet-lite2")
    assert "can be joined by +, each as NAME or NAME@SIDE" in refused.value.hint
    with pytest.raises(BackboneError, match="different grids"):
        trainable_backbone("clip-vit-b16@4+dinov2-vits14")


def test_it_begins_with_the_weights_that_made_the_features(home: Path, tmp_path: Path) -> None:
    begin: dict[str, Any] = {"start": str(home / "first/best"), "model": {"backbone": PAIR}}
    still = {"learning_rate": 1e-12}
    run(tmp_path / "still", home / "pixels", **begin, schedule=still)
    loaded = load_model(tmp_path / "still" / "best")
    pixels = noise(2, 64, 64, 3)
    features = load_backbone(PAIR, pixels=64, device="cpu")(pixels)
    own = loaded.model.see(pixels)  # type: ignore[operator]
    torch.testing.assert_close(own.detach(), features, atol=1e-5, rtol=0)
    assert loaded.model.regions(pixels) == features.shape[1]  # type: ignore[operator]
    first = load_model(home / "first" / "best").model.state_dict()
    assert max(moved(tmp_path / "still", first).values()) < 1e-6


def test_both_networks_learn_and_more_slowly_than_the_rest(home: Path) -> None:
    start = pretrained_backbone(PAIR) | load_model(home / "first" / "best").model.state_dict()
    found = moved(home / "seeing", start)
    inside = {name: far for name, far in found.items() if name.startswith("backbone.")}
    assert len(inside) == len(pretrained_backbone(PAIR))
    # The keys' bias adds the same to all scores of a query: it has no gradient.
    assert all(far > 0 for far in inside.values())
    # Adam's steps are about as long as the rate: a tenth of that of the rest.
    assert max(inside.values()) < 0.3 * max(found.values())


def test_a_frozen_backbone_stays_as_it_is(home: Path, tmp_path: Path) -> None:
    begin: dict[str, Any] = {"start": str(home / "first/best"), "model": {"backbone": PAIR}}
    run(tmp_path / "run", home / "pixels", **begin, schedule=FAST, optimiser={"frozen_steps": 2})
    found = moved(tmp_path / "run", pretrained_backbone(PAIR))
    assert found
    assert max(found.values()) == 0
    assert "frozen_steps = 2" in (tmp_path / "run" / "config.toml").read_text()


def test_an_old_run_with_one_rate_for_all_weights_is_not_gone_on_with_by_others(
    home: Path, tmp_path: Path
) -> None:
    begin: dict[str, Any] = {"start": str(home / "first/best"), "model": {"backbone": PAIR}}
    run(tmp_path / "run", home / "pixels", **begin, optimiser={"backbone_rate": 1.0})
    path = tmp_path / "run" / "config.toml"
    new = ("block_rate =", "frozen_steps =", "backbone_rate =", "crop =", "mirror =")
    kept = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in kept if not line.startswith(new)))
    more = {"epochs": 2, "batch": 4, **QUIET}
    with pytest.raises(ConfigError, match=r"optimiser\.backbone_rate = 1\.0 \(now 0\.1\)"):
        run(tmp_path / "run", home / "pixels", **begin, run=more, resume=True)
    same: dict[str, Any] = {"optimiser": {"backbone_rate": 1.0}, "run": more}
    run(tmp_path / "run", home / "pixels", **begin, **same, resume=True)


def chain(home: Path, out: Path, engine: dict[str, Any]) -> None:
    """Every stage from pixels, each from the weights of the one before."""
    teacher, student = "causal", "parallel"
    stages = [("scst", teacher), ("student_xe", student), ("cmal", student)]
    start = home / "seeing" / "best"
    for stage, captioner in stages:
        before = load_model(start).model.state_dict()
        more: dict[str, Any] = {"stage": stage, "captioner": captioner, "start": str(start)}
        more |= {"schedule": FAST, "engine": engine, "guard": {"fraction": 0.0}}
        start = run(out / stage, home / "pixels", **more)
        found = moved(out / stage, before)
        inside = [far for name, far in found.items() if name.startswith("backbone.")]
        assert max(inside, default=0) > 0, stage
        assert load_model(start).settings.model.backbone == PAIR


def test_it_learns_in_every_stage(home: Path, tmp_path: Path) -> None:
    chain(home, tmp_path, {"device": "cpu"})


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_it_learns_in_every_stage_as_a_graph(home: Path, tmp_path: Path) -> None:
    chain(home, tmp_path, GPU)


def test_features_of_a_tuned_pair(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = home / "seeing" / "best"
    backbone = load_backbone(PAIR, pixels=64, weights=tuned, device="cpu")
    assert backbone.digest == backbone_digest(
        backbone_tensors(read_weights(tuned / "model.safetensors"))
    )
    pixels = noise(2, 64, 64, 3)
    own = load_model(tuned).model.see(pixels)  # type: ignore[operator]
    torch.testing.assert_close(backbone(pixels), own.detach())
    options = PrepareOptions("shapes", "3", tmp_path / "own", backbone=PAIR, weights=tuned)
    assert is_tuned(prepare(replace(options, device="cpu", pixels=64)).store.index)
    file = home / "cache" / "backbones" / "clip-vit-b16-v1.safetensors"
    other = {name: tensor.half().float() for name, tensor in load_file(file).items()}
    monkeypatch.setattr(vit_weights, "_from_hub", lambda *_: other)
    one = replace(options, backbone="clip-vit-b16", weights=tmp_path / "hub.safetensors")
    hub = prepare(replace(one, out=tmp_path / "hub", device="cpu", pixels=64)).store.index
    assert hub["weights"] != load_backbone("clip-vit-b16", device="cpu").digest
    assert not is_tuned(hub)
    assert "tuned" not in hub
    assert not is_tuned({"backbone": PAIR, "weights": backbone.digest})  # of an earlier naic
    with pytest.raises(BackboneError, match="has no backbone that is clip-vit-b16"):
        load_backbone("clip-vit-b16", weights=tuned, device="cpu")


def test_crops_and_mirrors_are_settings(home: Path) -> None:
    model = load_model(home / "seeing" / "best").model
    config = model_config(read_settings(home / "seeing" / "config.toml"))
    assert (config.crop, config.mirror) == (0.75, 0.5)
    pixels = noise(1, 64, 64, 3)
    still = model.eval().see(pixels)  # type: ignore[operator]
    torch.manual_seed(0)
    assert not torch.equal(model.train().see(pixels), still)  # type: ignore[operator]
    object.__setattr__(model.config, "crop", 1.0)
    object.__setattr__(model.config, "mirror", 0.0)
    torch.testing.assert_close(model.see(pixels), still)  # type: ignore[operator]
    for wrong in ({"crop": 0.0}, {"crop": 1.5}, {"mirror": -0.1}, {"mirror": 2.0}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            type(config)(**wrong)
