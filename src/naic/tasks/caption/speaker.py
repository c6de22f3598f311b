"""The captioner that a run speaks by, as far as the run knows it."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias, Unpack

from naic.errors import ImageError, Problem
from naic.files import printable
from naic.tasks.caption.options import CaptionOptions
from naic.text.tokeniser import single_words

if TYPE_CHECKING:
    from naic.decode.wishes import Wishes
    from naic.runtime.captioner import Caption, Captioner

Said: TypeAlias = "Caption | str"  # of an image: with details, or the text alone


class Speaker(Protocol):
    """What is needed of a captioner."""

    def texts(
        self, images: Iterable[str], *, batch: int, **wishes: "Unpack[Wishes]"
    ) -> Iterator[str | ImageError]:
        """For each image, in order, the text of its caption, or why it has none."""
        ...

    def each(
        self, images: Iterable[str], *, batch: int, alternatives: int, **wishes: "Unpack[Wishes]"
    ) -> Iterator["Caption | ImageError"]:
        """For each image, in order, its caption, or why it has none."""
        ...


def speak(
    speaker: Speaker, options: CaptionOptions, images: Iterable[str]
) -> "Iterator[Said | ImageError]":
    """What is said of each image, in order: its text alone where no more is asked for.

    To find how sure a model is, and to say so of each word, takes most of the time from its network
    to a caption.
    """
    wishes = options.wishes()
    if options.confidence or options.alternatives or options.min_confidence or options.write:
        alternatives = options.alternatives
        return speaker.each(images, batch=options.batch, alternatives=alternatives, **wishes)
    return speaker.texts(images, batch=options.batch, **wishes)


def text_of(said: Said) -> str:
    """The text alone."""
    return said if isinstance(said, str) else said.text


def load_captioner(tell: Callable[[Problem], None], options: CaptionOptions) -> "Captioner":
    """The captioner that the options name; `tell` hears of words that are wished for in vain."""
    from naic.runtime.captioner import Captioner

    # As text: a name of the hub is no path.
    model = None if options.model is None else str(options.model)
    rescore = None
    if options.rescore is not None:
        from naic.runtime.rescore import Rescoring

        how = (options.rescore_choices, options.rescore_weight)
        rescore = Rescoring(str(options.rescore), *how)
    made = Captioner(
        model,
        device=options.device,
        runtime=options.runtime,
        precision=options.precision,
        rescore=rescore,
    )
    for name, listed in (("--forbid", options.forbid), ("--prefer", options.prefer)):
        unknown = [word for word in single_words(name, listed) if word not in made.vocabulary]
        if unknown:
            why = f"the model never says {', '.join(map(printable, unknown))}"
            tell(Problem(name, why, "Forms of a word are words of their own: dog, dogs."))
    return made
