"""Broken sources of every kind: only DataError comes out, and every row is accounted for."""

import copy
import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from naic.data.readers import Reading, read
from naic.data.readers.textfiles import decode_text
from naic.data.records import Problems
from naic.errors import DataError
from tests.data.readers.helpers import ITEMS, WRITERS, Item, coco_value, karpathy_value, make_images

JUNK: tuple[object, ...] = (
    None, True, 0, -1, 1.5, float("nan"), 10**30, "", " ", "one", "\ud800", "../../x", "a\0b",
    "/etc/passwd", [], [[]], ["one"], {}, {"raw": 1}, {"a": {"b": []}},
)  # fmt: skip
PLAIN = [Item(item.name, ("a b", f"c {item.name}"), item.split) for item in ITEMS]  # no quotes


def containers(value: object) -> list[dict[str, object] | list[object]]:
    if isinstance(value, dict):
        return [value, *(c for inner in value.values() for c in containers(inner))]
    if isinstance(value, list):
        return [value, *(c for inner in value for c in containers(inner))]
    return []


def mutate_value(value: object, rng: random.Random) -> None:
    place = rng.choice(containers(value))
    if not place:
        return
    key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
    action = rng.randrange(4)
    if isinstance(place, list):
        assert isinstance(key, int)
        if action == 0:
            del place[key]
        elif action == 1:
            place.append(copy.deepcopy(place[key]))
        else:
            place[key] = copy.deepcopy(rng.choice(JUNK))
    elif action == 0:
        del place[str(key)]
    elif action == 1:
        place[rng.choice(["x", "id", "split", "raw", "cocoid"])] = place.pop(str(key))
    else:
        place[str(key)] = copy.deepcopy(rng.choice(JUNK))


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.randrange(12))
    changes: list[Callable[[], bytes]] = [
        lambda: data[:start],
        lambda: data[:start] + data[end:],
        lambda: data[:start] + rng.randbytes(3) + data[end:],
        lambda: data[:start] + data[end : end + 40] + data[start:],
        lambda: data[:start] + rng.choice(b'"\n\r\t,#[]{}\\\0').to_bytes() + data[end:],
    ]
    return rng.choice(changes)()


def read_both_ways(reader: str, source: Path) -> tuple[Reading, Problems] | None:
    """Read strictly and skipping; None where the whole source was refused."""
    strict: Reading | None = None
    refusal: DataError | None = None
    try:
        strict = read(reader, str(source), problems=Problems())
    except DataError as error:
        refusal = error
    assert refusal is None or (refusal.what and refusal.why and str(refusal).encode("utf-8"))
    problems = Problems(skip=True)
    try:
        reading = read(reader, str(source), problems=problems)
    except DataError:
        assert strict is None
        return None
    assert (strict is None) == bool(problems.items)
    assert strict is None or strict == reading
    check_counts(reading, problems)
    return reading, problems


def check_counts(reading: Reading, problems: Problems) -> None:
    assert reading.images_seen == len(reading.records) + reading.bad_images
    assert reading.captions_seen == reading.captions + reading.bad_captions
    assert reading.captions == sum(len(record.captions) for record in reading.records)
    assert len(problems.items) >= reading.bad_rows + reading.bad_images
    assert reading.other_images == reading.other_captions == 0
    for problem in problems.items:
        f"{problem.where} {problem.why} {problem.hint}".encode()
    for record in reading.records:
        f"{record.id} {record.split} {record.image.name} {record.captions}".encode()
        assert all(caption.strip() == caption != "" for caption in record.captions)


def rows(value: dict[str, object], key: str) -> int:
    found = value.get(key, [])
    assert isinstance(found, list)
    return len(found)


@pytest.mark.parametrize(("reader", "make"), [("karpathy", karpathy_value), ("coco", coco_value)])
def test_mutated_json(tmp_path: Path, reader: str, make: Callable[[], dict[str, object]]) -> None:
    make_images(tmp_path)
    accounted = 0
    for seed in range(400):
        rng = random.Random(seed)
        value = make()
        for _ in range(rng.randrange(1, 4)):
            mutate_value(value, rng)
        (tmp_path / "d.json").write_text(json.dumps(value))
        if (result := read_both_ways(reader, tmp_path / "d.json")) is None:
            continue
        reading, _ = result
        total = reading.images_seen + reading.bad_rows
        if reader == "coco":
            assert total + reading.captions_seen == rows(value, "images") + rows(
                value, "annotations"
            )
        else:
            assert total == rows(value, "images")
        accounted += 1
    assert accounted > 250


def test_mutated_json_lines(tmp_path: Path) -> None:
    make_images(tmp_path)
    path = tmp_path / "t.jsonl"
    for seed in range(300):
        rng = random.Random(seed)
        lines: list[object] = [
            {"image": f"{item.name}.jpg", "caption": caption, "split": item.split}
            for item in PLAIN
            for caption in item.captions
        ]
        mutate_value(lines, rng)
        path.write_text("\n".join(json.dumps(line) for line in lines))
        if (result := read_both_ways("table", path)) is None:
            continue
        reading, _ = result
        captions = [line.get("caption") for line in lines if isinstance(line, dict)]
        if not any(isinstance(caption, list) for caption in captions):
            assert reading.captions_seen + reading.bad_rows == len(lines)


@pytest.mark.parametrize("kind", WRITERS)
def test_mutated_bytes(tmp_path: Path, kind: str) -> None:
    reader, write = WRITERS[kind]
    make_images(tmp_path)
    source = write(tmp_path, PLAIN)
    file = {"flickr8k": source / "Flickr8k.token.txt", "folder": source / "one.txt"}.get(
        kind, source
    )
    whole = file.read_bytes()
    assert read_both_ways(reader, source) is not None
    for seed in range(250):
        data = mutate_bytes(whole, random.Random(seed))
        file.write_bytes(data)
        if (result := read_both_ways(reader, source)) is None:
            continue
        reading, problems = result
        text = decode_text(data, file.name, lambda _: None)
        if kind in ("csv", "tsv") and '"' not in text:
            lines = [
                line for line in re.split("[\r\n]", text) if line.strip(" ,\t\x0b\x0c\x1c\x1d")
            ]
            assert reading.captions_seen + reading.bad_rows == len(lines) - 1
        if kind == "flickr8k":
            lists = sum(problem.where.startswith("Flickr_8k.") for problem in problems.items)
            lines = [line for line in text.split("\n") if line.strip()]
            assert reading.captions_seen + reading.bad_rows - lists == len(lines)
        if kind == "folder" and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            lines = [line for line in re.split("[\r\n]", text) if line.strip()]
            assert reading.captions_seen == max(1, len(lines)) + 4
            assert reading.bad_rows == 0
