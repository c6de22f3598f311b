"""The options of `naic serve`, on the command line and by environment variables."""

import contextlib
import difflib
import io
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import arg

from naic.errors import ConfigError
from naic.tasks.caption.options import (
    CHOICES,
    MOST_AT_ONCE,
    CaptionOptions,
    Precision,
    Runtime,
    path_word,
)

if TYPE_CHECKING:
    from naic.decode.wishes import Wishes

ENVIRONMENT = "NAIC_SERVE_"
MEGA = 1_000_000
_LONGEST = 86_400.0  # seconds
_ALIKE = 0.9  # of NAIC_SERVE_... and another one, the beginning included
_LOOPBACK = ("localhost", "::1")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_ORIGIN = re.compile(
    r"https?://[A-Za-z0-9._-]+(:[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](:[0-9]+)?"
)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Which model, who may ask, and how much at once; the command line fills it in.

    Attributes:
        model: A model folder, a file or folder of `naic export`, or an owner/name of the hub; by
            default the model inside naic.
        rescore: A causal model, the teacher of a parallel one, that chooses which of its likeliest
            sentences is said.
        rescore_choices: How many sentences it chooses from.
        rescore_weight: What the model's own opinion counts beside the teacher's, as a factor of the
            logarithm of its probability.
        teacher: A causal model that writes word by word beside the agents, for the page.
        references: A feature store of training captions: with it the page shows each agent's
            counterfactual advantage.
        host: The address to listen at. 127.0.0.1 is this machine alone, 0.0.0.0 all who can reach
            it.
        port: The port; 0 takes a free one.
        token: What clients have to send as "Authorization: Bearer TOKEN". Everybody on this machine
            can see it on a command line: better give it as NAIC_SERVE_TOKEN.
        hosts: Names by which the server is asked for, divided by commas, where a proxy or a name of
            one's own stands before it. By default those of this machine, if it listens there alone,
            and else any.
        origins: Pages of other addresses that may ask, such as https://photos.example, divided by
            commas.
        max_words: Cut longer captions, unless the request says otherwise.
        max_chars: The same for characters.
        forbid: Words that are not said, unless the request says otherwise.
        prefer: Words that are said rather than others, unless the request says otherwise.
        neutral: Say person, people, child and the like instead of guessing a gender.
        device: auto, cpu, cuda or cuda:N.
        runtime: How the model is run; auto chooses as naic caption does. The page shows where words
            looked with eager.
        precision: In which numbers; auto chooses as naic caption does.
        batch: How many images are captioned at once at most.
        queue: How many images wait at most, and no more than can be captioned in the seconds of
            --drain; who comes then is told to come again.
        decoders: How many images are decoded at once; 0 means one for each core.
        max_images: How many images a request may have.
        max_body: How many megabytes (1,000,000 bytes) a request may have.
        max_memory: How many megabytes all requests at once may have.
        max_pixels: How many megapixels an image may have.
        max_requests: How many requests are worked at or wait at once.
        timeout: How many seconds a request may take to arrive, and then to be answered.
        drain: How many seconds are left for what was taken on when the server is stopped.
        check: The model is asked for a caption after so many seconds without one, for /healthz.
    """

    model: Annotated[Path | None, path_word("--model"), arg(metavar="MODEL")] = None
    rescore: Annotated[Path | None, path_word("--rescore"), arg(metavar="TEACHER")] = None
    rescore_choices: Annotated[int, arg(metavar="N")] = CHOICES
    rescore_weight: Annotated[float, arg(metavar="W")] = 0.0
    teacher: Annotated[Path | None, path_word("--teacher"), arg(metavar="TEACHER")] = None
    references: Annotated[Path | None, path_word("--references"), arg(metavar="STORE")] = None
    host: str = "127.0.0.1"
    port: int = 8000
    token: Annotated[str, arg(help_behavior_hint="(default: none is asked for)")] = ""
    hosts: Annotated[str, arg(metavar="NAMES")] = ""
    origins: Annotated[str, arg(metavar="ADDRESSES")] = ""
    max_words: Annotated[int | None, arg(metavar="N")] = None
    max_chars: Annotated[int | None, arg(metavar="N")] = None
    forbid: Annotated[str, arg(metavar="WORDS")] = ""
    prefer: Annotated[str, arg(metavar="WORDS")] = ""
    neutral: bool = False
    device: str = "auto"
    runtime: Runtime = "auto"
    precision: Precision = "auto"
    batch: int = 16
    queue: int = 64
    decoders: int = 0
    max_images: int = 32
    max_body: Annotated[float, arg(metavar="MB")] = 64.0
    max_memory: Annotated[float, arg(metavar="MB")] = 512.0
    max_pixels: Annotated[float, arg(metavar="MP")] = 100.0
    max_requests: int = 512
    timeout: Annotated[float, arg(metavar="SECONDS")] = 30.0
    drain: Annotated[float, arg(metavar="SECONDS")] = 8.0
    check: Annotated[float, arg(metavar="SECONDS")] = 30.0

    @property
    def body_bytes(self) -> int:
        """The limit of a request in bytes."""
        return int(self.max_body * MEGA)

    @property
    def memory_bytes(self) -> int:
        """The limit of all requests in bytes."""
        return int(self.max_memory * MEGA)

    @property
    def image_pixels(self) -> int:
        """The limit of an image in pixels."""
        return int(self.max_pixels * MEGA)

    @property
    def alone(self) -> bool:
        """Whether only programs of this machine reach the server."""
        return self.host in _LOOPBACK or self.host.startswith("127.")

    @property
    def known_hosts(self) -> frozenset[str]:
        """The names that a request may ask for; none: any."""
        own = {self.host, "localhost", "127.0.0.1", "[::1]"} if self.alone else set()
        return frozenset(name.lower() for name in (*_listed(self.hosts), *own))

    @property
    def known_origins(self) -> frozenset[str]:
        """The addresses of foreign pages that may ask."""
        return frozenset(origin.lower() for origin in _listed(self.origins))

    @property
    def wishes(self) -> "Wishes":
        """What is wished of the words of each caption."""
        return {
            "max_words": self.max_words,
            "max_chars": self.max_chars,
            "forbid": self.forbid,
            "prefer": self.prefer,
            "neutral": self.neutral,
        }

    def check_values(self) -> None:
        """Refuse what cannot be, before anything is loaded.

        Raises:
            ConfigError: an option that cannot be, or two that do not go together.
        """
        for name, most in (("batch", MOST_AT_ONCE), ("queue", MEGA), ("max_images", MEGA)):
            _within(name, getattr(self, name), 1, most)
        _within("decoders", self.decoders, 0, 1024)
        _within("max_requests", self.max_requests, 1, MEGA)
        _within("port", self.port, 0, 65535)
        for name in ("max_body", "max_memory", "max_pixels"):
            _within(name, getattr(self, name), 0.001, MEGA)
        for name in ("timeout", "drain", "check"):
            _within(name, getattr(self, name), 0.1, _LONGEST)
        if self.max_images > self.queue:
            why = f"a request of {self.max_images} images never fits a queue of {self.queue}"
            raise ConfigError("--max-images", why, "Raise --queue, or lower this.")
        if self.max_memory < self.max_body:
            why = f"{self.max_memory} megabytes are less than --max-body, {self.max_body}"
            raise ConfigError("--max-memory", why, "Raise it, or lower the other.")
        plain = self.token.isascii() and self.token.isprintable()
        if self.token and (not plain or self.token != self.token.strip()):
            why = "it has characters that no header can carry, or blanks at an end"
            raise ConfigError("--token", why, "Use letters, digits and signs of ASCII.")
        _each("--hosts", _listed(self.hosts), _HOST, "photos.example (without a port)")
        _each("--origins", _listed(self.origins), _ORIGIN, "https://photos.example")
        self.captioning().check()

    def captioning(self) -> CaptionOptions:
        """What `naic caption` would be asked for, so that the same is refused."""
        own = {field.name for field in fields(CaptionOptions)}
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name in own}
        return CaptionOptions((Path("photo.jpg"),), **given)


def _listed(names: str) -> Sequence[str]:
    return [name for name in re.split(r"[,\s]+", names) if name]


def _each(option: str, names: Sequence[str], shape: re.Pattern[str], example: str) -> None:
    for name in names:
        if not shape.fullmatch(name):
            raise ConfigError(option, f"{name!r} is none", f"Give something like {example}.")


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most or math.isnan(value):
        option = "--" + name.replace("_", "-")
        raise ConfigError(option, f"{value:g} is not from {least:g} to {most:g}", "Choose another.")


def from_environment(environment: Mapping[str, str]) -> ServeOptions:
    """The defaults, as variables such as NAIC_SERVE_MAX_BODY=20 change them.

    Variables that are no options are left alone, since Kubernetes makes some of its own for a
    service of the name naic-serve; but not those that are nearly one: a token that is not heard of
    would leave the server open.

    Raises:
        ConfigError: a value that its option does not take, or a name that is misspelt.
    """
    known = [ENVIRONMENT + field.name.upper() for field in fields(ServeOptions)]
    for name in environment:
        if name.startswith(ENVIRONMENT) and name not in known:
            meant = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
            if meant:
                raise ConfigError(name, "there is no such option", f"Perhaps {meant[0]}?")
    changed: dict[str, Any] = {}
    for field in fields(ServeOptions):
        variable = ENVIRONMENT + field.name.upper()
        if value := environment.get(variable, ""):
            changed[field.name] = _value(field.name, variable, value)
    return ServeOptions(**changed)


def _value(name: str, variable: str, value: str) -> object:
    option = "--" + name.replace("_", "-")
    shown = repr(value) if name != "token" else "its value"
    words = [option, value]
    if name == "neutral":
        if value.lower() not in ("1", "0", "true", "false", "yes", "no"):
            raise ConfigError(variable, f"{shown} is neither 1 nor 0", "Use one of the two.")
        words = ["--neutral" if value.lower() in ("1", "true", "yes") else "--no-neutral"]
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            options = tyro.cli(ServeOptions, args=words)
    except SystemExit:
        hint = f"See {option} in naic serve --help."
        raise ConfigError(variable, f"{shown} cannot be", hint) from None
    return getattr(options, name)


def read_options(arguments: Sequence[str], description: str) -> ServeOptions:
    """The options of the command line, over those of the environment."""
    options = tyro.cli(
        ServeOptions,
        prog="naic serve",
        description=description,
        default=from_environment(os.environ),
        args=list(arguments),
    )
    options.check_values()
    return options
