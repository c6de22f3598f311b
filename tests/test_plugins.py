"""What a plug-in brings, and what is refused; by its users' words, or by no one's."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from naic import plugins
from naic.backbones.load import BACKBONES, backbone_spec
from naic.cli.main import main
from naic.errors import BackboneError, ConfigError
from naic.models.captioners import BROUGHT, CAPTIONERS
from tests.plugging import plugged, unplugged

BOTH = """
from tests.toy import CAPTIONERS
from naic.backbones.load import BackboneSpec

BACKBONES = {"mine": BackboneSpec(lambda name, weights: None)}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    Path("both.py").write_text(BOTH)
    with unplugged():
        yield


def test_what_it_brings_is_known_from_then_on() -> None:
    before = {*CAPTIONERS}, {*BACKBONES}
    plugins.use("both")
    plugins.use("both", "--plugin")  # as it was
    plugins.use(sys.modules["both"])
    assert ({*CAPTIONERS}, {*BACKBONES}) == (before[0] | {"bag"}, before[1] | {"mine"})
    assert BROUGHT == {"bag": "both"}
    assert plugins.used() == ("both",)
    assert backbone_spec("mine+colours") is BACKBONES["mine"]


def test_a_module_that_is_there_already() -> None:
    import tests.toy

    plugins.use(tests.toy)
    assert CAPTIONERS["bag"] is tests.toy.CAPTIONERS["bag"]
    assert plugins.used() == ("tests.toy",)


BAD = {
    "VALUE = 1": "bad brings nothing: it has neither CAPTIONERS nor BACKBONES",
    "CAPTIONERS = {}": "bad brings nothing",
    "CAPTIONERS = ['bag']": "bad.CAPTIONERS is no dictionary",
    "CAPTIONERS = {'own': 3}": "bad.CAPTIONERS['own'] is of type int, not CaptionerSpec",
    "CAPTIONERS = {1: 3}": "bad.CAPTIONERS has the name 1, and names are",
    "from both import *; BACKBONES = {}; CAPTIONERS = {'nic': CAPTIONERS['bag']}": (
        "bad brings 'nic', and naic itself has one of that name"
    ),
    "from both import *": "bad brings 'bag', and the plug-in both has one of that name",
    "from both import *; del CAPTIONERS; BACKBONES = {'blobs': BACKBONES['mine']}": (
        "bad brings 'blobs', and naic itself has one of that name"
    ),
    "from both import *; CAPTIONERS = {'own': CAPTIONERS['bag']}; BACKBONES = {'own': 1}": (
        "bad.BACKBONES['own'] is of type int, not BackboneSpec"
    ),
    **{
        f"from both import *; del CAPTIONERS; BACKBONES = {{{name!r}: BACKBONES['mine']}}": (
            f"bad.BACKBONES has the name {name!r}, and names are"
        )
        for name in ("a+b", "a@2", "timm:a", "", "a b", "-a")
    },
}


@pytest.mark.parametrize("code", BAD)
def test_what_is_refused_leaves_nothing_behind(code: str) -> None:
    Path("bad.py").write_text(code)
    plugins.use("both")
    before = {*CAPTIONERS}, {*BACKBONES}
    with pytest.raises(ConfigError) as caught:
        plugins.use("bad", "--plugin")
    assert caught.value.why.startswith(BAD[code])
    assert ({*CAPTIONERS}, {*BACKBONES}) == before
    assert plugins.used() == ("both",)


def test_a_list_of_them() -> None:
    plugins.use_all(["both"])
    for wrong in ("both", 3):
        with pytest.raises(ConfigError, match=f"plugins: {wrong!r} is no list of modules"):
            plugins.use_all(wrong)
    with pytest.raises(ConfigError, match="'3' is no name of a module"):
        plugins.use_all([3])


def test_who_does_not_know_it_is_told_how() -> None:
    with pytest.raises(BackboneError, match=r"unknown backbone\. .* needs --plugin MODULE"):
        backbone_spec("mine")
    with pytest.raises(BackboneError, match=r"asks for a plug-in\. .* --plugin both \("):
        backbone_spec("mine", ("both",))


@pytest.mark.parametrize("words", [["--plugin", "both"], ["--plugin=both"]])
@pytest.mark.parametrize("first", [True, False])
def test_any_verb_takes_the_option(
    words: list[str], first: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    verb = ["completion", *words, "bash"] if first else ["completion", "bash", *words]
    assert main(verb) == 0
    assert plugins.OPTION_WORDS == ["--plugin", "both"]
    assert " --plugin " in capsys.readouterr().out


def test_only_what_the_command_line_named_is_said_of_it() -> None:
    with plugged("tests.toy"):
        assert plugins.OPTION_WORDS == []
        assert plugins.used() == ("tests.toy",)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--plugin", "no_such"], "naic show: --plugin: there is no module no_such"),
        (["--plugin", "both.py"], "naic show: --plugin: there is no module both.py"),
        (["--plugin", "./both.py"], "naic show: --plugin: './both.py' is no name of a module"),
        (["--plugin"], "naic show: --plugin: '' is no name of a module"),
        (["--plugin="], "naic show: --plugin: '' is no name of a module"),
    ],
)
def test_a_bad_option_is_bad_usage(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "store", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith(told)
    assert said.count("\n") == 1
