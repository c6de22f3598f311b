"""photos.md: photographs from elsewhere, what two models said of them, and a judge of that.

From docs/photos: photos.toml, the list; judgements.toml, the sheet of benchmarks/photo_sheet.py as
the judge filled it in; key.json, which entry of it is whose; judgements-before.toml and
key-before.json, the sheet before, on which the old model was the new one. And from the files of
benchmarks/photos.py here.
"""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

FOLDER = Path(__file__).parent
ALBUM, KEY, JUDGEMENTS = "photos.toml", "key.json", "judgements.toml"
RUNS = {"old": "photos-before.json", "new": "photos.json"}
EARLIER_KEY, EARLIER_JUDGEMENTS = "key-before.json", "judgements-before.toml"
EARLIER_RUNS = {"old": "photos-earlier.json", "new": "photos-before.json"}
COPIES = "photo-copies.json"
MAIN, NOTHING_FALSE, TIMES = 38, 34, 2  # what we set ourselves, of all, for the second model
VERDICTS = ("right", "wrong")
NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Verdict:
    """What the judge says of a caption; `main` is empty where it has not been judged."""

    main: str = ""
    false: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if not self.main:
            return NOT_JUDGED
        false = f"false: {self.false}" if self.false else "nothing false"
        return f"{self.main}, {false}. {self.reason}".strip()


Verdicts = dict[str, dict[str, Verdict]]  # by model, by photograph


def photos(results: Path = FOLDER, album: Path = FOLDER.parent / "photos") -> str:
    """The whole page."""
    runs = {who: _json(results / name) for who, name in RUNS.items()}
    listed = _toml(album / ALBUM)
    sheet = _toml(album / JUDGEMENTS)
    verdicts = _verdicts(runs, sheet, _json(album / KEY).get("entries", []))
    parts = [
        _head(runs),
        _judge(sheet, verdicts),
        _counts(verdicts),
        _targets(verdicts),
        _earlier(results, album),
        _table(runs, listed, verdicts),
        _sources(listed),
    ]
    if (results / COPIES).exists():
        parts.append(_copies(_json(results / COPIES)))
    return "\n".join(part for part in parts if part)


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def _toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8")) if path.exists() else {}


def _captions(run: dict[str, Any]) -> dict[str, str]:
    return {photo["id"]: photo["caption"] for photo in run["photos"]}


def _verdicts(
    runs: dict[str, dict[str, Any]], sheet: dict[str, Any], key: list[dict[str, Any]]
) -> Verdicts:
    """By the key; a verdict of a caption that the model does not say any more is none."""
    answers = {entry["number"]: entry for entry in sheet.get("entries", [])}
    if unknown := answers.keys() - {entry["number"] for entry in key}:
        raise ValueError(f"{JUDGEMENTS}: {KEY} has no entry {min(unknown)}")
    said = {who: _captions(run) for who, run in runs.items()}
    found: Verdicts = {who: dict.fromkeys(own, Verdict()) for who, own in said.items()}
    for entry in key:
        answer = answers.get(entry["number"], {"caption": None})
        for who in entry["by"]:
            if answer["caption"] == said[who].get(entry["photo"]):
                found[who][entry["photo"]] = _verdict(answer)
    return found


def _verdict(answer: dict[str, Any]) -> Verdict:
    own = Verdict(answer["main"], answer["false"].strip(), answer["reason"].strip())
    if own.main and own.main not in VERDICTS:
        raise ValueError(f"{JUDGEMENTS}: {answer['number']}: {own.main!r} is not of {VERDICTS}")
    if own.main and not own.reason:
        raise ValueError(f"{JUDGEMENTS}: {answer['number']}: there is no reason")
    if own.false and not own.main:
        raise ValueError(f"{JUDGEMENTS}: {answer['number']}: `main` is not filled in")
    return own


def _head(runs: dict[str, dict[str, Any]]) -> str:
    old, new = runs["old"], runs["new"]
    return f"""# {len(new["photos"])} photographs from elsewhere

Made by `make docs` from `photos.json`, which is
`{new["command"]}`
(naic {new["naic"]}, weights {new["model_sha256"][:16]}), from `photos-before.json`, the same of the
model that shipped before it (naic {old["naic"]}, weights {old["model_sha256"][:16]}), and from
[photos.toml](../photos/photos.toml), which says where each photograph is and by which rule it was
taken: the rule was written by someone who had seen no caption of any of them. All that the rule
finds are here, good and bad alike, and all count. How sure a model was of each word is in the two
files.
"""


def _judge(sheet: dict[str, Any], verdicts: Verdicts) -> str:
    """Who judged, and how."""
    if not any(own.main for said in verdicts.values() for own in said.values()):
        return "Nobody has judged these captions yet.\n"
    return f"""## The judge

{sheet["judge"].strip()}

The captions of both models were on one sheet in a random order, without a word of which model said
them, and the photographs had numbers for names; a caption that both models give was judged once
([the sheet](../photos/judgements.toml), with its rules, and [the key](../photos/key.json), both of
`python -m benchmarks.photo_sheet`). Asked was whether the main thing is right, and what is said
that is false.
"""


def _holds(verdicts: dict[str, Verdict]) -> dict[str, int]:
    judged = [own for own in verdicts.values() if own.main]
    right = [own for own in judged if own.main == "right"]
    return {
        "the main thing is right": len(right),
        "nothing is false": sum(not own.false for own in judged),
        "both": sum(not own.false for own in right),
        NOT_JUDGED: len(verdicts) - len(judged),
    }


def _counts(verdicts: Verdicts) -> str:
    found = {who: _holds(own) for who, own in verdicts.items()}
    if all(own[NOT_JUDGED] == len(verdicts["new"]) for own in found.values()):
        return ""
    rows = [
        f"| {what} | {found['old'][what]} | {found['new'][what]} |"
        for what in found["new"]
        if what != NOT_JUDGED or found["old"][what] or found["new"][what]
    ]
    total = len(verdicts["new"])
    return f"| of {total} | old model | new model |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _targets(verdicts: Verdicts) -> str:
    old, new = (_holds(verdicts[who]) for who in ("old", "new"))
    if old[NOT_JUDGED] or new[NOT_JUDGED]:
        return ""
    main, clean, before = (
        new["the main thing is right"],
        new["nothing is false"],
        old["nothing is false"],
    )
    held = clean >= NOTHING_FALSE or clean >= TIMES * before
    return f"""| set beforehand for the model before, and kept | found | |
|---|---|---|
| the main thing is right in at least {MAIN} | {main} | {_held(main >= MAIN)} |
| nothing is false in at least {NOTHING_FALSE}, or twice as often as with the old model \
| {clean}, and {before} with the old | {_held(held)} |
"""


def _held(holds: bool) -> str:
    return "reached" if holds else "**missed**"


def _earlier(results: Path, album: Path) -> str:
    """An earlier judge may have been of another mind."""
    sheet = _toml(album / EARLIER_JUDGEMENTS)
    if not sheet:
        return ""
    runs = {who: _json(results / name) for who, name in EARLIER_RUNS.items()}
    verdicts = _verdicts(runs, sheet, _json(album / EARLIER_KEY)["entries"])
    first, old = (_holds(verdicts[who]) for who in ("old", "new"))
    return f"""An earlier judge, on a sheet of the old model and the one before that
([sheet](../photos/{EARLIER_JUDGEMENTS}), [key](../photos/{EARLIER_KEY})), found the main thing
right in {old["the main thing is right"]} of the old model's captions and nothing false in \
{old["nothing is false"]};
of the one before that, in {first["the main thing is right"]} and {first["nothing is false"]}.
"""


def _table(runs: dict[str, dict[str, Any]], listed: dict[str, Any], verdicts: Verdicts) -> str:
    known = {photo["id"]: photo for photo in listed["photos"]}
    sources = {source["name"]: source for source in listed["sources"]}
    said = {who: _captions(run) for who, run in runs.items()}
    heads = ["photograph", "what there is to see", "old model", "verdict", "new model", "verdict"]
    lines = ["| " + " | ".join([*heads, "licence, author"]) + " |", "|---" * 7 + "|"]
    for name in said["new"]:
        own = known[name]
        cells = [
            f"[{own['id']}]({_link(sources[own['source']], own['file'])})",
            own["main"],
            *(
                text
                for who in ("old", "new")
                for text in (said[who].get(name, ""), str(verdicts[who].get(name, Verdict())))
            ),
            f"{own['licence']}, {own['author']}",
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "## All of them\n\n" + "\n".join(lines) + "\n"


def _link(source: dict[str, Any], file: str) -> str:
    path = quote(f"{source['repository']}/blob/{source['commit']}/{source['folder']}/{file}")
    return f"https://github.com/{path}"


def _sources(listed: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {source['name']} | {source.get('package', '')} | {source['licences']} |"
        for source in listed["sources"]
    )
    return f"""## Where they are from

| source | in the package | where the licences are named |
|---|---|---|
{rows}
"""


def _copies(found: dict[str, Any]) -> str:
    return f"""## Not in COCO

`python -m benchmarks.photo_copies` compares fingerprints of {found["bits"]} bits with those of the
{found["images"]:,} images of our COCO split. A squashed copy differs from its photograph in at
most {max(found["copied"].values())} bits; the nearest image of COCO differs in
{min(found["nearest"].values())}.
"""
