"""The page of runs: one file, valid, and all that comes from outside is text in it."""

import re
from html.parser import HTMLParser
from pathlib import Path

from naic.tasks.show.find import find
from naic.tasks.show.page import MOST_VALIDATIONS, make_page
from tests.tasks.show.runs import LINES, make_run, training, validation

VOID = {"meta", "br", "img", "link", "input"}
COMMAND = "naic show runs/mine --html page.html"


class Checked(HTMLParser):
    """Every tag is closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.tags.append(tag)
        self.open += [tag] * (tag not in VOID)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data.strip())


def test_a_page_of_one_run(tmp_path: Path) -> None:
    page = make_page(find([make_run(tmp_path / "mine", best=10)]), COMMAND)
    found = Checked(page)
    assert page.startswith("<!doctype html>\n")
    assert {"mine", "Curves", "Validations", "10 (best)", "The curves in numbers"} <= {*found.words}
    assert COMMAND in found.words
    assert "Settings that differ" not in found.words
    assert found.tags.count("svg") == page.count('role="img"') == page.count("<desc>") > 3
    assert "script" not in found.tags
    assert "prefers-color-scheme: dark" in page


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    page = make_page(find([make_run(tmp_path / "mine")]), COMMAND)
    assert re.findall(r"https?://[^\"\s]+", page.replace("http://www.w3.org/2000/svg", "")) == []
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert "url(" not in page


def test_a_page_of_several_runs(tmp_path: Path) -> None:
    for seed in (1, 2, 3, 4):
        make_run(tmp_path / f"seed {seed}", seed=seed)
    found = Checked(make_page(find([tmp_path]), COMMAND))
    assert "seed 1, seed 2, seed 3 and 1 more" in found.words
    assert {"Settings that differ", "seed", "Training: loss, seed 4"} <= {*found.words}


def test_a_page_of_nothing_yet(tmp_path: Path) -> None:
    found = Checked(make_page(find([make_run(tmp_path, [])]), COMMAND))
    assert "Nothing was logged yet, so there are no curves." in found.words
    assert "svg" not in found.tags


def test_values_that_are_none_are_counted(tmp_path: Path) -> None:
    page = make_page(find([make_run(tmp_path, [*LINES, training(20, loss="nan")])]), COMMAND)
    assert "not finite" in Checked(page).words


def test_names_from_outside_are_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)<img src=x onerror=alert(1)>\x00\u202e"[:-2] + "\u202e"
    run = make_run(tmp_path / "<b>&" / evil.replace("/", ""), out="x")
    text = f'stage = "{evil[:20]}"\nout = "o"\ncaptioner = "</dd>"\nseed = 2\n'
    (run / "config.toml").write_text(text)
    (run / "metrics.jsonl").write_text('{"step": 1, "</svg><script>": 2.0}\n')
    make_run(tmp_path / "<b>&" / "other")
    for found in (find([run]), find([tmp_path])):
        tags = Checked(make_page(found, f"naic show '{run}'")).tags
        assert "script" not in tags
        assert "img" not in tags
        assert "b" not in tags


def test_of_many_validations_the_best_and_the_last_are_shown(tmp_path: Path) -> None:
    lines = [validation(step, 0.9 if step == 333 else 0.1) for step in range(1, 1000)]
    page = make_page(find([make_run(tmp_path, lines)]), COMMAND)
    words = Checked(page).words
    assert {"333 (best)", "999"} <= {*words}
    assert page.count('<tr><th scope="row">') < MOST_VALIDATIONS + 10


def test_a_long_log_makes_a_small_page(tmp_path: Path) -> None:
    lines = [training(step, loss=step % 7, reward=step % 5) for step in range(1, 20_001)]
    assert len(make_page(find([make_run(tmp_path, lines)]), COMMAND)) < 150_000
