"""What the restructuring left: the sources of an old commit beside those of a new one.

python benchmarks/house.py --coco "$NAIC_COCO" --out docs/results/house.json

Parts, each of which can be made alone (`--parts sizes entered`): the rest of FILE is kept.
  sizes     files, lines, and the longest of both, read from git
  entered   the files in which a function is entered by `naic caption`, `train` and `reproduce`
  speed     both sides in turns in one run; nothing else should run meanwhile
  captions  the shipped model's captions of the images of `val` in COCO/images-*.tar, word for word
  stores    what the old commit wrote is read by the new one
Both sides are put into a temporary folder with `git archive` and run as processes of their own;
--new . takes the working tree as it is.
"""

import argparse
import ast
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from house_checks import (  # type: ignore[import-not-found]
    captions,
    entered,
    stores,
    validation_images,
)
from house_speed import speed  # type: ignore[import-not-found]
from house_trees import ROOT, Found, Tree, check_out  # type: ignore[import-not-found]

OLD = "0c4671d"
SIDES = ("old", "new")
PARTS = ("sizes", "entered", "speed", "captions", "stores")


def sizes(tree: Tree) -> Found:
    """Of the Python files: how many, how long, and what is the longest."""
    files = {path: path.read_text(encoding="utf-8") for path in tree.sources.rglob("*.py")}
    lines = {
        str(path.relative_to(tree.sources)): len(text.splitlines()) for path, text in files.items()
    }
    functions = [
        (f"{path.relative_to(tree.sources)}: {node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for path, text in files.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        "files": len(files),
        "lines": sum(lines.values()),
        "median_file": statistics.median(lines.values()),
        "longest_file": max(lines.items(), key=lambda item: item[1]),
        "files_over_300": sum(count > 300 for count in lines.values()),
        "functions": len(functions),
        "median_function": statistics.median(length for _, length in functions),
        "longest_function": max(functions, key=lambda item: item[1]),
    }


def measure(own: argparse.Namespace, folder: Path, found: Found) -> Found:
    trees = [check_out(name, getattr(own, name), folder) for name in SIDES]
    image = own.image or sample_photo()
    made = found.setdefault("made", {})  # of which commits, and where: for each part
    for part in own.parts:
        made[part] = about(own)
        print(f"house: {part} ...", file=sys.stderr, flush=True)
        match part:
            case "sizes":
                found[part] = {tree.name: sizes(tree) for tree in trees}
            case "entered":
                sides = {tree.name: entered(tree, image) for tree in trees}
                found[part] = {
                    name: {side: sides[side][name] for side in SIDES} for name in sides["old"]
                }
            case "speed":
                found[part] = speed(trees, image, own.rounds)
            case "captions":
                count = validation_images(own.coco, own.count, folder / "images")
                print(f"house: {count} images", file=sys.stderr)
                found[part] = captions(trees, folder / "images")
            case _:
                found[part] = stores(*trees, image)
    return found


def sample_photo() -> Path:
    import skimage

    return Path(skimage.__file__).parent / "data" / "rocket.jpg"


def git(*words: str) -> str:
    ran = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def about(own: argparse.Namespace) -> Found:
    """The two commits, and the machine."""
    import torch

    new = git("rev-parse", "--short", "HEAD" if own.new == "." else own.new)
    if own.new == "." and git("status", "--porcelain", "src"):
        new += " and what is not committed yet"
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    old = git("rev-parse", "--short", "HEAD" if own.old == "." else own.old)
    return {"old": old, "new": new, "machine": f"{machine}, {versions}"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--old", default=OLD, help="a commit")
    parser.add_argument("--new", default="HEAD", help="a commit, or . for the working tree")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--coco", type=Path, help="dataset_coco.json.xz and images-*.tar")
    parser.add_argument("--count", type=int, default=1000, help="images of `val` to caption")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--image", type=Path, help="a photo; by default one of scikit-image's")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    own = parser.parse_args()
    if "captions" in own.parts and own.coco is None:
        parser.error("captions: name the folder of the images with --coco, or leave the part out")
    found = json.loads(own.out.read_bytes()) if own.out.exists() else {}
    with tempfile.TemporaryDirectory(prefix="naic-house-") as folder:
        found = measure(own, Path(folder), found)
    own.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
