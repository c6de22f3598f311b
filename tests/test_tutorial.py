"""docs/coco.md: every command can be given, and each finds what an earlier one made."""

import re
import shlex
from pathlib import Path

import pytest
import tyro

from naic.cli.main import VERBS
from naic.cli.prepare import _parse as parse_prepare
from naic.cli.train import _parse as parse_train
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.options import DistilOptions, PackOptions
from naic.tasks.reproduce.preset import read_preset
from naic.tasks.reproduce.run_file import ReproduceOptions
from naic.train.config import read_settings

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "coco.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line)
    for code in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in code.splitlines()
]
GIVEN = {Path("dataset_coco.json"), Path("train2014"), Path("val2014"), Path("photo.jpg")}


class Shelf:
    """What is there so far."""

    def __init__(self) -> None:
        self.made = set(GIVEN)

    def take(self, *paths: Path | None) -> None:
        for path in paths:
            inside = {path, *path.parents} if path is not None else self.made
            assert inside & self.made, f"nothing makes {path}"

    def put(self, path: Path | None) -> None:
        if path is not None:
            self.made.add(path)


def follow(words: list[str], shelf: Shelf) -> None:
    """Parse a command, look for what it needs, and note what it makes."""
    match words[1]:
        case "prepare":
            prepare = parse_prepare(words[2:])
            shelf.take(Path(prepare.source), *prepare.images, prepare.weights)
            shelf.put(prepare.out)
        case "train":
            request = parse_train(words[2:])
            settings = read_settings(request.config, request.overrides)
            shelf.take(settings.start, settings.data.features, *settings.data.pseudo)
            shelf.put(settings.out)
        case "distil":
            distil = tyro.cli(DistilOptions, args=words[2:])
            distil.check()
            shelf.take(distil.model, *distil.features)
            shelf.put(distil.out)
        case "reproduce":
            ladder = tyro.cli(ReproduceOptions, args=words[2:])
            ladder.check()
            read_preset(ladder.preset)
            shelf.take(ladder.features, Path(ladder.references) if ladder.references else None)
            shelf.put(ladder.out)
        case "pack":
            pack = tyro.cli(PackOptions, args=words[2:])
            pack.check()
            shelf.take(pack.model, pack.backbone)
            shelf.put(pack.out)
        case "caption":
            asked = tyro.cli(CaptionOptions, args=words[2:])
            asked.check()
            shelf.take(*asked.paths, asked.model)
        case _:
            scored = tyro.cli(EvaluateOptions, args=words[2:])
            shelf.take(scored.results, scored.against, Path(scored.references))


def test_each_command_finds_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shelf, verbs = Shelf(), set()
    for words in COMMANDS:
        if words[0] == "naic":
            assert words[1] in VERBS
            follow(words, shelf)
            verbs.add(words[1])
        elif words[0] == "python":
            assert (ROOT / words[1]).is_file()
            shelf.take(Path(words[2]), Path(words[words.index("--features") + 1]))
            shelf.put(Path(words[words.index("--out") + 1]))
    assert verbs == {"prepare", "train", "distil", "reproduce", "pack", "caption", "evaluate"}


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists() or link == "results/coco.md"
