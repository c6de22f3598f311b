"""A study's file: what its variants begin with, what each of them changes, and their settings.

All settings of all variants are read before anything is run: a key that is misspelt in the last
variant is not found after hours.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from naic.config import read_toml, structure
from naic.errors import ConfigError
from naic.runtime.rescore import MOST_CHOICES
from naic.tasks.options import WIDEST_BEAM
from naic.tasks.reproduce.run_file import ReproduceOptions

if TYPE_CHECKING:  # reading settings checks them, which needs torch: not before there is work
    from naic.train.settings import Settings

FIRST, TRAIN = "first", "train"  # the runs of a variant, and their folders in its own
PSEUDO = "pseudo"  # what another variant taught it, likewise
START, TEACHER = "start", "teacher"  # rows that are no variants
TAKEN = (START, TEACHER, "captions", "scores")  # names that folders of variants cannot have
_OURS = {"out": "its folder is the study's", "engine.device": "--device says it"}


@dataclass(frozen=True)
class First:
    """A run that comes before a variant's own, which then begins with its best model.

    Attributes:
        base: a training config beside the study's file.
        set: settings put over it, by their names ("xe.glance").
    """

    base: str
    set: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Variant:
    """A run that differs from the others in what `set` says.

    Attributes:
        name: what its row is called.
        set: settings put over the base, by their names ("cmal.gradient").
        base: a training config beside the study's file; None: the study's.
        after: the variant whose best model it begins with; None: what all begin with.
        taught: the variant whose captions of the training images it learns; None: those of people.
        beams: beam widths that it is captioned with, a row for each.
        first: a run before it.
        rescore: rows with so many of its sentences rescored by the teacher.
        spice: score SPICE too, of its own row: minutes.
    """

    name: str
    set: dict[str, Any] = field(default_factory=dict)
    base: str | None = None
    after: str | None = None
    taught: str | None = None
    beams: tuple[int, ...] = (1,)
    first: First | None = None
    rescore: tuple[int, ...] = ()
    spice: bool = False

    @property
    def slug(self) -> str:
        """Its name as the name of a folder."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def changes(self) -> dict[str, Any]:
        """All that it is told, for the tables."""
        given = {"base": self.base, "after": self.after, "taught": self.taught}
        own: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if self.first is not None:
            own |= {f"{FIRST}.base": self.first.base}
            own |= {f"{FIRST}.{name}": value for name, value in flat(self.first.set)}
        return own | dict(flat(self.set))


@dataclass(frozen=True)
class StudySettings:
    """What a study's file says beside its variants.

    Attributes:
        start: the model folder that all variants begin with; None: what their configs say, which
            may be nothing.
        base: a training config beside the file, of all variants that name none; empty: each does.
        features: the feature store; `--features` may name another.
        teacher: the model folder that the rows are compared with too, and which rescores.
        beam: the teacher's beam width, and of a variant that teaches another.
        compare_with: the variant that the others are compared with; empty: the first.
        report: the splits that there are tables of; SPICE is scored on the first.
        speed: measure parameters, passes and time of all rows, too.
        half: keep each best model in float16, too: what is brought home from another machine.
    """

    start: Path | None = None
    base: str = ""
    features: Path | None = None
    teacher: Path | None = None
    beam: int = 3
    compare_with: str = ""
    report: tuple[str, ...] = ("val",)
    speed: bool = False
    half: bool = False


@dataclass(frozen=True)
class Study:
    """A study that was read.

    Attributes:
        path: its file.
        settings: what it says, with the options put over it.
        variants: in the order of the table.
    """

    path: Path
    settings: StudySettings
    variants: tuple[Variant, ...]

    def find(self, name: str) -> Variant:
        """The variant of this name, or whose folder is called so."""
        for variant in self.variants:
            if name in (variant.name, variant.slug):
                return variant
        known = ", ".join(variant.slug for variant in self.variants)
        raise ConfigError(f"--only {name}", f"{self.path} has no such variant", f"Some of: {known}")

    def chosen(self, only: str) -> list[Variant]:
        """Those that `--only` names, or all."""
        names = [name.strip() for name in only.split(",") if name.strip()]
        wanted = [self.find(name) for name in names]
        return [own for own in self.variants if own in wanted] if names else list(self.variants)


def read_study(options: ReproduceOptions) -> Study:
    """Read and check the file; the settings of its variants are checked by `runs_of`."""
    path = options.study
    assert path is not None
    values = read_toml(path)
    listed = values.pop("variant", [])
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f"{path}: variant", "there are none", "Add some: [[variant]].")
    variants = tuple(
        structure(own, Variant, f"{path}: variant {number}") for number, own in enumerate(listed, 1)
    )
    settings = structure(values, StudySettings, str(path))
    if options.features is not None:
        settings = replace(settings, features=options.features)
    settings = replace(settings, compare_with=settings.compare_with or variants[0].name)
    _check(path, settings, variants)
    return Study(path, settings, variants)


def _check(path: Path, settings: StudySettings, variants: Sequence[Variant]) -> None:
    seen: dict[str, str] = {}
    for variant in variants:
        _check_begin(f"{path}: variant {variant.name!r}", settings, variant, seen)
        if not variant.slug or variant.slug in TAKEN:
            why = "it cannot be the name of a folder here"
            raise ConfigError(f"{path}: variant {variant.name!r}", why, "Choose another name.")
        if variant.slug in seen:
            why = f"its folder would be that of {seen[variant.slug]!r}"
            raise ConfigError(f"{path}: variant {variant.name!r}", why, "Choose another name.")
        seen[variant.slug] = variant.name
        few, many = min(variant.rescore, default=2), max(variant.rescore, default=2)
        if (variant.rescore and settings.teacher is None) or few < 2 or many > MOST_CHOICES:
            why = f"it needs a teacher, and 2 sentences or more (up to {MOST_CHOICES})"
            hint = "Add teacher = FOLDER to the file, or leave rescore out."
            raise ConfigError(f"{path}: variant {variant.name!r}: rescore", why, hint)
    if settings.compare_with not in seen.values():
        why = f"there is no variant {settings.compare_with!r}"
        raise ConfigError(f"{path}: compare_with", why, f"One of: {', '.join(seen.values())}.")
    if not settings.report:
        raise ConfigError(f"{path}: report", "it names no split", 'Name one: ["val"].')
    if not 1 <= settings.beam <= WIDEST_BEAM:
        why = f"{settings.beam} is not from 1 to {WIDEST_BEAM}"
        raise ConfigError(f"{path}: beam", why, "Use 3.")


def _check_begin(
    where: str, settings: StudySettings, variant: Variant, before: Mapping[str, str]
) -> None:
    """What it is trained by, what it begins with, and how it is captioned."""
    if not (variant.base or settings.base):
        why = "neither it nor the file names a training config"
        raise ConfigError(f"{where}: base", why, 'Name one beside the file: "teacher_xe.toml".')
    for key, name in (("after", variant.after), ("taught", variant.taught)):
        if name is not None and name not in before.values():
            hint = "Name one that comes before it in the file."
            raise ConfigError(f"{where}: {key}", f"there is no {name!r} before it", hint)
    if not variant.beams or not all(1 <= beam <= WIDEST_BEAM for beam in variant.beams):
        why = f"{list(variant.beams)} is no list of widths from 1 to {WIDEST_BEAM}"
        raise ConfigError(f"{where}: beams", why, "Use [1, 3].")


def runs_of(study: Study, variant: Variant, options: ReproduceOptions) -> "dict[str, Settings]":
    """The settings of a variant's runs by their names, in order, checked to the last key."""
    folder = options.out / variant.slug
    runs, start = {}, study.settings.start
    if variant.after is not None:
        start = options.out / study.find(variant.after).slug / TRAIN / "best"
    if variant.first is not None:
        before = variant.first
        runs[FIRST] = _settings(study, variant, options, before.base, before.set, FIRST, start)
        start = folder / FIRST / "best"
    base = variant.base or study.settings.base
    runs[TRAIN] = _settings(study, variant, options, base, variant.set, TRAIN, start)
    return runs


def _settings(
    study: Study,
    variant: Variant,
    options: ReproduceOptions,
    base: str,
    changes: Mapping[str, Any],
    run: str,
    start: Path | None,
) -> "Settings":
    from naic.train.config import read_settings

    where = f"{study.path}: variant {variant.name!r}"
    changed = dict(flat(changes))
    for name, why in _OURS.items():
        if name in changed:
            raise ConfigError(f"{where}: {name}", why, "Leave it out.")
    given: dict[str, Any] = {
        "out": str(options.out / variant.slug / run),
        "engine.device": options.device,
    }
    if start is not None:
        given["start"] = str(start)
    if study.settings.features is not None:
        given["data.features"] = str(study.settings.features)
    if variant.taught is not None:
        given["data.pseudo"] = [str(options.out / variant.slug / PSEUDO)]
    if options.graph:
        given["engine.graph"] = True
    put = [(name, _as_text(value)) for name, value in (given | changed).items()]
    try:
        return read_settings(study.path.parent / base, put)
    except ConfigError as error:
        what = error.what.removeprefix("--")
        raise ConfigError(f"{where}: {what}", error.why, error.hint) from error


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by their names, whether the file has {"cmal.xe" = 1} or {cmal = {xe = 1}}.

    A table of rewards is one setting: names with a colon are of functions.
    """
    for name, value in table.items():
        if isinstance(value, dict) and not any(":" in key for key in value):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _as_text(value: object) -> str:
    """As it would be written after an option: `read_settings` takes those."""
    if isinstance(value, dict):
        return f"{{ {', '.join(tomli_w.dumps({key: own}).strip() for key, own in value.items())} }}"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").strip()
