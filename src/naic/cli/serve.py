"""`naic serve`."""

import os
import signal
import sys
from collections.abc import Sequence

from naic.cli.main import BAD_USAGE, INTERRUPTED
from naic.errors import ConfigError, NaicError, Problem
from naic.serve.options import ServeOptions, read_options

HELP = """Caption photos over HTTP: curl -F files=@photo.jpg http://127.0.0.1:8000/v1/caption

It listens on this machine alone unless --host says otherwise. There is a page at /, the routes are
listed at /docs, /healthz tells whether the model works, /metrics is for Prometheus. Programs that
speak with OpenAI, Ollama or PhotoPrism's vision service can ask, too. Each option can be given as
an environment variable: --max-body as NAIC_SERVE_MAX_BODY. SIGTERM ends it when all that it took on
is answered, within ten seconds, with exit code 0."""
OPTIONS = ServeOptions  # what the verb takes: shell completion finds it here
_PACKAGES = ("fastapi", "uvicorn", "python_multipart", "prometheus_client", "starlette", "pydantic")


def run(arguments: Sequence[str]) -> int:
    """Parse, serve until someone stops it."""
    options = read_options(arguments, HELP)
    try:
        from naic.serve.run import Running, load
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        hint = "Run: pip install 'naic[serve]'"
        raise ConfigError(str(error.name), "is not installed", hint) from error
    if not (options.alone or options.token):
        _tell(
            "everybody who can reach this machine can ask; give a token that they have to send, "
            "by the environment variable NAIC_SERVE_TOKEN"
        )
    server = Running(options, _tell, lambda chosen: load(chosen, _tell_of))
    try:
        ended = server()
    except NaicError as error:
        if server.ready or os.environ.get("NAIC_DEBUG"):
            raise
        _tell(str(error))  # to start it again as it is would be in vain
        return BAD_USAGE
    code = INTERRUPTED if signal.SIGINT in server.stopped_by else 0
    if not ended:  # a thread that hangs would be waited for
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _tell_of(problem: Problem) -> None:
    _tell(str(problem))


def _tell(text: str) -> None:
    print(f"naic serve: {text}", file=sys.stderr, flush=True)
