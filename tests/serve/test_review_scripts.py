"""The review's own arithmetic: tables that naic reads, archives, safe names, steps back."""

import base64
import io
import unicodedata
import zipfile
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from naic.files import printable
from naic.serve.pages import PARTS
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.rows import Rows
from naic.tasks.finetune.plan import FinetuneOptions, make_plan, read_own_captions
from naic.text import Vocabulary
from naic.text.vocabulary import SPECIAL
from tests.serve.standing import photo
from tests.tasks.caption.small import Said
from tests.tasks.javascript import needs_node, node

ODD = {
    "plain.png": "a cat",
    "a, b.png": "a cat, a dog and a “bird”",
    'q"uote.png': 'he says "no" and ""',
    "ünï ☕ 犬.png": "ein Käfer auf dem Gehäuse 🐞",
    "=1+1.png": "=SUM(A1)",
    "-x.png": "- a dash",
    "@home.png": "@home",
    "sub/deep/1.png": "one\\n two \\ three",
    "guarded.png": "'=as a guard",
    "semi;colon.png": "; tab-less",
    "two\nlines.png": "it's   here",
    "\\udcff.png": "a\x7fb",
    "new.png": "a\r\nnewline\u2028and\ttabs  \0",
}

pytestmark = needs_node


def as_read(text: str) -> str:
    """What of a caption is kept: one line."""
    plain = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)
    return " ".join(plain.split())


def test_tables_are_those_of_naic_caption_and_finetune_reads_them(tmp_path: Path) -> None:
    code = """(() => {
        const rows = data.map(([path, text]) => ({ path, caption: page.clean(text) }));
        return [rows.map(({ caption }) => caption), page.csv(rows), page.jsonl(rows)];
    })()"""
    captions, table, lines = node(tmp_path, "review-text.js", code, [*ODD.items()], PARTS)
    assert captions == [as_read(text) for text in ODD.values()]
    for kind, made in (("csv", table.removeprefix("\ufeff")), ("jsonl", lines)):
        rows = Rows(CaptionOptions((Path("x"),), format=kind))  # type: ignore[arg-type]
        said = [Said(text, ()) for text in captions]
        own = "".join(rows.whole(map(rows.row, ODD, said)))  # type: ignore[arg-type]
        # A browser has no bytes that are no text, of which naic caption tells these letters apart.
        assert made == (own.replace("\\\\udcff", "\\udcff") if kind == "csv" else own)
        name = tmp_path / f"captions.{kind}"
        assert rows.keys(rows.held(table if kind == "csv" else made, "x"), "x")
        name.write_text(table if kind == "csv" else made, encoding="utf-8")
        for path in ODD:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(photo(1))
        options = FinetuneOptions(str(name), tmp_path / "runs")
        plan = make_plan(options, read_own_captions(options), Vocabulary(SPECIAL))
        found = {record.image.name: record.captions for record in plan.reading.records}
        expected = {
            printable(str(tmp_path / path)): (text,)
            for path, text in zip(ODD, captions, strict=True)
        }
        assert found == expected
        assert plan.problems == []


def test_what_says_nothing_is_no_caption(tmp_path: Path) -> None:
    texts = ["", "?!", "_", "a", "犬", "7"]
    told = node(tmp_path, "review-text.js", "data.map(page.says)", texts, PARTS)
    assert told == [False] * 3 + [True] * 3


def test_words_of_all_captions(tmp_path: Path) -> None:
    asked: list[tuple[str, list[Any], str]] = [
        ("prefixed", ["a cat", "a photo of "], "a photo of a cat"),
        ("prefixed", ["a photo of a cat", "a photo of "], "a photo of a cat"),
        ("prefixed", ["", "a photo of "], ""),
        ("prefixed", ["a cat", "  "], "a cat"),
        ("replaced", ["a man and a woman", "man", "person", True], "a person and a woman"),
        ("replaced", ["a man and a woman", "man", "person", False], "a person and a woperson"),
        ("replaced", ["a cat", "", "x", True], "a cat"),
        ("replaced", ["a c.t (b) c.t.", "c.t", "$& $1 $$", True], "a $& $1 $$ (b) $& $1 $$."),
        ("replaced", ["a [b]* - {c}/", "[b]* - {c}/", "\\", True], "a \\"),
        ("replaced", ["a Cat", "cat", "dog", True], "a Cat"),
        ("replaced", ["a big big cat", "big", "", True], "a cat"),
        ("replaced", ["über die Brücke", "ber", "x", True], "über die Brücke"),
        ("replaced", ["犬と猫", "と", "と", False], "犬と猫"),
        ("replaced", ["a 🐞 here", "🐞", "beetle", True], "a beetle here"),
    ]
    code = "data.map(([name, given]) => page[name](...given))"
    told = node(tmp_path, "review-text.js", code, [call[:2] for call in asked], PARTS)
    assert told == [expected for *_, expected in asked]


EVIL = ["../x", "/etc/passwd", "a/../../b", "..", ".", "...", "", "C:\\Windows\\x.jpg", "a\\..\\b"]
EVIL += ["\0\n\x1b", "n" * 300 + ".jpg", "犬" * 300 + ".jpg", "x." + "y" * 300, "con.jpg", "a/NUL"]
EVIL += [" lead", "trail. . ", "\ud800", "a//b", "//server/share", "e\u0301.jpg", "é.jpg", "É.jpg"]


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    code = "[data.map(page.safePath), page.besides(data, '.txt'), page.besides(data, '.xmp')]"
    for made in node(tmp_path, "review-files.js", code, EVIL, PARTS):
        for name in made:
            parts = name.split("/")
            assert all(0 < len(part.encode()) <= 255 for part in parts)
            assert not {"", ".", ".."} & {*parts}
            assert not PurePosixPath(name).is_absolute()
            assert not PureWindowsPath(name).anchor
            assert not any(PureWindowsPath(part).is_reserved() for part in parts)
            assert not any(part != part.rstrip(". ") or "\\" in part for part in parts)
            assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in name)
    assert made[3].endswith(".xmp")


def test_no_two_photos_have_one_file(tmp_path: Path) -> None:
    paths = [
        *EVIL,
        *EVIL,
        "1.jpg",
        "1.png",
        "1.JPG",
        "2.jpg",
        "s/2.jpg",
        "2.jpg",
        ".hidden",
        "x.y.z",
    ]
    names = node(tmp_path, "review-files.js", "page.besides(data, '.txt')", paths, PARTS)
    folded = [unicodedata.normalize("NFC", name).casefold() for name in names]
    assert len({*folded}) == len(paths)
    assert names[-8:] == [
        *("1.jpg.txt", "1.png.txt", "1.JPG (2).txt", "2.txt", "s/2.txt", "2 (2).txt"),
        *(".hidden.txt", "x.y.txt"),
    ]


def test_an_archive_that_others_open(tmp_path: Path) -> None:
    files = [
        ["a/ünï ☕.txt", "ein Käfer 🐞\n"],
        ["b.xmp", "<x/>"],
        ["empty.txt", ""],
        ["l", "x" * 70_000],
    ]
    code = """(() => {
        const parts = page.zip(data, new Date(2026, 1, 3, 4, 5, 6));
        return Buffer.concat(parts).toString("base64");
    })()"""
    made = base64.b64decode(node(tmp_path, "review-files.js", code, files, PARTS))
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert archive.testzip() is None
        assert [[name, archive.read(name).decode()] for name in archive.namelist()] == files
        for info in archive.infolist():
            assert info.date_time == (2026, 2, 3, 4, 5, 6)
            assert info.compress_type == zipfile.ZIP_STORED
            assert info.external_attr >> 16 == 0o100644


STEPS = """(() => {
    const review = new page.Review();
    const seen = [];
    const look = (told) => seen.push([told, [...review.entries.values()].map(({ text }) => text),
        review.counts(), review.unsaved]);
    data.forEach((entry) => review.add(entry));
    look(null);
    look(review.change("one", [[1, { text: "x", seen: true }], [2, { seen: true }]]));
    look(review.change("nothing", [[1, { text: "x" }]]));
    look(review.change("all", review.all((text) => `${text}!`)));
    review.keep(review.version, new Set([1, 2]));
    look("3 was left out");
    review.keep(review.version, new Set([1, 2, 3]));
    look("saved");
    look(review.undo());
    look(review.undo());
    look(review.undo());
    look(review.redo());
    look(review.change("other", [[3, { text: "y", seen: true }]]));
    look(review.redo());
    const ids = review.ordered("doubt");
    return { seen, ids, names: review.ordered("name"),
        next: [null, ...ids].map((id) => page.nextLeft(ids, id, review.entries)),
        moved: [[2, 1], [3, 1], [2, -9], [null, 1], [null, -1]].map(([id, by]) =>
            page.stepped(ids, id, by)) };
})()"""


def test_steps_and_back(tmp_path: Path) -> None:
    entries = [
        {"id": 1, "path": "10.jpg", "said": "a", "confidence": 0.5},
        {"id": 2, "path": "9.jpg", "said": "b", "confidence": 0.1},
        {"id": 3, "path": "b/1.jpg", "said": "c", "confidence": 0.5},
    ]
    told = node(tmp_path, "review-state.js", STEPS, entries, PARTS)

    def counts(left: int, accepted: int, edited: int) -> dict[str, int]:
        return {"left": left, "accepted": accepted, "edited": edited}

    none, one, both = counts(3, 0, 0), counts(1, 1, 1), counts(1, 0, 2)
    assert told["seen"] == [
        [None, ["a", "b", "c"], none, False],
        [[1, 2], ["x", "b", "c"], one, True],
        [[], ["x", "b", "c"], one, True],
        [[1, 2, 3], ["x!", "b!", "c!"], both, True],
        ["3 was left out", ["x!", "b!", "c!"], both, True],
        ["saved", ["x!", "b!", "c!"], both, False],
        [{"what": "all", "ids": [1, 2, 3]}, ["x", "b", "c"], one, True],
        [{"what": "one", "ids": [1, 2]}, ["a", "b", "c"], none, True],
        [None, ["a", "b", "c"], none, True],
        [{"what": "one", "ids": [1, 2]}, ["x", "b", "c"], one, True],
        [[3], ["x", "b", "y"], counts(0, 1, 2), True],
        [None, ["x", "b", "y"], counts(0, 1, 2), True],
    ]
    assert told["ids"] == [2, 1, 3]
    assert told["names"] == [2, 1, 3]
    assert told["next"] == [None] * 4
    assert told["moved"] == [1, 3, 2, 2, 3]
