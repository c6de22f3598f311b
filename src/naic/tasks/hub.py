"""`naic pack --hub`: a packed model on the model hub, all of it in one commit or not at all.

The folder is prepared first, and is whole without the hub; the upload can be tried again by the
same command. `Captioner("owner/name")` loads what is there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from naic.errors import ConfigError, HubError
from naic.files import CARD, WEIGHTS, write_atomically
from naic.tasks.hub_card import client, with_metadata
from naic.tasks.options import PackOptions

_TAKEN = 409  # the HTTP status for a name that somebody has
_MADE_BY_THE_HUB = {".gitattributes"}  # in a model that nobody has put anything into
_AGAIN = "Nothing was published, and DIR is whole: give the same command again."
_LOGIN = "Run `hf auth login`, or set HF_TOKEN to a token with write permission"


def check_hub(options: PackOptions) -> None:
    """Refuse, before there is any work, a name that the hub would not take."""
    if options.hub is None:
        return
    client()  # or the error that names the extra
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    owner, slash, name = options.hub.partition("/")
    try:
        validate_repo_id(options.hub)
        if not (owner and slash and name):
            raise ValueError("an owner belongs to it")  # noqa: TRY301
    except ValueError as error:
        why = f"{options.hub!r} is no name ({str(error).rstrip('.')})"
        raise ConfigError("--hub", why, "Write OWNER/NAME, such as me/captioner.") from error


def is_packed_already(options: PackOptions) -> bool:
    """Whether DIR is what this very command has packed before: it is then not packed again.

    Raises:
        ConfigError: it is, and MODEL has learnt since: what is there is not what is meant.
    """
    card, weights, own = options.out / CARD, options.out / WEIGHTS, options.model / WEIGHTS
    if options.hub is None or not weights.is_file() or not card.is_file():
        return False
    if options.command() not in card.read_text(encoding="utf-8", errors="replace").splitlines():
        return False
    if own.is_file() and own.stat().st_mtime > weights.stat().st_mtime:
        why = f"{options.out} was packed before, and {options.model} is newer"
        raise ConfigError("--out", why, "Choose a new name, or delete what was packed.")
    return True


def add_metadata(options: PackOptions) -> str:
    """Put the hub's metadata into the card of the packed model, and return the card."""
    assert options.hub is not None
    card = with_metadata(options.out, options.hub, options.license, options.hub_scores)
    write_atomically(options.out / CARD, card.encode())
    return card


def upload(options: PackOptions) -> str | None:
    """Publish the folder; where it is then, or None: there is no token, so nothing was tried.

    Raises:
        HubError: the hub does not take it, or is not there. Nothing was published.
    """
    assert options.hub is not None
    hub = client()
    token = hub.get_token()
    if token is None:
        return None
    files = sorted(p for p in options.out.iterdir() if p.is_file() and not p.name.startswith("."))
    api = hub.HfApi(token=token)
    with _told(options.hub):
        if not _make(api, options):
            _check_empty(api, options)
        # One commit of all files: upload_folder may make several, and a model could be half there.
        operations = [hub.CommitOperationAdd(path.name, path) for path in files]
        api.create_commit(
            options.hub, operations, commit_message="A model packed by naic", revision="main"
        )
    return f"{api.endpoint}/{options.hub}"


def _make(api: Any, options: PackOptions) -> bool:  # noqa: ANN401 - the client has its own types
    """Make an empty model on the hub; False: there is one of that name."""
    private = True if options.hub_private else None
    try:
        api.create_repo(options.hub, private=private)
    except Exception as error:
        if _status(error) == _TAKEN:
            return False
        raise
    return True


def _check_empty(api: Any, options: PackOptions) -> None:  # noqa: ANN401
    """Refuse a model that is there, unless it is what an upload that was cut off left behind."""
    assert options.hub is not None
    hint = "Choose another name, or delete that one on the hub first."
    there = set(api.list_repo_files(options.hub)) - _MADE_BY_THE_HUB
    if there:
        why = f"there is a model of this name already, with {len(there)} files"
        raise HubError(options.hub, why, hint)
    if options.hub_private and not api.model_info(options.hub).private:
        why = "there is an empty model of this name, and everybody would see what is put into it"
        raise HubError(options.hub, why, hint)


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Whatever goes wrong is told in a line: the client has a tree of errors, and so has HTTP."""
    try:
        yield
    except HubError:
        raise
    except Exception as error:
        raise _as_ours(name, error) from error


def _as_ours(name: str, error: Exception) -> HubError:
    owner, said = name.partition("/")[0], _said(error)
    match _status(error):
        case 401:
            return HubError(name, "the hub does not know the token", f"{_LOGIN}. {_AGAIN}")
        case 403:
            why = f"the token may not write there ({said})"
            return HubError(name, why, f"Does {owner} belong to you? {_LOGIN}. {_AGAIN}")
        case 400:
            return HubError(name, f"the hub does not take it ({said})", _AGAIN)
        case None:
            why = f"the hub could not be reached, or was gone in the middle ({said})"
            return HubError(name, why, _AGAIN)
        case status:
            return HubError(name, f"the hub answered {status} ({said})", _AGAIN)


def _said(error: BaseException) -> str:
    """The hub's own words, or those of the error that was the first."""
    while "response" not in vars(error) and error.__cause__ is not None:
        error = error.__cause__
    words = vars(error).get("server_message") or str(error) or type(error).__name__
    return str(words).strip().splitlines()[0].rstrip(".")


def _status(error: BaseException | None) -> int | None:
    """The HTTP status behind an error, or behind what it was raised from."""
    while error is not None:
        response = vars(error).get("response")
        if response is not None:
            return int(response.status_code)
        error = error.__cause__
    return None


def upload_hint(folder: Path) -> str:
    """What to do where there is no token."""
    return f"not uploaded: there is no token. {_LOGIN}, and give the same command again ({folder})"
