"""Object stores and web servers by fsspec: how one is opened, and what went wrong, in words."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from naic.errors import MissingExtraError, NaicError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

IS_MISSING: Final = "is not there"
LOOK_AGAIN: Final = "Run the same command again; if it stays, look at the server or the disk."
_EXTRA: Final = "Run: pip install 'naic[remote]'"
_MISSING: Final = (IS_MISSING, "Check its name.")
_REFUSED: Final = (
    "access is refused",
    "Check the credentials (of an object store AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
    "AWS_PROFILE), and what they may do there.",
)
_UNREACHED: Final = (
    "the server cannot be reached",
    "Check that it runs, and the address: that of an object store is AWS_ENDPOINT_URL.",
)
# By the code that a server gave, or the name of the error's class: the packages that have these
# classes are not installed everywhere.
_REASONS: Final[dict[str, tuple[str, str]]] = {
    "NoSuchBucket": ("there is no such bucket", "Check its name, and AWS_ENDPOINT_URL."),
    "404": _MISSING,
    "401": _REFUSED,
    "403": _REFUSED,
    "AccessDenied": _REFUSED,
    "InvalidAccessKeyId": _REFUSED,
    "SignatureDoesNotMatch": _REFUSED,
    "PermissionError": ("access is refused", "Check its permissions."),
    "NoCredentialsError": (
        "there are no credentials for it",
        "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; for a public bucket "
        "FSSPEC_S3_ANON=true.",
    ),
    "EndpointConnectionError": _UNREACHED,
    "ConnectTimeoutError": _UNREACHED,
    "ClientConnectorError": _UNREACHED,
    "ConnectionTimeoutError": _UNREACHED,
    "FileNotFoundError": _MISSING,
    "NotADirectoryError": _MISSING,
    "IsADirectoryError": ("is a folder", "Name a file."),
}


def shown(where: str) -> str:
    """A path or URL as messages and files may have it: without a password, or a signed query."""
    if not where.startswith(("http://", "https://")):
        return where
    parts = urlsplit(where)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def open_store(where: str) -> "tuple[AbstractFileSystem, str]":
    """What fsspec has for this URL, and the path in it; its listings are never remembered."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtraError(
            "fsspec", f"is not installed, and {shown(where)} takes it", _EXTRA
        ) from error
    options: dict[str, object] = {"use_listings_cache": False}
    try:
        if where.startswith(("http://", "https://")):
            from aiohttp import ClientTimeout

            # Its own limit is five minutes for a whole file, however many gigabytes that has.
            limit = ClientTimeout(total=None, sock_connect=30, sock_read=60)
            options["client_kwargs"] = {"timeout": limit}
            options["headers"] = {"Accept-Encoding": "identity"}  # lengths are those of the file
        store, path = url_to_fs(where, **options)
    except ImportError as error:
        why = f"a package that this kind of URL takes is not installed ({error})"
        raise MissingExtraError(shown(where), why, f"{_EXTRA}, or what it names") from error
    return store, path


@contextlib.contextmanager
def telling(where: str, kind: type[NaicError], done: str) -> Iterator[None]:
    """What goes wrong with a file or a store, as our own error."""
    try:
        yield
    except NaicError:
        raise
    except Exception as error:  # each store has a tree of errors of its own
        why, hint = _reason(error, done)
        raise kind(shown(where), why.replace(where, shown(where)), hint) from error


def _reason(error: Exception, done: str) -> tuple[str, str]:
    """Why, and what to do, by the innermost error that tells: libraries wrap what they met."""
    chain: list[BaseException] = []
    inner: BaseException | None = error
    while inner is not None:  # not by __context__: that may be an error of who called us
        chain.append(inner)
        inner = inner.__cause__
    for one in reversed(chain):
        kept = vars(one)
        status = kept.get("status")  # of a web server
        answer = kept.get("response")  # of an object store
        code = answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None
        for told in (str(status), str(code), type(one).__name__):
            if told in _REASONS:
                return _REASONS[told]
        if isinstance(status, int):
            return f"cannot be {done}: the server answers {status}", LOOK_AGAIN
    if isinstance(error, OSError) and error.strerror:
        return f"cannot be {done} ({error.strerror})", LOOK_AGAIN
    said = " ".join(str(error).split()) or type(error).__name__
    return f"cannot be {done} ({said})", LOOK_AGAIN
