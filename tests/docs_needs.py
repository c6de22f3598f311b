"""What the commands of the pages need, made small, by the names that the pages give.

For each verb a function: the command's words and its parsed options in; the words to run out, in
the current folder, where all that they need is made by then. ELSEWHERE has the few commands that
another test runs.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import skimage

from naic.cli.main import main
from naic.cli.train import _parse as parse_train
from naic.tasks.export_web import RUNTIME_FILES
from naic.tasks.study.spec import read_study, runs_of
from naic.train.config import read_settings
from tests.data.regions import files as region_files
from tests.runtime.small import make_model
from tests.tasks.shards.made import make_tar
from tests.tasks.show.runs import make_run

PHOTO = Path(skimage.__file__).parent / "data" / "rocket.jpg"
Need = Callable[[list[str], Any], list[str]]


def photo(path: Path) -> None:
    """An image file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        shutil.copy(PHOTO, path)


def seeing(folder: Path, backbone: str = "efficientnet-lite0", **over: Any) -> None:
    """A model folder with a backbone."""
    if not folder.exists():
        make_model(folder, backbone=backbone, says="cat", **over)


def dry(words: list[str]) -> list[str]:
    """The command as one that writes nothing."""
    return words if "--dry-run" in words else [*words, "--dry-run"]


def captions(path: Path, images: Sequence[Path] = (), first: int = 1) -> None:
    """Captions of some images, in the layout that the file's name tells of."""
    folder = images[0] if images else path.parent
    names = [f"{i:012d}.jpg" for i in range(first, first + 12)]
    for name in names:
        photo(folder / name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        lines = [json.dumps({"image": name, "caption": "a rocket"}) for name in names]
        path.write_text("\n".join(lines))
        return
    if path.suffix == ".csv":
        rows = [f"{name},a rocket stands on the ground" for name in names]
        path.write_text("\n".join(["image,caption", *rows]))
        return
    entries = [
        {
            "filename": name,
            "cocoid": i,
            "split": ("train", "restval", "val", "test")[i % 4],
            "sentences": [{"raw": "a rocket stands on the ground"}],
        }
        for i, name in enumerate(names, first)
    ]
    path.write_text(json.dumps({"images": entries, "dataset": "coco"}))


def caption(words: list[str], options: Any) -> list[str]:
    if options.write == "exif" and shutil.which("exiftool") is None:
        pytest.skip("ExifTool is not installed")
    seeing(Path("shipped"))
    photo(Path("photo.jpg"))
    for path in options.paths:
        if path.suffix:
            photo(Path(str(path).replace("**/", "").replace("*", "photo")))
        elif str(path) != "-":
            photo(path / "COCO_val2014_000000000042.jpg")
    if options.model is not None and options.model.name.startswith("exported"):
        main(["export", "shipped", "--out", str(options.model)])
    elif options.model is not None:
        seeing(options.model)
    if options.rescore is not None:
        make_model(options.rescore, "causal")
    return words


def prepare(words: list[str], options: Any) -> list[str]:
    if options.reader == "folder":
        photo(Path(options.source) / "a.jpg")
    elif options.reader != "shapes":
        captions(Path(options.source), options.images)
        for folder in options.images:
            folder.mkdir(exist_ok=True)
    if options.features:
        imported(options)
    if options.weights is not None:
        seeing(options.weights, options.backbone)
    return dry([*words, "--batch", "4", "--limit", "12"])


def imported(options: Any) -> None:
    """Features of the images that `captions` tells of, and their sizes."""
    writers = {"npz": region_files.att, "tsv": region_files.tsv}
    seen = region_files.see(tuple(range(1, 13)))
    for name in options.features:
        kind, _, path = name.partition(":")
        Path(path).mkdir()
        writers[kind](Path(path) if kind == "tsv" else Path(path).parent, seen)
    for path in options.sizes:
        region_files.write_sizes(path, tuple(seen))


def show(words: list[str], options: Any) -> list[str]:
    for path in options.paths:
        if path.name == "features":
            main(["prepare", "shapes", "8", "--backbone", "blobs", "--out", str(path)])
        else:
            make_run(path / "one" if path.name == "runs" else path)
    return words


def store(folder: Path, backbone: str = "efficientnet-lite0") -> None:
    """Features of some photos, in the splits of COCO."""
    if not folder.exists():
        source = Path("made") / f"{folder.name}.json"
        captions(source, first=1000 * len(list(Path().glob("made/*.json"))) + 1)  # ids of its own
        size = ["--pixels", "64", "--batch", "4", "--per-shard", "12"]
        words = ["prepare", "karpathy", str(source), "--backbone", backbone, *size]
        assert main([*words, "--out", str(folder)]) == 0


def boxed_store(folder: Path) -> None:
    """Imported features, with boxes."""
    source = Path("made/boxed.json")
    captions(source)
    given = region_files.tsv(source.parent, region_files.see(tuple(range(1, 13))))
    words = ["prepare", "karpathy", str(source), "--features", given, "--out", str(folder)]
    assert main(words) == 0


def write_modules(page: Path) -> None:
    """The modules that a page prints, each under the name that its first line has."""
    codes = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for code in codes:
        if named := re.match(r'"""(\w+\.py): ', code):
            Path(named[1]).write_text(code, encoding="utf-8")


def train(words: list[str], options: Any) -> list[str]:
    """Whatever the config names is made: features, a start, a teacher's captions, rewards."""
    request = parse_train(words[1:])
    settings = read_settings(request.config, request.overrides)
    if settings.cmal.reward:
        write_modules(Path(__file__).parent.parent / "docs" / "add-reward.md")
    data = settings.data
    teacher = Path("made/teacher")
    for folder in (data.features, *data.unlabelled):
        if settings.model.get("boxes"):
            boxed_store(folder)
        else:
            store(folder, "pixels" if "pixels" in folder.name else "efficientnet-lite0")
    if settings.start is not None:
        of = "causal" if settings.stage == "student_xe" else settings.captioner
        make_model(settings.start, of)
    if data.pseudo:
        make_model(teacher, "causal")
    for pseudo, source in zip(data.pseudo, (data.features, *data.unlabelled), strict=False):
        made = ["--features", str(source), "--splits", "train", "--out", str(pseudo)]
        assert main(["distil", str(teacher), *made]) == 0
    here = ["--engine.graph", "false", "--engine.compile", "false", "--engine.device", "cpu"]
    here += ["--engine.precision", "float32", "--data.more_than", "0"]
    if settings.model.get("backbone"):  # a small one, whose weights are installed
        here += ["--model.backbone", "efficientnet-lite2"]
    known = ["--data.train", '["train"]', "--data.validation", '["val"]']
    return dry([*words, *here, *known])


def distil(words: list[str], options: Any) -> list[str]:
    make_model(options.model, "causal")
    for folder in options.features:
        store(folder)
    return dry(words)


def without_a_gpu(folder: Path) -> None:
    """Configs for a GPU are told to do without one; all else in them stays."""
    for path in folder.glob("*.toml"):
        text = path.read_text().replace('precision = "bfloat16"', 'precision = "float32"')
        path.write_text(re.sub(r"^(graph|compile) = true", r"\1 = false", text, flags=re.MULTILINE))


def study(words: list[str], options: Any) -> list[str]:
    """All that its variants begin with and learn from is made."""
    without_a_gpu(options.study.parent)
    asked = read_study(options)
    own = asked.settings
    assert own.features is not None
    if own.start is not None:
        make_model(own.start, "parallel")
    if own.teacher is not None:
        make_model(own.teacher, "causal")
    runs = [runs_of(asked, variant, options).values() for variant in asked.variants]
    for data in (run.data for some in runs for run in some):
        sources = (own.features, *data.unlabelled)
        for folder in sources:
            store(folder)
        for pseudo, source in zip(data.pseudo, sources, strict=False):
            if not pseudo.exists() and not pseudo.is_relative_to(options.out):
                made = ["--features", str(source), "--splits", "train", "--out", str(pseudo)]
                assert main(["distil", str(own.teacher), *made]) == 0
    return dry(words)


def reproduce(words: list[str], options: Any) -> list[str]:
    """With the stores that it names."""
    if options.study is not None:
        return study(words, options)
    for folder in (options.features, options.unlabelled):
        if folder is not None:
            store(folder)
    if options.preset == "tiny":
        return dry(words)
    preset = Path("configs") / options.preset
    without_a_gpu(preset)
    return dry([str(preset) if word == options.preset else word for word in words])


def evaluate(words: list[str], options: Any) -> list[str]:
    captions(Path(options.references), options.images)
    chosen = range(1, 13)
    if options.split:
        splits = ("train", "restval", "val", "test")
        chosen = [i for i in chosen if splits[i % 4] in options.split]  # type: ignore[assignment]
    rows = [{"image_id": i, "caption": f"a rocket on the {i}"} for i in chosen]
    for path in options.files:
        path.write_text(json.dumps(rows))
    return [*words, "--fast"]


def pack(words: list[str], options: Any) -> list[str]:
    if options.backbone is not None:
        from naic.backbones.weights import load_efficientnet

        seeing(options.backbone)
        digest = load_efficientnet("efficientnet-lite0", options.backbone)[1]
        make_model(options.model, digest=digest)
    elif options.calibrate is not None:
        store(options.calibrate, "pixels")
        seeing(options.model, "clip-vit-b16+dinov2-vits14")
    else:
        seeing(options.model)
    return dry(words)


def export(words: list[str], options: Any) -> list[str]:
    seeing(Path("shipped"))
    if options.model is not None:
        seeing(Path(options.model))
    if options.runtime_files is not None:  # npm has unpacked it
        (options.runtime_files / "dist").mkdir(parents=True, exist_ok=True)
        for name in RUNTIME_FILES:
            (options.runtime_files / "dist" / name).touch()
    return dry(words)


def benchmark(words: list[str], options: Any) -> list[str]:
    as_it_is(words, options)
    if options.model is not None:
        seeing(options.model)
    if options.teacher is not None:
        make_model(options.teacher, "causal")
    return dry(words)


def finetune(words: list[str], options: Any) -> list[str]:
    captions(Path(options.captions))
    seeing(Path("shipped"))
    if options.model is not None:
        seeing(options.model)
    return dry(words)


def watch(words: list[str], options: Any) -> list[str]:
    """Looked at once: who waits for more would wait for ever."""
    seeing(Path("shipped"))
    photo(options.folder / "photo.jpg")
    if "--poll" in words:
        words = words[: words.index("--poll")]
    return [*words, "--settle", "0", *["--once"] * (not options.once)]


def serve(words: list[str], options: Any) -> list[str]:
    """Asked for one caption when it is ready, then stopped as a service is: by SIGTERM."""
    seeing(Path("shipped"))
    photo(Path("photo.jpg"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    threading.Thread(target=_ask_once, args=(int(port), options), daemon=True).start()
    return [*words, "--host", "127.0.0.1", "--port", port]


def _ask_once(port: int, options: Any) -> None:
    """A caption, once there is one to be had; Ctrl-C, with another exit code, if it is none."""
    by, answer = time.monotonic() + 60, None
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        while time.monotonic() < by and (answer is None or answer.status_code == 503):
            time.sleep(0.02)
            with contextlib.suppress(httpx.TransportError):
                headers = {"authorization": f"Bearer {options.token or 'none'}"}
                files = {"files": Path("photo.jpg").read_bytes()}
                answer = client.post("/v1/caption", files=files, headers=headers)
    if answer is not None:  # it is there, and hears of signals
        good = answer.status_code == 200 and "cat" in answer.json()["results"][0]["caption"]
        os.kill(os.getpid(), signal.SIGTERM if good else signal.SIGINT)


def as_it_is(words: list[str], options: Any) -> list[str]:
    seeing(Path("shipped"))
    return words


def scenes(words: list[str], options: Any) -> list[str]:
    return words if re.search(r"--count", " ".join(words)) else [*words, "--count", "3"]


def shards(words: list[str], options: Any) -> list[str]:
    """A few shards, and what was made of them where that is looked at or joined.

    A folder stands in for a bucket: with a server that speaks S3 `test_storage.py` tries it.
    """
    words = [word.replace("s3://", "") for word in words]
    seeing(Path("shipped"))
    for number in range(2):
        make_tar(Path(f"in/{number:03d}.tar"), [number])
    task = words[1]
    if task in ("status", "join"):
        out = words[2]
        made = ["shards", "prepare" if task == "join" else "caption", "in", "--out", out]
        made += ["--backbone", "efficientnet-lite0"] if task == "join" else []
        if not Path(out).exists():
            assert main([*made, "--workers", "1", "--device", "cpu"]) == 0
        return words
    if task == "distil":
        make_model(options.model, "causal")
    return dry(words)


NEEDS: dict[str, Need] = {
    "caption": caption,
    "watch": watch,
    "serve": serve,
    "prepare": prepare,
    "show": show,
    "train": train,
    "distil": distil,
    "reproduce": reproduce,
    "evaluate": evaluate,
    "pack": pack,
    "export": export,
    "benchmark": benchmark,
    "finetune": finetune,
    "shapes": scenes,
    "doctor": as_it_is,
    "completion": as_it_is,
    "shards": shards,
}


class Elsewhere(NamedTuple):
    """Why a command cannot be run or dry-run from its words alone, and the test that runs it."""

    why: str
    test: str


ELSEWHERE = {
    "naic reproduce --preset coco --out runs/coco --only-tables --references dataset_coco.json": (
        Elsewhere(
            "it scores what another machine has made, and has no --dry-run",
            "tests/tasks/reproduce/test_returned.py::"
            "test_what_came_back_is_scored_without_its_models",
        )
    ),
    "naic reproduce --study configs/coco/study.toml --out runs/coco-study "
    "--only-tables --references dataset_coco.json": Elsewhere(
        "it scores what another machine has made, and has no --dry-run",
        "tests/tasks/study/test_study.py::test_captions_that_came_back_are_scored",
    ),
}
