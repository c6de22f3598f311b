"""A model with two vision transformers inside, through every command that puts it to use."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from naic.backbones.vit import VITS
from naic.cli.main import main
from naic.data.joined import SEEN, SeenImages, read_seen
from naic.models.folder import load_model, read_weights
from naic.runtime.captioner import Captioner
from naic.runtime.load import load_whole
from naic.runtime.sentences import Proposals
from naic.tasks.benchmark.models import Contest, Way, make_pairs
from naic.tasks.finetune.run import finetune
from naic.tasks.options import PackOptions
from naic.tasks.pack import pack_model
from tests.backbones.test_vit import TINY, noise
from tests.runtime.small import NETWORK, make_model
from tests.tasks.finetune import tuning

PAIR = "clip-vit-b16+dinov2-vits14"
PIXELS = 64
LEARNT = SeenImages(frozenset({"7"}))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A student, a teacher of its shape, and photos of noise."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NAIC_CACHE", str(home / "cache"))
        for name, shape in TINY.items():
            patch.setitem(VITS, name, shape)
        make_model(home / "model", backbone=PAIR, pixels=PIXELS)
        (home / "model" / SEEN).write_bytes(LEARNT.as_json())
        make_model(home / "teacher", "causal", backbone=PAIR, pixels=PIXELS, seed=7)
        (home / "photos").mkdir()
        for number, image in enumerate(noise(3, 50, 70, 3).numpy()):
            Image.fromarray(image).save(home / "photos" / f"{number}.png")
        yield home


def test_caption_and_export(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for precision in ("", "float32", "int8"):
        model = home / "model"
        if precision:
            model = home / precision
            words = ["export", str(home / "model"), "--out", str(model), "--precision", precision]
            assert main(words) == 0
            capsys.readouterr()
        assert (
            main(["caption", str(home / "photos"), "--model", str(model), "--device", "cpu"]) == 0
        )
        said[precision] = capsys.readouterr().out
    assert len(said[""].splitlines()) == len(said["int8"].splitlines()) == 3
    assert said["float32"] == said[""]


def test_student_and_teacher_on_one_clock(home: Path) -> None:
    loaded = load_whole(home / "model")
    contest = Contest(loaded, make_pairs(loaded, home / "teacher", 4), torch.device("cpu"))
    for way in (Way(), Way(True, 1, True)):
        said = [contest.runner(part, way, "eager", "float32", 1)() for part in ("whole", "decode")]
        whole, decode = (part for part in said if isinstance(part, Proposals))
        assert np.array_equal(whole.words[..., 0], decode.words[..., 0])


def test_it_is_tuned_to_captions_of_ones_own(home: Path, tmp_path: Path) -> None:
    table = tuning.write_table(tmp_path / "scenes", 24)
    finetune(tuning.options(table, tmp_path / "tuned", home / "model", epochs=1))
    best = tmp_path / "tuned" / "best"
    tuned = load_model(best)
    assert read_seen(best) == LEARNT
    assert tuned.settings.model.backbone == PAIR
    before = read_weights(home / "model" / "model.safetensors")
    name = "backbone.networks.0.blocks.0.qkv.weight"
    after = tuned.model.state_dict()[name]
    assert (after - before[name]).norm() < 0.2 * before[name].norm()  # as it was, but for packing
    assert isinstance(Captioner(best, device="cpu")(noise(64, 64, 3).numpy()), str)


@pytest.mark.parametrize("backbone", [PAIR, NETWORK])
def test_tuning_does_not_round_a_packed_backbone_again(
    home: Path, tmp_path: Path, backbone: str
) -> None:
    plain = make_model(tmp_path / "plain", backbone=backbone, pixels=PIXELS)
    (plain / SEEN).write_bytes(LEARNT.as_json())
    packed, table = tmp_path / "packed", tuning.write_table(tmp_path / "scenes", 24)
    pack_model(PackOptions(plain, packed))
    finetune(tuning.options(table, tmp_path / "tuned", packed, epochs=1))
    best = tmp_path / "tuned" / "best"
    assert read_seen(best) == LEARNT
    before, after = (
        {name: tensor for name, tensor in weights.items() if name.startswith("backbone.")}
        for weights in (read_weights(folder / "model.safetensors") for folder in (packed, best))
    )
    assert before.keys() == after.keys()
    assert any(name.endswith("/codes") for name in before)
    assert all(torch.equal(before[name], after[name]) for name in before)
