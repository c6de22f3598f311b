"""One tree of exceptions. Each one says what failed, why, and what to do next."""

from dataclasses import dataclass


class NaicError(Exception):
    """Base of everything naic raises on purpose.

    Attributes:
        what: the thing concerned: a file, a row, an option.
        why: the reason, as a clause without a final period.
        hint: what the user can do about it, as a sentence.
    """

    def __init__(self, what: str, why: str, hint: str = "") -> None:
        super().__init__(what, why, hint)  # all three as args, so that it survives pickling
        self.what = what
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}: {self.why}. {self.hint}".rstrip()


class ImageError(NaicError):
    """A file or some bytes that cannot be used as an image."""


class DataError(NaicError):
    """A dataset row that cannot be used: missing image, empty caption, duplicate, broken JSON."""


class VocabularyError(NaicError):
    """A vocabulary file that cannot be read, or words and ids that do not fit it."""


class StoreError(NaicError):
    """A feature store that is missing, damaged, in use, or made with other settings."""


class BackboneError(NaicError):
    """A backbone or its weights that cannot be had."""


class WriteError(NaicError):
    """A file that cannot be written: the disk is full, the folder is not ours."""


class StorageError(NaicError):
    """A file or a URL that cannot be read: not there, not allowed, or its server is not reached."""


class ConfigError(NaicError):
    """An option or a config key that is unknown, or a value out of range."""


class CheckpointError(NaicError):
    """A checkpoint or a model folder that is missing, damaged, foreign, or of another model."""


class TrainingError(NaicError):
    """A training run that cannot go on: it collapsed, a worker died, a number is not finite."""


class ClusterError(NaicError):
    """A cluster that cannot be reached or joined, or that was lost in the middle of a run."""


class MetricError(NaicError):
    """A metric that could not be computed: its reference program failed or ran out of time."""


class HubError(NaicError):
    """The model hub refused what was asked of it, or could not be reached."""


class MissingExtraError(NaicError):
    """A package that belongs to an optional extra is not installed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be used: where it is, why, and what to do.

    `kind` says in a few words what it has in common with others, where `why` names things.
    """

    where: str
    why: str
    hint: str
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.why}. {self.hint}".rstrip()
