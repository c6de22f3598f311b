"""What the README, the guides of data and rewards, and the configs say must work."""

import ast
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import skimage
import tyro
from benchmarks.photos import ALBUM, read_album
from benchmarks.readme_photos import COLUMNS, EDGE, SIZE, draw, shown
from PIL import Image

from naic.cli.main import main
from naic.cli.prepare import _from_file
from naic.data.records import READER_NAMES
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.options import DistilOptions
from naic.tasks.reproduce.preset import read_preset
from naic.tasks.reproduce.run_file import ReproduceOptions
from naic.tasks.study.spec import read_study, runs_of
from naic.text import Vocabulary
from naic.train.config import read_settings
from tests.data.pseudos import make_pseudo, taught

ROOT = Path(__file__).parent.parent
PHOTO = Path(skimage.__file__).parent / "data" / "rocket.jpg"
README = (ROOT / "README.md").read_text(encoding="utf-8")
DATA = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
REWARDS = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "evaluate.md").read_text(encoding="utf-8")
DISTIL = (ROOT / "docs" / "distil.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README + DATA + REWARDS, re.DOTALL)
DISTIL_BLOCKS = re.findall(r"```(\w+)\n(.*?)```", DISTIL, re.DOTALL)


@pytest.fixture
def features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the examples find their `features`, and a photo."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(PHOTO, tmp_path / "photo.jpg")
    words = "prepare shapes 8 --out features --device cpu"
    assert main(shlex.split(words)) == 0
    return tmp_path / "features"


def test_the_python_examples_run_and_say_what_they_claim(features: Path) -> None:
    claims = 0
    codes = [code for language, code in BLOCKS if language == "python"]
    assert len(codes) >= 4
    for code in codes:
        names: dict[str, object] = {}
        exec(code, names)
        for expression, claim in re.findall(r"^(\S.*?)\s+# ('.*')$", code, re.MULTILINE):
            assert eval(expression, names) == ast.literal_eval(claim)
            claims += 1
    assert claims >= 1


def test_the_options_of_the_guide_exist() -> None:
    """The rows of its table, each added to the plain command."""
    rows = re.findall(r"^\| .* \| `(--[^`]+)`", GUIDE, re.MULTILINE)
    assert len(rows) >= 7
    for row in rows:
        words = ["results.json", "--references", "captions.csv", *shlex.split(row)]
        assert tyro.cli(EvaluateOptions, args=words) != EvaluateOptions(
            Path("results.json"), "captions.csv"
        )


def test_the_options_of_the_distillation_guide_exist() -> None:
    """The rows of its table, each added to the plain command."""
    rows = re.findall(r"^\| .* \| `(--[^`]+)`", DISTIL, re.MULTILINE)
    assert len(rows) >= 8
    plain = DistilOptions(Path("teacher"), Path("out"), (Path("store"),))
    for row in rows:
        words = ["teacher", "--out", "out", *shlex.split(row)]
        words += [] if "--images" in words else ["--features", "store"]
        chosen = tyro.cli(DistilOptions, args=words)
        assert chosen != plain
        chosen.check()


def test_the_store_of_the_distillation_guide_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    said = taught("a red circle above a blue square")
    words = Vocabulary.build(said.captions, more_than=0)
    make_pseudo(Path("runs/shapes-pseudo"), {"shapes-0-000001": said}, vocabulary=words)
    code = next(code for language, code in DISTIL_BLOCKS if language == "python")
    names: dict[str, Any] = {}
    exec(code, names)
    expression, claim = re.findall(r"^(store\.\S+)\s+# (.*), say$", code, re.MULTILINE)[0]
    assert eval(expression, names) == ast.literal_eval(claim)


def test_make_targets_named_in_the_documents_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        named = set(re.findall(r"^make ([\w-]+)", text, re.MULTILINE))
        assert named
        assert named <= targets


def test_every_reader_is_in_the_guide() -> None:
    assert {name for name in READER_NAMES if f"| `{name}` |" in DATA} == set(READER_NAMES)


def test_the_readme_is_short_and_names_what_a_newcomer_needs() -> None:
    assert len(README.splitlines()) < 120
    for words in ("make demo", "naic caption photo.jpg", "make test", "(docs/README.md)"):
        assert words in README


def test_the_picture_shows_what_the_model_says_of_photos_that_may_be_shown() -> None:
    assert "](docs/photos.jpg)" in README
    path = ROOT / "docs" / "photos.jpg"
    assert path.stat().st_size < 300_000
    with Image.open(path) as picture:
        said = json.loads(picture.info["comment"])
    photos = json.loads((ROOT / "docs" / "results" / "photos.json").read_text(encoding="utf-8"))
    captions = {photo["id"]: photo["caption"] for photo in photos["photos"]}
    assert said == {photo.id: captions[photo.id] for photo in shown(read_album(ALBUM))}


def test_the_picture_can_be_drawn(tmp_path: Path) -> None:
    drawn = draw([PHOTO] * 5, ["a rocket"] * 5)
    assert drawn.width == COLUMNS * (SIZE[0] + EDGE) + EDGE
    assert drawn.height > 2 * SIZE[1]


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text(encoding="utf-8")
    pages = {str(path.relative_to(docs)) for path in docs.glob("*.md")}
    pages |= {str(path.relative_to(docs)) for path in docs.glob("results/*.md")}
    assert {page for page in pages - {"README.md"} if f"]({page})" not in index} == set()


def test_the_tree_of_the_sources_is_as_it_is() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = text.partition("src/naic/\n")[2].partition("```")[0]
    package, parent, named = ROOT / "src" / "naic", Path(), set()
    for line in tree.splitlines():
        found = re.match(r"( +)(\S+)  ", line)
        if found and len(found[1]) <= 6:  # or it goes on with the line before
            parent = Path(*parent.parts[: len(found[1]) // 2 - 1], found[2])
            assert (package / parent).exists(), line
            named.add(str(parent))
        files = re.findall(r"(?<![\w./])(\w+\.py)", line.removeprefix(found[0]) if found else line)
        assert all((package / parent / name).is_file() for name in files), line
    folders = [p.parent for p in package.rglob("__init__.py") if p.parent != package]
    assert {str(p.relative_to(package)) for p in folders} <= named
    assert {path.name for path in package.glob("[!_]*.py")} <= named


TERMS = (
    *("agent", "teacher", "student", "counterfactual", "backbone", "region", "feature store"),
    *("pseudo captions", "df", "human references", "test evaluations", "dry run"),
)


def test_the_glossary_explains_the_words_of_this_project() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = ", ".join(re.findall(r"^\*\*(.+?)\*\*", glossary, re.MULTILINE)).split(", ")
    assert len(terms) == len({*terms})
    assert {*TERMS} <= {*terms}


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "configs").glob("*/*.toml")),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_every_config_parses(path: Path) -> None:
    if path.stem in ("prepare", "unlabelled", "pixels"):
        assert _from_file(path).reader in READER_NAMES
    elif path.stem == "preset":
        assert read_preset(str(path.parent)).settings.report
    elif path.stem in ("study", "study_again", "study_full", "study_next", "systems"):
        options = ReproduceOptions(Path("out"), study=path)
        study = read_study(options)
        assert all("train" in runs_of(study, variant, options) for variant in study.variants)
    else:
        assert read_settings(path).out
