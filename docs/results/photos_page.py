"""photos.md: photographs from elsewhere, what a model said of them, and a judge of that."""

import json
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import quote

FOLDER = Path(__file__).parent
ALBUM, RUN, JUDGEMENTS = "photos.toml", "photos.json", "judgements.toml"
COPIES = "photo-copies.json"
LEAST = 18  # of those that count: what we set ourselves
VERDICTS = ("right", "wrong")
NOT_JUDGED = "not judged"


def photos(results: Path = FOLDER, album: Path = FOLDER.parent / "photos") -> str:
    """The whole page."""
    run = json.loads((results / RUN).read_text(encoding="utf-8"))
    listed = tomllib.loads((album / ALBUM).read_text(encoding="utf-8"))
    judgements = tomllib.loads((album / JUDGEMENTS).read_text(encoding="utf-8"))
    verdicts = _verdicts(run["photos"], judgements)
    counted = [photo for photo in run["photos"] if photo["counts"]]
    rest = [photo for photo in run["photos"] if not photo["counts"]]
    parts = [
        _head(run, len(counted), len(rest)),
        _total([verdicts[photo["id"]][0] for photo in counted]),
        _table(counted, listed, verdicts),
        _others([verdicts[photo["id"]][0] for photo in rest]),
        _table(rest, listed, verdicts),
        _sources(listed),
    ]
    if (results / COPIES).exists():
        parts.append(_copies(json.loads((results / COPIES).read_text(encoding="utf-8"))))
    return "\n".join(parts)


def _verdicts(said: list[dict[str, Any]], judgements: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Verdict and note of each photograph; a verdict of another caption is none."""
    unknown = judgements.keys() - {photo["id"] for photo in said}
    if unknown:
        raise ValueError(f"{JUDGEMENTS}: there is no photograph {', '.join(sorted(unknown))}")
    found = {}
    for photo in said:
        own = judgements.get(photo["id"], {})
        verdict = own.get("verdict", "")
        if verdict and verdict not in VERDICTS:
            raise ValueError(f"{JUDGEMENTS}: {photo['id']}: {verdict!r} is not of {VERDICTS}")
        if not verdict or own["caption"] != photo["caption"]:
            found[photo["id"]] = (NOT_JUDGED, "")
        else:
            found[photo["id"]] = (verdict, own.get("note", ""))
    return found


def _head(run: dict[str, Any], counted: int, rest: int) -> str:
    return f"""# {counted} photographs from elsewhere

Made by `make docs` from `photos.json`, which is
`{run["command"]}`
(naic {run["naic"]}, weights {run["model_sha256"][:16]}), and from
[photos.toml](../photos/photos.toml), which says where each photograph is and by which rule it was
taken: the rule was written by someone who had seen no caption of any of them. All {counted + rest}
that the rule finds are here, good and bad alike; the first {counted} count. Whether a caption names
the main thing was said by a judge who had seen nothing else that the model says; mistakes about
the rest, and in the grammar, do not count ([judgements.toml](../photos/judgements.toml)). How sure
the model was of each word is in `photos.json`.
"""


def _total(verdicts: list[str]) -> str:
    right, open_ = verdicts.count("right"), verdicts.count(NOT_JUDGED)
    asked = f"At least {LEAST} were asked for"
    if right >= LEAST:
        held = f"{asked}: reached."
    elif right + open_ < LEAST:
        held = f"{asked}: **missed**."
    else:
        held = f"{asked}; {open_} are not judged."
    return f"**The main thing is right in {right} of {len(verdicts)}.** {held}\n"


def _others(verdicts: list[str]) -> str:
    return f"""## The others

The rule finds these too. They are over the number, and do not count: {verdicts.count("right")} of
{len(verdicts)} are right.
"""


def _table(
    said: list[dict[str, Any]], listed: dict[str, Any], verdicts: dict[str, tuple[str, str]]
) -> str:
    known = {photo["id"]: photo for photo in listed["photos"]}
    sources = {source["name"]: source for source in listed["sources"]}
    rows = []
    for photo in said:
        own = known[photo["id"]]
        verdict, note = verdicts[photo["id"]]
        cells = [
            f"[{own['id']}]({_link(sources[own['source']], own['file'])})",
            own["main"],
            photo["caption"],
            f"{verdict}: {note}" if note else verdict,
            f"{own['licence']}, {own['author']}",
        ]
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines = ["| photograph | what there is to see | caption | verdict | licence, author |"]
    return "\n".join([*lines, "|---|---|---|---|---|", *rows]) + "\n"


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
