"""`naic pack --hub` against a stand-in of the hub: metadata, one commit, and what goes wrong."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import naic.cli.pack
from naic.cli.main import BAD_USAGE, FAILED, SOME_SKIPPED, main
from naic.errors import ConfigError, DataError, HubError, MissingExtraError
from naic.files import CARD, WEIGHTS
from naic.runtime.captioner import Captioner
from naic.tasks.hub import add_metadata, check_hub, is_packed_already, upload
from naic.tasks.hub_card import with_metadata
from naic.tasks.options import PackOptions
from naic.tasks.pack import pack_model
from naic.train.card import CardScore, _score_table
from tests.images.images import encode, photo
from tests.tasks.hub_server import Hub, running
from tests.tasks.packs import NETWORK, make_model

# of the client's network library, about the client's own call
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")
HOW = "val, 1,234 images, beam of 3, df of these references"
SCORES = [CardScore("CIDEr", 1.0875, HOW), CardScore("repeats", 0.25, HOW)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> PackOptions:
    """A model that was packed for the hub, and not uploaded."""
    folder = tmp_path_factory.mktemp("hub")
    model = make_model(folder / "student", backbone=NETWORK)
    card = (model / CARD).read_text()
    (model / CARD).write_text(f"{card}\n## Scores\n\n{_score_table(SCORES)}\n\n| a | b | c |\n")
    options = PackOptions(model, folder / "packed", hub="me/captioner", license="apache-2.0")
    pack_model(options)
    return options


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """The client's hub is the stand-in; it waits for nothing, and keeps what it loads to itself."""
    from huggingface_hub import constants

    with running() as stand_in:
        monkeypatch.setattr(constants, "ENDPOINT", stand_in.url)
        template = f"{stand_in.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _: None)
        monkeypatch.setenv("HF_TOKEN", "good")
        yield stand_in


def metadata(card: str) -> dict[str, Any]:
    fence, text, _ = card.split("---\n", 2)
    assert not fence
    value = importlib.import_module("yaml").safe_load(text)
    assert isinstance(value, dict)
    return value


def test_the_card_has_what_is_known(packed: PackOptions) -> None:
    before = (packed.out / CARD).read_text()
    card = with_metadata(packed.out, "me/captioner", "apache-2.0", ())
    assert card.endswith(before)
    found = metadata(card)
    (index,) = found.pop("model-index")
    assert found == {
        "license": "apache-2.0",
        "library_name": "naic",
        "pipeline_tag": "image-to-text",
        "tags": ["image-captioning", "non-autoregressive"],
    }
    assert index["name"] == "captioner"
    (result,) = index["results"]
    assert result["task"] == {"type": "image-to-text", "name": "Image captioning"}
    assert result["dataset"] == {"name": "val, 1,234 images", "type": "unknown", "split": "val"}
    assert result["metrics"] == [
        {"type": "cider", "value": 1.0875,
         "name": "CIDEr before packing, beam of 3, df of these references"},
        {"type": "repeats", "value": 0.25,
         "name": "repeats before packing, beam of 3, df of these references"},
    ]  # fmt: skip


def test_nothing_is_invented(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    found = metadata(with_metadata(folder, "me/x", None, ()))
    assert found["license"] == "unknown"
    assert "model-index" not in found
    own = "---\nlicense: mit\n---\n# Mine\n"
    (folder / CARD).write_text(own)
    assert with_metadata(folder, "me/x", None, ()) == own
    with pytest.raises(ConfigError, match="has metadata of its own"):
        with_metadata(folder, "me/x", "mit", ())


def test_our_metadata_is_written_anew(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model")
    plain = (folder / CARD).read_text()
    for license_ in ("mit", "apache-2.0"):
        card = with_metadata(folder, "me/x", license_, ())
        (folder / CARD).write_text(card)
        assert metadata(card)["license"] == license_
        assert card.endswith(f"---\n\n{plain}")
        assert card.count("license:") == 1


def test_scores_of_an_evaluation(packed: PackOptions, tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    value = {
        "CIDEr": 1.1, "Bleu_4": 0.3, "SPICE": None, "signature_line": "images:2|df:own",
        "source": {"references": "dataset_coco.json", "split": ["test"]},
    }  # fmt: skip
    path.write_text(json.dumps(value))
    found = metadata(with_metadata(packed.out, "me/x", None, (path,)))
    result = found["model-index"][0]["results"][-1]
    assert result["dataset"]["name"] == "dataset_coco.json"
    assert result["dataset"]["split"] == "test"
    measured = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert measured == {"bleu": 0.3, "cider": 1.1}
    for wrong in ("[]", "{", '{"source": {}}'):
        path.write_text(wrong)
        with pytest.raises(DataError):
            with_metadata(packed.out, "me/x", None, (path,))


def test_what_was_uploaded_says_the_same(
    packed: PackOptions, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_packed_already(packed)
    add_metadata(packed)
    assert upload(packed) == f"{hub.url}/me/captioner"
    assert hub.commits == 1
    files = hub.models["me/captioner"]
    own = {path.name: path.read_bytes() for path in packed.out.iterdir()}
    assert {name: files[name] for name in own} == own
    assert metadata(files[CARD].decode())["library_name"] == "naic"
    assert not hub.private
    monkeypatch.chdir(tmp_path)
    picture = tmp_path / "photo.png"
    picture.write_bytes(encode(photo(), "PNG"))
    fetched, here = (Captioner(name, device="cpu") for name in ("me/captioner", str(packed.out)))
    assert fetched(picture) == here(picture)
    with pytest.raises(HubError, match=r"already, with \d files\. Choose another name"):
        upload(packed)
    assert hub.commits == 1


def test_what_was_packed_of_an_older_model_is_not_uploaded(packed: PackOptions) -> None:
    assert is_packed_already(packed)
    weights = packed.model / WEIGHTS
    before = weights.stat().st_mtime
    os.utime(weights, (before, (packed.out / WEIGHTS).stat().st_mtime + 1))
    try:
        with pytest.raises(ConfigError, match=r"packed before, and .* is newer"):
            is_packed_already(packed)
    finally:
        os.utime(weights, (before, before))


def test_it_can_be_private(packed: PackOptions, hub: Hub) -> None:
    assert upload(replace(packed, hub="me/hidden", hub_private=True))
    assert hub.private == {"me/hidden"}
    hub.gone_at = "/commit/"
    with pytest.raises(HubError):
        upload(replace(packed, hub="me/open"))  # leaves an empty one that all can see
    hub.gone_at, hub.gone = None, False
    with pytest.raises(HubError, match="everybody would see what is put into it"):
        upload(replace(packed, hub="me/open", hub_private=True))
    assert hub.commits == 1


@pytest.mark.parametrize(
    ("token", "name", "why"),
    [
        ("none", "me/a", "the hub does not know the token. Run `hf auth login`"),
        ("good", "you/a", r"the token may not write there.*Does you belong to you\?"),
        ("reader", "me/a", "the token may not write there"),
        ("good", "me/bad", r"the hub does not take it \(.*this name is not allowed"),
    ],
)
def test_refusals(
    packed: PackOptions,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    token: str,
    name: str,
    why: str,
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(HubError, match=why) as caught:
        upload(replace(packed, hub=name))
    assert "give the same command again" in caught.value.hint
    assert not hub.models


@pytest.mark.parametrize("when", ["preupload", "/large/", "/commit/"])
def test_a_network_that_goes_leaves_nothing_half(packed: PackOptions, hub: Hub, when: str) -> None:
    hub.gone_at = when
    with pytest.raises(HubError, match="could not be reached, or was gone in the middle"):
        upload(packed)
    assert hub.commits == 0
    assert set(hub.models["me/captioner"]) == {".gitattributes"}
    hub.gone_at, hub.gone = None, False
    assert upload(packed)  # the empty model that the first try made is filled
    assert hub.commits == 1
    assert "model.safetensors" in hub.models["me/captioner"]


@pytest.mark.parametrize("name", ["captioner", "me/", "/x", "a/b/c", "me/a b", "me/a--b", "me/.x"])
def test_names_that_cannot_be(packed: PackOptions, name: str) -> None:
    with pytest.raises(ConfigError, match=r"--hub: .* is no name"):
        check_hub(replace(packed, hub=name))


def test_without_the_extra(packed: PackOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"huggingface_hub: .*naic\[hub\]"):
        check_hub(packed)


def test_the_command(
    packed: PackOptions,
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a token the folder is prepared; given again with one, it is uploaded as it is."""
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(naic.cli.pack, "graphs_if_possible", lambda _: "not here")
    out = tmp_path / "out"
    words = ["pack", str(packed.model), "--out", str(out), "--hub", "me/new"]
    assert main([*words, "--dry-run"]) == 0
    assert not out.exists()
    assert main(words) == SOME_SKIPPED
    told = capsys.readouterr()
    assert "not uploaded: there is no token. Run `hf auth login`" in told.err
    assert metadata((out / CARD).read_text())["license"] == "unknown"
    assert not hub.asked
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (tmp_path / "token").write_text("good")
    assert main(words) == 0
    assert f"hub:      {hub.url}/me/new" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert hub.commits == 1
    assert main(words) == FAILED
    assert main([*words, "--bits", "4"]) == BAD_USAGE  # another command: DIR is there already
    assert main(["pack", str(packed.model), "--out", "x", "--license", "mit"]) == BAD_USAGE


@pytest.mark.slow
def test_the_environment_names_the_hub(packed: PackOptions, tmp_path: Path) -> None:
    """As a person does it: HF_ENDPOINT and HF_TOKEN, one command, and the model by its name."""
    (tmp_path / "photo.png").write_bytes(encode(photo(), "PNG"))
    with running() as stand_in:
        own = {"HF_ENDPOINT": stand_in.url, "HF_TOKEN": "good", "HF_HUB_DISABLE_XET": "1"}
        environment = {**os.environ, **own, "HF_HOME": str(tmp_path / "home")}
        naic = [sys.executable, "-m", "naic"]
        pack = ["pack", str(packed.model), "--out", str(tmp_path / "out"), "--hub", "me/one"]
        caption = ["caption", str(tmp_path / "photo.png"), "--model"]

        def run(*words: str) -> str:
            told = subprocess.run(
                [*naic, *words], env=environment, capture_output=True, text=True, check=False
            )
            assert told.returncode == 0, told.stderr
            return told.stdout

        assert f"hub:      {stand_in.url}/me/one" in run(*pack)
        assert stand_in.commits == 1
        assert run(*caption, "me/one") == run(*caption, str(tmp_path / "out"))
