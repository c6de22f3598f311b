"""What a contract of the server knows of the rest: photos in, captions out, or a refusal.

A contract is one module with three names: `PATHS`, what its paths begin with; `router(service)`,
its routes; and `error_body(status, message)`, an error as its clients read it. `app.py` has the
table of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from naic.errors import ImageError, NaicError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from naic.decode.wishes import Wishes
    from naic.runtime.captioner import Captioner
    from naic.runtime.sentences import Caption
    from naic.serve.agents import View

    Pixels = npt.NDArray[np.uint8]

T = TypeVar("T")


class Refused(NaicError):  # noqa: N818 - it need not be an error of anybody's
    """A request that is not answered with a caption.

    Attributes:
        status: the HTTP status that says so.
        retry_after: seconds after which it may be tried again; None: the same request will fail.
    """

    def __init__(
        self, status: int, what: str, why: str, hint: str = "", retry_after: int | None = None
    ) -> None:
        super().__init__(what, why, hint)
        self.args = (status, what, why, hint, retry_after)  # so that it survives pickling
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Upload:
    """A photo as it came.

    Attributes:
        name: what its sender calls it, for messages alone: no path, and nothing is opened by it.
        content: the bytes of its file.
    """

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for beside the caption itself.

    Attributes:
        alternatives: how many whole sentences to give.
        wishes: of the words, as for a `Captioner`.
    """

    alternatives: int = 0
    wishes: "Wishes" = field(default_factory=dict)  # type: ignore[assignment]


PLAIN = Asked()


class Service(Protocol):
    """A model behind its queue."""

    @property
    def model(self) -> str:
        """Its name, as clients are told."""
        ...

    @property
    def loaded(self) -> int:
        """When it was loaded, in seconds since 1970."""
        ...

    @property
    def captioner(self) -> "Captioner":
        """The model itself, for what captions alone do not tell; to be used within `turn`."""
        ...

    async def caption(
        self, photos: Sequence[Upload], asked: Asked = PLAIN
    ) -> "list[Caption | ImageError]":
        """For each photo its caption, or why it has none.

        Raises:
            Refused: the queue is full, it took too long, or the server is starting or draining.
            ConfigError: something was asked for that cannot be.
        """
        ...

    @property
    def view(self) -> "View":
        """What the agents' view has beside captions."""
        ...

    async def look(self, photo: Upload, asked: Asked, work: Callable[["Pixels", Asked], T]) -> T:
        """What `work` gives, in its turn, of a photo's pixels (P, P, 3) and of what is asked.

        To what is asked the server's own wishes are added, as for a caption.

        Raises:
            ImageError: the photo cannot be used.
            Refused: as `caption`.
            ConfigError: likewise.
        """
        ...

    async def turn(self, work: Callable[[], T]) -> T:
        """What `work` gives, called where batches are: it waits in the same queue as a photo does.

        Raises:
            Refused: as `caption`.
        """
        ...
