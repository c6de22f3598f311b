"""`naic caption`: pictures in, what a model says of them out, in the order in which they came."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from naic import __version__
from naic.data.folders import printable
from naic.data.readers.files import what_is
from naic.data.records import Problem
from naic.errors import CheckpointError, ConfigError, DataError, ImageError
from naic.tasks.caption_find import Found, find_pictures
from naic.tasks.caption_journal import Start, digest_of, journal
from naic.tasks.caption_options import CaptionOptions
from naic.tasks.caption_rows import Rows, refuse_same_images
from naic.tasks.caption_sidecars import Sidecars, choose
from naic.tasks.prepare import Progress

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.runtime.captioner import Caption

__all__ = ["CaptionOptions", "Captioned", "Hearers", "caption"]

# What makes the captions what they are, and who gets one; a run that goes on must agree in it.
_PLANNED = (
    *("format", "existing", "prefix", "suffix"),
    *("alternatives", "confidence", "max_words", "runtime"),
)

# The files of a model folder that its captions come from.
_WEIGHTS = (".safetensors", ".onnx")
_SETTINGS = ("config.toml", "config.json", "vocab.json")


class Speaker(Protocol):
    """What is needed of a captioner."""

    def each(
        self, pictures: Iterable[str], *, batch: int, alternatives: int, max_words: int | None
    ) -> Iterator["Caption | ImageError"]:
        """For each picture, in order, its caption, or why it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Hearers:
    """Who is told of what, while a run is on.

    Attributes:
        printed: gets the captions where they are to be printed, in pieces.
        told: gets the problem with each picture that cannot be used, as soon as it is known.
        report: hears how far the run is.
    """

    printed: Callable[[str], None]
    told: Callable[[Problem], None]
    report: Callable[[Progress], None]


@dataclass(slots=True)
class Captioned:
    """What came of a run.

    Attributes:
        captions: how many pictures got one, in this run or before it was taken up.
        resumed: those of them that were captioned before this run went on.
        kept: pictures that were not captioned, since they had captions already.
        bad: pictures that could not be used, and paths that gave none.
    """

    captions: int = 0
    resumed: int = 0
    kept: int = 0
    bad: int = 0


def caption(
    options: CaptionOptions,
    hearers: Hearers,
    *,
    listed: Callable[[], bytes] = bytes,
    load: "Callable[[CaptionOptions], Speaker] | None" = None,
) -> Captioned:
    """Caption the pictures, and print the captions or put them where the options say.

    `listed` gives what stands on standard input; `load` the captioner, when it is needed.

    Raises:
        ConfigError: there is nothing to caption, or it cannot go where it is to go.
        CheckpointError: the model cannot be used.
        WriteError: the captions cannot be written.
    """
    options.check()
    pictures, problems = find_pictures(
        options.paths, recursive=options.recursive, listed=listed, null=options.null
    )
    if not pictures:
        first = problems[0]
        raise ConfigError(first.where, first.why, first.hint)
    if options.format == "coco":
        refuse_same_images(pictures)
    run = _Run(options, hearers, load or _captioner)
    for problem in problems:
        run.tell(problem)
    if options.format == "txt":
        run.beside(pictures)
    elif options.out is None:
        run.print(pictures)
    else:
        _check_out(options.out, pictures)
        run.into_file(options.out, pictures)
    return run.done


def _captioner(options: CaptionOptions) -> Speaker:
    from naic.runtime.captioner import Captioner

    # As text: a name of the hub is no path.
    model = None if options.model is None else str(options.model)
    return Captioner(model, device=options.device, runtime=options.runtime)


@dataclass
class _Run:
    """One run: the same loop, whatever the captions are for."""

    options: CaptionOptions
    hearers: Hearers
    load: Callable[[CaptionOptions], Speaker]
    done: Captioned = field(default_factory=Captioned)

    def tell(self, problem: Problem) -> None:
        """Count a problem and pass it on."""
        self.done.bad += 1
        self.hearers.told(problem)

    def print(self, pictures: Sequence[Found]) -> None:
        """Hand each caption to `printed` as soon as it is known."""
        rows = Rows(self.options)

        def said() -> Iterator[str]:
            for picture, outcome in self._outcomes(pictures):
                if isinstance(outcome, Problem):
                    self.tell(outcome)
                else:
                    self.done.captions += 1
                    yield rows.row(picture.path, outcome)

        for piece in rows.whole(said()):
            self.hearers.printed(piece)

    def into_file(self, out: Path, pictures: Sequence[Found]) -> None:
        """Make the file, or go on with it where an earlier run was cut off."""
        rows = Rows(self.options)
        plan = _plan(self.options, pictures)
        with journal(
            out, plan, lambda: _start(self.options, out, rows, pictures), self.options.batch
        ) as book:
            skipped = frozenset(book.start.skipped)
            todo = [picture for i, picture in enumerate(pictures) if i not in skipped]
            self.done.kept, self.done.resumed = len(skipped), book.rows
            self.done.captions = book.rows
            for problem in book.problems:
                self.tell(problem)
            for picture, outcome in self._outcomes(todo, book.done):
                if isinstance(outcome, Problem):
                    book.add(outcome)
                    self.tell(outcome)
                else:
                    book.add(rows.row(picture.path, outcome))
                    self.done.captions += 1
            if book.rows:
                there = book.finish(rows.whole, rows.known(book.start.held))
                self._count_as_kept(there)
            else:
                book.discard()

    def _count_as_kept(self, there: int) -> None:
        """Captions that the file turned out to have already, word for word, were not added."""
        self.done.kept += there
        self.done.captions -= there
        self.done.resumed = min(self.done.resumed, self.done.captions)

    def beside(self, pictures: Sequence[Found]) -> None:
        """Write a text file for each picture."""
        out, existing = self.options.out, self.options.existing or "skip"
        rows = Rows(self.options)
        todo, problems, self.done.kept = choose(pictures, out, existing)
        for problem in problems:
            self.tell(problem)
        if not todo:
            return
        with Sidecars(out, existing, todo) as sidecars:
            for picture, outcome in self._outcomes(todo):
                if isinstance(outcome, Problem):
                    self.tell(outcome)
                elif failed := sidecars.write(picture, rows.row(picture.path, outcome)):
                    self.tell(failed)
                else:
                    self.done.captions += 1

    def _outcomes(
        self, pictures: Sequence[Found], done: int = 0
    ) -> Iterator[tuple[Found, "Caption | Problem"]]:
        """What is said of each picture from the `done`-th on; no model is loaded for none."""
        rest = pictures[done:]
        if not rest:
            return
        options, total = self.options, len(pictures)
        self.hearers.report(Progress(done, total, self.done.bad))
        spoken = self.load(options).each(
            [picture.path for picture in rest],
            batch=options.batch,
            alternatives=options.alternatives,
            max_words=options.max_words,
        )
        for number, (picture, outcome) in enumerate(zip(rest, spoken, strict=True), done + 1):
            if isinstance(outcome, ImageError):
                yield picture, Problem(outcome.what, outcome.why, outcome.hint)
            else:
                yield picture, outcome
            self.hearers.report(Progress(number, total, self.done.bad))


def _check_out(out: Path, pictures: Sequence[Found]) -> None:
    name, kind = printable(str(out)), what_is(out)
    if kind == "folder":
        hint = "Name a file in it, or use --format txt for a text file for each picture."
        raise ConfigError(name, "it is a folder", hint)
    if kind == "special":
        hint = "Leave --out away, and send standard output there."
        raise ConfigError(name, "it is there, and is no regular file", hint)
    if os.path.realpath(out) in {os.path.realpath(picture.path) for picture in pictures}:
        raise ConfigError(name, "it is one of the pictures", "Name another file.")


def _start(options: CaptionOptions, out: Path, rows: Rows, pictures: Sequence[Found]) -> Start:
    """What to do about a file that is there; by default nothing, and the run is refused."""
    digest, name = digest_of(out), printable(str(out))
    if digest is None:
        return Start()
    if options.existing is None:
        why = "there is such a file already"
        hint = "Add --existing skip, overwrite or append, or choose another --out."
        raise ConfigError(name, why, hint)
    if options.existing == "overwrite":
        return Start(digest=digest)
    try:
        text = out.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        why = f"it cannot be read ({error.strerror})"
        raise DataError(name, why, "Check its permissions.") from error
    held = rows.held(text, name)
    skipped: list[int] = []
    if options.existing == "skip":
        keys = rows.keys(held, name)
        skipped = [i for i, own in enumerate(pictures) if rows.key(own.path) in keys]
    return Start(skipped, held, digest)


def _plan(options: CaptionOptions, pictures: Sequence[Found]) -> dict[str, Any]:
    """What a run that goes on must agree in; not where it computes, nor in which batches."""
    listed = hashlib.sha256()
    for picture in pictures:
        listed.update(os.fsencode(picture.path) + b"\0")
    return {
        **{name: value for name, value in asdict(options).items() if name in _PLANNED},
        "model": _model(options.model),
        "naic": __version__,
        "pictures": len(pictures),
        "names of the pictures": listed.hexdigest(),
    }


def _model(model: Path | None) -> str:
    """The identity of a model: its weights, settings and words, or its name on the hub.

    Only regular files are read: a pipe of such a name would keep us waiting for ever.
    """
    if model is None:
        from naic.runtime.captioner import shipped_model

        model = shipped_model()
    kind = what_is(model)
    if kind not in ("file", "folder"):
        return str(model)
    try:
        if kind == "file":
            return f"{digest_of(model)}"
        files = sorted(path for path in model.iterdir() if _makes_captions(path))
        return " ".join(f"{path.name} {digest_of(path)}" for path in files)
    except OSError as error:
        why = f"it cannot be read ({error.strerror})"
        hint = "Check its permissions."
        raise CheckpointError(printable(str(model)), why, hint) from error


def _makes_captions(path: Path) -> bool:
    named = path.suffix in _WEIGHTS or path.name in _SETTINGS
    return named and what_is(path) == "file"
