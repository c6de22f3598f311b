"""Captions side by side for the same unseen images, repeated words marked: captions.md, .html.

The images are spread evenly over the split: none is chosen for what was said of it. For images of
COCO there are also files as its evaluation server takes them. The server knows an answer only for
images whose captions it keeps to itself, and Karpathy's splits are none of these: the files show
what a submission looks like, and are what other programs read.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from urllib.parse import quote

from naic.data.features import StoredRecord
from naic.data.shapes.dataset import draw
from naic.data.shapes.scenes import make_scene
from naic.files import remove_temporaries, write_atomically
from naic.images.formats import plain_id
from naic.metrics.marks import REPEAT, pieces
from naic.tasks.evaluate.page import Contents, Said, page
from naic.tasks.reproduce.tables import TableRow

KEPT = "captions.json"
SERVER_FILE = "captions_test2014_%s_results.json"
HUMAN = "human"
_BEFORE = {"people": HUMAN}  # what it was called in captions.json before
_SCENE = re.compile(r"shapes-(\d+)-(\d+)")  # the name that a drawn image has in a store
TITLE = "Captions side by side"
BAR = "\\|"  # in a cell of a table; a bare one would begin the next cell
NOTE = "A word that repeats the one before it is marked. Images of the split %s, evenly spaced."


@dataclass(frozen=True)
class Example:
    """An image with its human caption and those of the systems.

    Attributes:
        image: path of the image from the page, or empty.
        captions: by who says them, in order.
    """

    id: str
    image: str
    captions: dict[str, str]


def gather(
    records: Sequence[StoredRecord], results: Mapping[str, Path], count: int, out: Path
) -> list[Example]:
    """Examples evenly spaced over the images; drawn scenes are put beside the page as PNG.

    Args:
        records: the images that the results are about, with their human captions.
        results: by system, its captions in COCO's results format.
        count: how many examples.
        out: the folder of the page.
    """
    said = {
        name: {str(row["image_id"]): row["caption"] for row in json.loads(path.read_bytes())}
        for name, path in results.items()
    }
    examples = []
    for i in range(min(count, len(records))):
        record = records[i * len(records) // count]
        captions = {HUMAN: record.captions[0]}
        plain = plain_id(record.id)  # a dataset may spell it otherwise than the store did
        captions |= {name: own.get(record.id, own.get(plain, "")) for name, own in said.items()}
        examples.append(Example(record.id, _image(record, out), captions))
    return examples


def write_pages(out: Path, examples: Sequence[Example], split: str) -> None:
    """captions.md and captions.html for people, captions.json for programs."""
    remove_temporaries(out, "captions.md", "captions.html", KEPT)
    note = NOTE % split
    text = f"# {TITLE}\n\n{note}\n" + "".join(map(_in_markdown, examples))
    write_atomically(out / "captions.md", text.encode())
    write_atomically(out / "captions.html", *page(_contents(examples, note)))
    text = json.dumps([asdict(example) for example in examples], indent=1, ensure_ascii=False)
    write_atomically(out / KEPT, f"{text}\n".encode())


def read_examples(out: Path) -> list[Example]:
    """What `write_pages` kept."""
    rows = json.loads((out / KEPT).read_bytes())
    for row in rows:
        row["captions"] = {_BEFORE.get(who, who): text for who, text in row["captions"].items()}
    return [Example(**row) for row in rows]


def mark(caption: str, before: str, after: str) -> str:
    """The caption with each word that repeats the one before it between two marks."""
    return "".join(
        f"{before}{text}{after}" if REPEAT in marks else text
        for text, marks in pieces(" ".join(caption.split()))
    )


def _contents(examples: Sequence[Example], note: str) -> Contents:
    """The same for a browser; what people said is the reference."""
    names = dict.fromkeys(name for example in examples for name in example.captions)
    links = [quote(example.image) or None for example in examples]
    return Contents(
        title=TITLE,
        notes=[note],
        ids=[example.id for example in examples],
        references=[[example.captions[HUMAN]] for example in examples],
        systems=[
            Said(name, [example.captions[name] for example in examples])
            for name in names
            if name != HUMAN
        ],
        links=links if any(links) else (),
    )


def _in_markdown(example: Example) -> str:
    image = f"![{example.id}]({example.image})\n\n" if example.image else ""
    rows = "\n".join(
        f"| {who} | {mark(text.replace('|', BAR), '**', '**')} |"
        for who, text in example.captions.items()
    )
    return f"\n## {example.id}\n\n{image}| | |\n|---|---|\n{rows}\n"


def _image(record: StoredRecord, out: Path) -> str:
    """A drawn scene as a file of ours, an image of the user's where it lies, else nothing."""
    scene = _SCENE.fullmatch(record.image)
    if scene is None:
        path = Path(record.image)
        return str(path.absolute()) if path.is_file() else ""
    target = out / "images" / f"{record.image}.png"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        buffer = BytesIO()
        draw(make_scene(int(scene[1]), int(scene[2]))).save(buffer, format="PNG")
        write_atomically(target, buffer.getvalue())
    return f"images/{target.name}"


def write_server_files(out: Path, rows: Sequence[TableRow], best: dict[str, float]) -> list[Path]:
    """Write those of the teacher at its widest beam and of the best student; gives their paths.

    Args:
        out: the folder of the reproduction.
        rows: of the ladder.
        best: by stage, its best CIDEr on the images that models are chosen by: choosing by the
            figures of the table would be choosing by what is reported.
    """
    teachers = [row for row in rows if row["system"].startswith("AIC")]
    students = [row for row in rows if not row["system"].startswith("AIC")]
    chosen = teachers[-1:]
    if students:  # of equals the last: the ladder's highest rung
        chosen.append(max(reversed(students), key=lambda row: best.get(row["stage"], 0.0)))
    return [_write_server_file(out, row) for row in chosen]


def _write_server_file(out: Path, row: TableRow) -> Path:
    system = str(row["system"]).lstrip("+").replace(" ", "-")
    path = out / "server" / (SERVER_FILE % system)
    path.parent.mkdir(exist_ok=True)
    remove_temporaries(path.parent, path.name)
    said = json.loads((out / row["captions"][0]).read_bytes())
    rows = [{"image_id": int(one["image_id"]), "caption": one["caption"]} for one in said]
    write_atomically(path, f"{json.dumps(rows)}\n".encode())
    return path
