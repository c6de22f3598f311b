"""Large weights in small parts, to be moved between machines that take small files only.

python benchmarks/parts.py split model.safetensors PARTS --megabytes 15 --half
python benchmarks/parts.py join PARTS model.safetensors

`--half` rounds float32 to float16 on the way: half the bytes, enough to go on from. The parts carry
the SHA-256 of the whole, which `join` checks.
"""

import argparse
import hashlib
import json
from pathlib import Path

import torch
from safetensors.torch import load, save

NOTE = "parts.json"


def split(source: Path, folder: Path, megabytes: int, *, half: bool) -> None:
    data = source.read_bytes()
    if half:
        tensors = load(data)
        data = save({n: v.half() if v.dtype == torch.float32 else v for n, v in tensors.items()})
    folder.mkdir(parents=True, exist_ok=True)
    size = megabytes << 20
    count = -(-len(data) // size)
    for number in range(count):
        part = data[number * size : (number + 1) * size]
        (folder / f"part-{number:03d}").write_bytes(part)
    note = {"parts": count, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")


def join(folder: Path, target: Path) -> None:
    note = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    names = [folder / f"part-{number:03d}" for number in range(note["parts"])]
    data = b"".join(name.read_bytes() for name in names)
    if hashlib.sha256(data).hexdigest() != note["sha256"]:
        raise SystemExit(f"{folder}: the parts are not those of one file; move them again")
    target.write_bytes(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("split", "join"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--megabytes", type=int, default=15)
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    if options.what == "split":
        split(options.source, options.target, options.megabytes, half=options.half)
    else:
        join(options.source, options.target)


if __name__ == "__main__":
    main()
