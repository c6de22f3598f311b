"""The options of `naic reproduce`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from naic.errors import ConfigError

# name -> its file in the run's folder; the ladder is always there
TABLES = {
    "ladder": "table1",
    "baselines": "table3",
    "topk": "table4",
    "unlabelled": "table5",
    "fill": "table_fill",
}


@dataclass(frozen=True)
class ReproduceOptions:
    """What to run, on what, and where to put it; the command line fills it in.

    Attributes:
        preset: tiny (drawn scenes, two cores), coco, paper, or a folder of TOML files.
        out: The folder for everything: features, runs, tables, figures.
        tables: Tables beside the ladder, with commas: baselines,topk,unlabelled,fill.
        seeds: How many times each student is trained; teacher and features are shared.
        jobs: How many stages to make at the same time, each in a process of its own.
        quick: The short form that the preset describes.
        features: A feature store to use instead of the preset's own data.
        unlabelled: A feature store whose images are learnt from without their captions.
        device: auto, cpu or cuda.
        graph: Run each training step as one CUDA graph: small models then learn many times faster.
        fast: Leave out METEOR and SPICE, which need Java and take minutes.
        dry_run: Say which stages are done and which are to be made, and write nothing.
        only_tables: Train nothing: make the tables of what is finished. METEOR and SPICE that were
            missing are added where Java is there now.
        references: With --only-tables: the human captions, for a DIR that came from another
            machine without its features and weights. Its captions are scored as they are.
        log: Where evaluations on a split called test are noted, as `naic evaluate` does.
    """

    preset: Annotated[str, arg(metavar="NAME")]
    out: Annotated[Path, arg(metavar="DIR")]
    tables: Annotated[str, arg(metavar="NAME,...")] = ""
    seeds: int = 1
    jobs: int = 1
    quick: bool = False
    features: Annotated[Path | None, arg(metavar="STORE")] = None
    unlabelled: Annotated[Path | None, arg(metavar="STORE")] = None
    device: str = "auto"
    graph: bool = False
    fast: bool = False
    dry_run: bool = False
    only_tables: bool = False
    references: Annotated[str | None, arg(metavar="PATH")] = None
    log: Annotated[Path | None, arg(metavar="FILE")] = None

    def check(self) -> None:
        """Refuse what cannot be."""
        if not 1 <= self.seeds <= 100:
            raise ConfigError("--seeds", f"{self.seeds} is not from 1 to 100", "Try 1 or 3.")
        if not 1 <= self.jobs <= 1000:
            raise ConfigError("--jobs", f"{self.jobs} is not from 1 to 1000", "Try 2.")
        if self.references is not None and (self.dry_run or not self.only_tables):
            why = "it is for tables of captions that were made elsewhere"
            raise ConfigError("--references", why, "Give it with --only-tables alone.")
        for name in self.chosen:
            if name not in TABLES:
                others = ", ".join(other for other in TABLES if other != "ladder")
                raise ConfigError("--tables", f"there is no table {name!r}", f"Some of: {others}.")

    @property
    def chosen(self) -> list[str]:
        """The tables to make, the ladder first, each once."""
        names = (name.strip() for name in self.tables.split(","))
        return list(dict.fromkeys(["ladder", *(name for name in names if name)]))
