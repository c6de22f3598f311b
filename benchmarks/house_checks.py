"""Parts of benchmarks/house.py that compare what both sides do: files entered, captions, stores."""

import json
import lzma
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

from house_trees import Found, Tree  # type: ignore[import-not-found]

SCENES = 120  # of the small store; most are to learn from


def entered(tree: Tree, image: Path) -> dict[str, list[str]]:
    """The files that each command enters."""
    store = tree.store("store", SCENES)
    student = tree.config("student", "student_xe", store)
    tree.naic("train", str(student))
    start = tree.work / "student" / "best"
    train = [
        str(tree.config(name, "cmal", store, start=start, batch=1000))  # all in one step
        for name in ("cmal-first", "cmal")
    ]
    tree.naic("train", train[0])  # numba compiles for a minute: not under the profiler
    reproduce = ["reproduce", "--preset", str(small_preset(tree)), "--quick", "--fast"]
    reproduce += ["--device", "cpu", "--out", str(tree.work / "ladder")]
    commands = {"caption": ["caption", str(image)], "train": ["train", train[1]]}
    found = {}
    for name, words in (commands | {"reproduce": reproduce}).items():
        listed = tree.work / f"{name}.json"
        tree.naic(*words, entered=listed)
        found[name] = json.loads(listed.read_text(encoding="utf-8"))
    return found


def small_preset(tree: Tree) -> Path:
    """The preset tiny with one row, one epoch of each stage, and few scenes."""
    folder: Path = tree.work / "preset"
    shutil.copytree(tree.sources.parent / "configs" / "shapes", folder)
    path = folder / "preset.toml"
    head, _, _ = path.read_text(encoding="utf-8").partition("[quick]")
    stages = ("teacher_xe", "teacher_scst", "student_base", "student_kd", "cmal")
    quick = ["[quick]", 'systems = ["+CMAL"]', "limit = 200", "examples = 2", "[quick.epochs]"]
    path.write_text(
        "\n".join([head, *quick, *(f"{name} = 1" for name in stages)]), encoding="utf-8"
    )
    return folder


def validation_images(coco: Path, count: int, folder: Path) -> int:
    """The images of `val` that are in the tars, put into a folder."""
    with lzma.open(coco / "dataset_coco.json.xz") as file:
        images = json.load(file)["images"]
    wanted = {f"{image['cocoid']:012d}.jpg" for image in images if image["split"] == "val"}
    folder.mkdir()
    found = 0
    for path in sorted(coco.glob("images-*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name in wanted and found < count:
                    tar.extract(member, folder, filter="data")
                    found += 1
    return found


def captions(trees: list[Tree], images: Path) -> Found:
    """What the shipped model says of each image, on both sides."""
    said: dict[str, dict[str, Found]] = {}
    for tree in trees:
        out = tree.work / "captions.jsonl"
        tree.naic("caption", str(images), "--out", str(out), "--confidence", "--device", "cpu")
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        said[tree.name] = {Path(row["path"]).name: row for row in rows}
    old, new = said["old"], said["new"]
    different = [name for name in old if old[name]["caption"] != new[name]["caption"]]
    return {
        "images": len(old),
        "equal": len(old) - len(different),
        "confidence_apart": max(abs(old[n]["confidence"] - new[n]["confidence"]) for n in old),
        "different": [[n, old[n]["caption"], new[n]["caption"]] for n in different[:20]],
    }


def stores(old: Tree, new: Tree, image: Path) -> list[Found]:
    """A feature store, pseudo captions, a checkpoint and model folders: each (what, holds)."""
    checks: dict[str, bool] = {}
    store = old.store("old-store", SCENES)
    new.naic("show", str(store))
    checks["a feature store is shown"] = True  # or it would have stopped
    old.naic("train", str(old.config("whole", "teacher_xe", store, epochs=6)))
    cut = old.config("cut", "teacher_xe", store, epochs=6)
    _kill_after_a_checkpoint(old, cut)
    new.naic("train", str(cut), "--resume", "auto")
    checks["a run that the old commit began is finished by the new one, with the same bits"] = (
        _weights(old, "cut") == _weights(old, "whole")
    )
    words = ["--features", str(store), "--splits", "train", "--device", "cpu"]
    pseudo = old.work / "pseudo"
    old.naic("distil", str(old.work / "whole" / "best"), *words, "--out", str(pseudo))
    for tree in (old, new):
        tree.naic("train", str(tree.config("kd", "student_xe", store, pseudo=pseudo)))
    checks["pseudo captions teach a student the same bits"] = _weights(old, "kd") == _weights(
        new, "kd"
    )
    pixels = old.store("pixels", SCENES, "pixels")
    more = 'eyes = "efficientnet-lite0"\n'  # as the old commit calls the backbone
    old.naic("train", str(old.config("seeing", "student_xe", pixels, more=more)))
    best, packed = old.work / "seeing" / "best", old.work / "packed"
    old.naic("pack", str(best), "--out", str(packed))
    for folder, what in ((best, "a model folder"), (packed, "a packed model")):
        asked = ["caption", str(image), "--model", str(folder), "--confidence", "--device", "cpu"]
        checks[f"{what} captions alike"] = old.naic(*asked) == new.naic(*asked)
    return [{"what": what, "holds": holds} for what, holds in checks.items()]


def _weights(tree: Tree, run: str) -> bytes:
    path: Path = tree.work / run / "best" / "model.safetensors"
    return path.read_bytes()


def _kill_after_a_checkpoint(tree: Tree, config: Path) -> None:
    checkpoints = tree.work / config.stem / "checkpoints"
    command = tree.command("naic", "train", str(config))
    with subprocess.Popen(
        command, cwd=tree.work, env=tree.environment(), stdout=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and not (checkpoints.exists() and any(checkpoints.iterdir())):
            time.sleep(0.01)
        process.kill()
    if process.returncode == 0:
        raise SystemExit("the run that was to be cut off came to its end: try again")
