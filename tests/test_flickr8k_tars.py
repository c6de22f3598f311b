"""benchmarks/flickr8k_tars.py: photos out of a git directory, squashed, in tars."""

import io
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from benchmarks import flickr8k_tars
from PIL import Image

from naic.images.converting import square_pixels

NAMES = [f"{number}_ab.jpg" for number in range(5)]


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Photos and lists in one repository; the last photo is held out."""
    folder = tmp_path / "repository"
    (folder / "Images").mkdir(parents=True)
    (folder / "Flickr8k_text").mkdir()
    noise = np.random.default_rng(0)
    for name in NAMES:
        dots = Image.fromarray(noise.integers(0, 256, (6, 9, 3), dtype=np.uint8))
        dots.resize((300, 200), Image.Resampling.BICUBIC).save(folder / "Images" / name, quality=95)
    for split, names in (("train", NAMES[:3]), ("dev", NAMES[3:4]), ("test", NAMES[4:])):
        text = "".join(f"{name}\n" for name in names)
        (folder / flickr8k_tars.LISTS.format(split)).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "photos")
    return folder


def test_only_the_training_photos_and_whole(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = ["--photos-commit", "HEAD", "--texts-commit", "HEAD"]
    words = [str(repository), str(repository), *commits, "--out", str(tmp_path / "out")]
    monkeypatch.setattr(flickr8k_tars.pack, "__defaults__", (15_000,))  # of about 8 kB each
    flickr8k_tars.main(words)
    assert (tmp_path / "out" / "flickr.txt").read_text().split() == NAMES[:3]
    found = {}
    tars = sorted((tmp_path / "out").glob("*.tar"))
    assert [tar.name for tar in tars] == [f"flickr-{number:02d}.tar" for number in range(len(tars))]
    assert len(tars) > 1
    for tar in tars:
        with tarfile.open(tar) as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                found[member.name] = np.asarray(Image.open(io.BytesIO(file.read())))
    assert list(found) == NAMES[:3]
    for name, pixels in found.items():
        photo = Image.open(repository / "Images" / name)
        assert pixels.shape == (256, 256, 3)
        gap = np.abs(pixels.astype(int) - square_pixels(photo, 256))
        assert gap.mean() < 3
    lists = repository / flickr8k_tars.LISTS.format("dev")
    lists.write_text(NAMES[0])
    git(repository, "commit", "-aqm", "held out")
    with pytest.raises(SystemExit, match="is held out and in the training list"):
        flickr8k_tars.main(words)
