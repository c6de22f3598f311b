"""Runs with wishes about words: what the captioner hears, and captions that are left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from naic.errors import ConfigError, Problem
from naic.tasks.caption.run import Captioned
from tests.tasks.caption.small import Fake, run, says, touch

NAMES = ("1.jpg", "2dim.jpg", "3bad.jpg", "4.jpg", "5dim.jpg")
LEFT_OUT = [
    Problem(
        f"p/{name}",
        "left out: its caption is only 10.0% sure",
        "Lower --min-confidence to have it.",
    )
    for name in ("2dim.jpg", "5dim.jpg")
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    touch(Path("p"), *NAMES)
    return tmp_path


def row(name: str) -> str:
    return json.dumps({"path": f"p/{name}", "caption": says(name).text}) + "\n"


def counts(done: Captioned) -> tuple[int, int, int, int, int]:
    return done.captions, done.resumed, done.kept, done.unsure, done.bad


def test_the_captioner_hears_what_is_wished(home: Path) -> None:
    fake = Fake()
    wishes: dict[str, Any] = {"max_words": 7, "forbid": "a, b", "prefer": "c", "neutral": True}
    run("p/1.jpg", fake=fake, max_chars=20, prefix="alt: ", suffix=".", **wishes)
    assert fake.wishes == [{**wishes, "max_chars": 14, "style": True}]
    run("p/1.jpg", fake=fake, style=False)
    unwished = {"max_words": None, "max_chars": None, "forbid": "", "prefer": "", "neutral": False}
    assert fake.wishes[1:] == [{**unwished, "style": False}]


def test_captions_that_are_not_sure_enough_are_left_out(home: Path) -> None:
    done, heard = run("p", min_confidence=0.2)
    assert counts(done) == (2, 0, 0, 2, 1)
    assert heard.out == "".join(f"p/{name}: {says(name).text}\n" for name in ("1.jpg", "4.jpg"))
    assert [one for one in heard.problems if "left out" in one.why] == LEFT_OUT
    assert counts(run("p", min_confidence=0.1)[0]) == (4, 0, 0, 0, 1)  # just as sure is enough
    assert counts(run("p", min_confidence=0.0)[0]) == (4, 0, 0, 0, 1)


def test_a_file_without_them_can_be_filled_up_later(home: Path) -> None:
    out = Path("out.jsonl")
    done, heard = run("p", out=out, min_confidence=0.2)
    assert counts(done) == (2, 0, 0, 2, 1)
    assert [one for one in heard.problems if "left out" in one.why] == LEFT_OUT
    assert out.read_text() == row("1.jpg") + row("4.jpg")
    again, _ = run("p", out=out, min_confidence=0.2, existing="skip")
    assert counts(again) == (0, 0, 2, 2, 1)
    assert out.read_text() == row("1.jpg") + row("4.jpg")
    more, _ = run("p", out=out, existing="skip")
    assert counts(more) == (2, 0, 2, 0, 1)
    assert out.read_text() == "".join(map(row, ("1.jpg", "4.jpg", "2dim.jpg", "5dim.jpg")))


@pytest.mark.parametrize(("kind", "empty"), [("json", "[]\n"), ("jsonl", ""), ("coco", "[]\n")])
def test_a_file_of_none_is_whole(home: Path, kind: Any, empty: str) -> None:
    touch(Path("q"), "000000000001dim.jpg" if kind != "coco" else "dim/000000000001.jpg")
    done, _ = run("q", out=Path("out"), format=kind, min_confidence=0.3)
    assert counts(done) == (0, 0, 0, 1, 0)
    assert Path("out").read_text() == empty
    assert run("q", out=Path("out"), format=kind, existing="skip")[0].captions == 1


def test_a_run_that_goes_on_knows_which_were_left_out(home: Path) -> None:
    how: dict[str, Any] = {"out": Path("out.jsonl"), "batch": 1, "min_confidence": 0.2}
    with pytest.raises(KeyboardInterrupt):
        run("p", fake=Fake(breaks_at=3), **how)
    fake = Fake()
    done, heard = run("p", fake=fake, **how)
    assert fake.seen == ["p/4.jpg", "p/5dim.jpg"]
    assert counts(done) == (2, 1, 0, 2, 1)
    assert [one for one in heard.problems if "left out" in one.why] == LEFT_OUT
    assert Path("out.jsonl").read_text() == row("1.jpg") + row("4.jpg")


def test_an_image_that_was_left_out_and_deleted_is_no_loss(home: Path) -> None:
    how: dict[str, Any] = {"out": Path("out.jsonl"), "batch": 1, "min_confidence": 0.2}
    with pytest.raises(KeyboardInterrupt):
        run("p/2dim.jpg", "p/4.jpg", fake=Fake(breaks_at=1), **how)
    assert Path("out.jsonl.part").is_file()
    done, _ = run("p/4.jpg", **how)  # it is there, but has no caption that could be lost
    assert counts(done) == (1, 0, 0, 0, 0)


def test_no_text_file_is_written_and_one_that_is_there_stays(home: Path) -> None:
    Path("p/2dim.txt").write_text("a person wrote this\n")
    done, heard = run("p", format="txt", min_confidence=0.2, existing="overwrite")
    assert counts(done) == (2, 0, 0, 2, 1)
    assert [one for one in heard.problems if "left out" in one.why] == LEFT_OUT
    assert Path("p/2dim.txt").read_text() == "a person wrote this\n"
    assert not Path("p/5dim.txt").exists()


def test_a_run_with_other_wishes_does_not_go_on(home: Path) -> None:
    wished: dict[str, Any] = {"max_chars": 99, "min_confidence": 0.2, "neutral": True}
    how: dict[str, Any] = {"out": Path("out"), "batch": 1, "forbid": "b a", "prefer": "c"} | wished
    with pytest.raises(KeyboardInterrupt):
        run("p", fake=Fake(breaks_at=1), **how)
    changes: list[tuple[dict[str, Any], str]] = [
        ({"max_chars": 98}, r"max_chars = 99 \(now 98\)"),
        ({"min_confidence": None}, "min_confidence"),
        ({"neutral": False}, "neutral"),
        ({"forbid": "a"}, "forbid"),
        ({"prefer": ""}, "prefer"),
    ]
    for change, which in changes:
        with pytest.raises(ConfigError, match=f"begun with .*{which}"):
            run("p", **how | change)
    assert run("p", **how | {"forbid": "A, b, a"})[0].resumed == 1  # the same words


def test_a_run_that_was_begun_before_there_were_wishes_goes_on(home: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run("p", out=Path("out"), batch=1, fake=Fake(breaks_at=1))
    part = Path("out.part")
    header, rest = part.read_text().split("\n", 1)
    begun = json.loads(header)
    for name in ("max_chars", "min_confidence", "forbid", "prefer", "neutral"):
        assert begun["plan"].pop(name) is None
    part.write_text(f"{json.dumps(begun)}\n{rest}")
    assert run("p", out=Path("out"), batch=1)[0].resumed == 1


def test_an_image_of_which_nothing_is_left_to_say_is_told(home: Path) -> None:
    """Only with wishes: that a model says nothing of an image is no news."""

    class Silent(Fake):
        def each(self, images: Any, **_: Any) -> Any:
            for path in images:
                said = says(path)
                yield type(said)("", ())

    done, heard = run("p/1.jpg", fake=Silent(), forbid="cat")
    assert counts(done) == (0, 0, 0, 0, 1)
    assert heard.problems[0].why.startswith("nothing is left of its caption")
    assert run("p/1.jpg", fake=Silent())[0].captions == 1
