from collections.abc import Callable
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.data.features import FeatureStore
from naic.data.pseudo import PseudoStore
from naic.errors import ConfigError
from naic.tasks.options import DistilOptions, PrepareOptions
from naic.tasks.prepare import prepare
from tests.tasks.teachers import distil_options, make_home, make_teacher, run


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = distil_options(make_home(tmp_path / "home"), tmp_path / "out")
    words = ["distil", str(options.model), "--out", str(options.out), "--device", "cpu"]
    words += ["--features", str(options.features[0]), "--splits", "train", "--batch", "3"]
    assert main([*words, "--dry-run"]) == 0
    assert "40 (train 40), in 4 shards\nNothing was written" in capsys.readouterr().out
    assert not options.out.exists()
    assert main([*words, "--part", "2/2"]) == 0
    assert "waiting:  24 images are left to the other parts" in capsys.readouterr().out
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "for 24 images; 16 were there already" in out
    assert "captions: 40 captions of 40 images by" in out
    assert main([*words, "--keep", "9"]) == 2
    assert main([*words, "--beam", "4"]) == 2
    assert "it was begun with beam = " in capsys.readouterr().err


@pytest.fixture
def images(tmp_path: Path) -> Callable[[int], Path]:
    """Folders of drawn scenes, with what people might have said beside them."""

    def make(seed: int) -> Path:
        folder = tmp_path / f"images-{seed}"
        assert main(["shapes", str(folder), "--count", "3", "--seed", str(seed)]) == 0
        (folder / "images" / f"shapes-{seed}-000000.txt").write_text("a caption of people\n")
        return folder / "images"

    return make


def test_images_are_looked_at_first(
    images: Callable[[int], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [images(1), images(2)]
    chosen = PrepareOptions(
        "folder",
        str(folders[0]),
        tmp_path / "f",
        backbone="efficientnet-lite0",
        pixels=32,
        device="cpu",
    )
    made = prepare(chosen)
    teacher = make_teacher(tmp_path / "teacher", made.store)
    assert made.store.records[0].captions == ("a caption of people",)
    out = tmp_path / "out"
    words = ["distil", str(teacher), "--out", str(out), "--device", "cpu", "--images"]
    words += [str(folder) for folder in folders]
    assert main([*words, "--dry-run"]) == 0
    assert "images:   6 (no split 6)" in capsys.readouterr().out
    assert not out.exists()
    assert main(words) == 0
    captions = PseudoStore(out).captions
    assert sorted(captions) == [f"shapes-{s}-00000{i}" for s in (1, 2) for i in range(3)]
    assert FeatureStore(out / "features").records[0].captions == ()
    assert FeatureStore(out / "features").index["pixels"] == 32
    same = run(DistilOptions(teacher, tmp_path / "same", (tmp_path / "f",), batch=6, device="cpu"))
    assert same.store is not None
    assert {id_: captions[id_] for id_ in same.store.captions} == same.store.captions
    (folders[1] / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert main([*words[:3], str(tmp_path / "again"), *words[4:]]) == 3
    assert "1 could not be used" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="images are turned into features by one process"):
        run(DistilOptions(teacher, out, images=tuple(folders), part="1/2"))
