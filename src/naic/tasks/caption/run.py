"""`naic caption`: images in, what a model says of them out, in the order in which they came."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from naic.errors import ConfigError, ImageError, Problem
from naic.files import printable
from naic.progress import SILENT, Callbacks, Progress, Update
from naic.tasks.caption.find import Found, find_images
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.rows import Rows, refuse_same_images
from naic.tasks.caption.speaker import Said, Speaker, load_captioner, speak, text_of
from naic.tasks.caption.unsure import Unsure


@dataclass(slots=True)
class Captioned:
    """What came of a run.

    Attributes:
        captions: how many images got one, in this run or before it was taken up; or lost one, with
            --undo.
        resumed: those of them that were captioned before this run went on.
        kept: images that were not captioned, since they had captions already; or had none of naic.
        unsure: images whose captions are left out, since the model is not sure enough of them.
        bad: images that could not be used, and paths that gave none.
        skipped: files that naic cannot open, each beside an image of the same name that it can.
    """

    captions: int = 0
    resumed: int = 0
    kept: int = 0
    unsure: int = 0
    bad: int = 0
    skipped: int = 0


def caption(
    options: CaptionOptions,
    printed: Callable[[str], None],
    callbacks: Callbacks = SILENT,
    *,
    listed: Callable[[], bytes] = bytes,
    load: "Callable[[CaptionOptions], Speaker] | None" = None,
) -> Captioned:
    """Caption the images, and print the captions or put them where the options say.

    Args:
        options: which images, and where the captions go.
        printed: gets the captions where they are to be printed, in pieces.
        callbacks: who is told of problems and of the progress.
        listed: gives what stands on standard input.
        load: gives the captioner, when it is needed.

    Raises:
        ConfigError: there is nothing to caption, or it cannot go where it is to go.
        CheckpointError: the model cannot be used.
        WriteError: the captions cannot be written.
    """
    options.check()
    images, problems, skipped = find_images(
        options.paths, recursive=options.recursive, listed=listed, null=options.null
    )
    if not images:
        first = problems[0]
        raise ConfigError(first.where, first.why, first.hint)
    if options.kind == "coco":
        refuse_same_images(images)
    if options.out is not None:
        from naic.tasks.caption.output import check_file, check_folder

        check_folder(options.out) if options.kind == "txt" else check_file(options.out, images)
    with callbacks.progress("captions") as update:
        done = Captioned(skipped=skipped)
        run = _CaptionRun(
            options, callbacks, update, load or partial(load_captioner, callbacks.problem), done
        )
        for problem in problems:
            run.tell(problem)
        if options.undo:
            run.take_back(images)
        elif options.write is not None:
            run.into_metadata(images)
        elif options.kind == "txt":
            run.beside(images)
        elif options.out is None:
            run.print(images, printed)
        else:
            run.into_file(options.out, images)
    return done


def caption_beside(
    options: CaptionOptions, images: Sequence[Found], callbacks: Callbacks, speaker: Speaker
) -> Captioned:
    """Caption images that were found, with a captioner that is there: for who has many turns.

    Raises:
        ConfigError: two of them would have one file.
        StoreError: another run writes to their folder.
        WriteError: the disk is full.
    """
    with callbacks.progress("captions") as update:
        run = _CaptionRun(options, callbacks, update, lambda _: speaker, Captioned())
        if options.write is not None:
            run.into_metadata(images)
        else:
            run.beside(images)
        return run.done


@dataclass
class _CaptionRun:
    """One run: the same loop, whatever the captions are for."""

    options: CaptionOptions
    callbacks: Callbacks
    update: Update
    load: Callable[[CaptionOptions], Speaker]
    done: Captioned

    def tell(self, problem: Problem) -> None:
        """Count a problem and pass it on."""
        self.done.bad += 1
        self.callbacks.problem(problem)

    def leave_out(self, path: str, unsure: Unsure) -> None:
        """Count an image whose caption is left out and say so."""
        self.done.unsure += 1
        self.callbacks.problem(unsure.told(path))

    def print(self, images: Sequence[Found], printed: Callable[[str], None]) -> None:
        """Hand each caption to `printed` as soon as it is known."""
        rows = Rows(self.options)

        def said() -> Iterator[str]:
            for image, outcome in self._outcomes(images):
                if isinstance(outcome, Problem):
                    self.tell(outcome)
                elif isinstance(outcome, Unsure):
                    self.leave_out(image.path, outcome)
                else:
                    self.done.captions += 1
                    yield rows.row(image.path, outcome)

        for piece in rows.whole(said()):
            printed(piece)

    def into_file(self, out: Path, images: Sequence[Found]) -> None:
        """Make the file, or go on with it where an earlier run was cut off."""
        from naic.tasks.caption.journal import Start, journal
        from naic.tasks.caption.output import request, starting, without_caption

        options, rows = self.options, Rows(self.options)
        warn = self.callbacks.problem

        def begin() -> Start:
            return starting(options, out, rows, warn)

        with journal(out, request(options), begin, warn) as book:
            todo = without_caption(options, out, rows, book.start, images)
            left = book.take_up([image.path for image in todo], options.batch)
            self.done.kept, self.done.resumed = len(images) - len(todo), book.rows
            self.done.captions = book.rows
            for problem in book.problems:
                self.tell(problem)
            for path, unsure in book.unsure:
                self.leave_out(path, unsure)
            outcomes = self._outcomes([todo[number] for number in left], len(todo) - len(left))
            for number, (image, outcome) in zip(left, outcomes, strict=True):
                if isinstance(outcome, Problem):
                    book.add(number, outcome)
                    self.tell(outcome)
                elif isinstance(outcome, Unsure):
                    book.add(number, outcome)
                    self.leave_out(image.path, outcome)
                else:
                    book.add(number, rows.row(image.path, outcome))
                    self.done.captions += 1
            if book.rows or book.unsure:
                there = book.finish(rows.file, rows.known(book.start.held))
                self._count_as_kept(there)
            else:
                book.discard()

    def _count_as_kept(self, there: int) -> None:
        """Captions that the file turned out to have already, word for word, were not added."""
        self.done.kept += there
        self.done.captions -= there
        self.done.resumed = min(self.done.resumed, self.done.captions)

    def beside(self, images: Sequence[Found]) -> None:
        """Write a text file for each image."""
        from naic.tasks.caption.sidecars import Sidecars, choose

        out, existing = self.options.out, self.options.existing or "skip"
        rows = Rows(self.options)
        choice = choose(images, out, existing, self.callbacks.problem)
        self.done.kept = choice.kept
        for problem in choice.problems:
            self.tell(problem)
        if not choice.todo:
            return
        with Sidecars(out, existing, choice, self.callbacks.problem) as sidecars:
            for image, outcome in self._outcomes(choice.todo):
                if isinstance(outcome, Problem):
                    self.tell(outcome)
                elif isinstance(outcome, Unsure):
                    self.leave_out(image.path, outcome)
                elif failed := sidecars.write(image, rows.row(image.path, outcome)):
                    self.tell(failed)
                else:
                    self.done.captions += 1

    def into_metadata(self, images: Sequence[Found]) -> None:
        """Write the captions into XMP files, or into the photos."""
        from naic.tasks.caption.metadata.writing import Writing, kind_of

        with kind_of(self.options) as kind:
            writing = Writing(kind, self.options, self.callbacks.problem)
            todo, problems, self.done.kept = writing.choose(images)
            for problem in problems:
                self.tell(problem)
            with writing.begun(todo):
                for image, outcome in self._outcomes(todo):
                    if isinstance(outcome, Unsure):
                        self.leave_out(image.path, outcome)
                    elif isinstance(outcome, Problem):
                        self.tell(outcome)
                    elif not isinstance(outcome, str):  # it is asked for with its confidence
                        self._count(writing.write(image, outcome))

    def take_back(self, images: Sequence[Found]) -> None:
        """Take back what naic wrote into metadata; an image counts once."""
        from naic.tasks.caption.metadata.writing import take_back

        outcomes = take_back(self.options, images, self.callbacks.problem)
        for number, found in enumerate(outcomes, 1):
            problems = [own for own in found if isinstance(own, Problem)]
            for problem in problems:
                self.tell(problem)
            if not problems:
                self._count(any(found))
            self.update(Progress(number, len(images), self.done.bad))

    def _count(self, outcome: bool | Problem) -> None:
        """Count an image that was changed, needed no change, or could not be used."""
        if isinstance(outcome, Problem):
            self.tell(outcome)
        elif outcome:
            self.done.captions += 1
        else:
            self.done.kept += 1

    def _outcomes(
        self, images: Sequence[Found], done: int = 0
    ) -> "Iterator[tuple[Found, Said | Problem | Unsure]]":
        """What is said of each image, after `done` others; no model is loaded for none."""
        if not images:
            return
        options, total = self.options, done + len(images)
        self.update(Progress(done, total, self.done.bad))
        spoken = speak(self.load(options), options, [image.path for image in images])
        for number, (image, outcome) in enumerate(zip(images, spoken, strict=True), done + 1):
            if isinstance(outcome, ImageError):
                yield image, Problem(outcome.what, outcome.why, outcome.hint)
            else:
                yield image, self._kept(image, outcome)
            self.update(Progress(number, total, self.done.bad))

    def _kept(self, image: Found, said: Said) -> "Said | Problem | Unsure":
        """The caption, unless it is to be left out, or nothing is left of it."""
        options = self.options
        if not isinstance(said, str) and said.confidence < (options.min_confidence or 0.0):
            return Unsure(said.confidence)
        if not text_of(said) and (options.forbid or options.max_chars is not None):
            why = "nothing is left of its caption: what the model says is forbidden, or too long"
            hint = "Forbid fewer words, or allow more characters."
            return Problem(printable(image.path), why, hint)
        return said
