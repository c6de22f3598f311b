"""Tables, figures and the page of captions, from what the stages made."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from naic.errors import ConfigError
from naic.files import remove_temporaries, write_atomically
from naic.progress import Callbacks
from naic.tasks.charts import Bar, Dot, Line, bars, lines, scatter
from naic.tasks.options import WORDS
from naic.tasks.reproduce import gallery, tables
from naic.tasks.reproduce.gallery import write_server_files
from naic.tasks.reproduce.plan import PlannedRow
from naic.tasks.reproduce.run_file import TABLES, ReproduceOptions
from naic.tasks.reproduce.scoring import ReturnedScorer, Scorer, measure_latency
from naic.tasks.reproduce.stage_runner import StageRunner

SHOWN = {  # what the page of captions shows, as in the paper's last figure
    "AIC beam 3": "teacher",
    "NAIC-base": "NAIC-base",
    "+KD": "NAIC-XE (+KD)",
    "+CMAL": "NAIC-CMAL",
}

Tables = dict[str, list[tables.TableRow]]


@dataclass(frozen=True)
class Reproduced:
    """What came out.

    Attributes:
        tables: the rows of each table by its name.
        examples: a few images with their captions.
        left_out: rows that are not there, since their stages are not finished.
        also: by split, the tables of the splits that are reported too.
    """

    tables: Tables
    examples: list[gallery.Example]
    left_out: list[str]
    also: dict[str, Tables] = field(default_factory=dict)


class TableMaker:
    """Scores, times and draws what the stages made."""

    def __init__(
        self,
        runner: StageRunner,
        options: ReproduceOptions,
        callbacks: Callbacks,
        scorers: Sequence[Scorer | ReturnedScorer],
    ) -> None:
        """`scorers`: one for each split, that of `report` first."""
        self._runner = runner
        self._options = options
        self._listener = callbacks
        self._plan = runner.plan
        self._scorer, *self._others = scorers
        self._left_out: list[str] = []
        self._people: dict[str, dict[str, float]] = {}  # by split

    def make(self) -> Reproduced:
        """All tables, figures and the page of captions."""
        made = self._tables(self._scorer)
        if not made:
            why = "not one row of the tables is finished"
            raise ConfigError(str(self._options.out), why, "Leave out --only-tables.")
        also = {own.references.split: self._tables(own, also=True) for own in self._others}
        if "ladder" in made:
            latency = self._latency()
            for found in (made, *also.values()):
                tables.add_latency(found.get("ladder", []), *latency)
        self._write(made, "")
        for split, found in also.items():
            self._write(found, split)
        self._draw(made)
        self._note_data()
        if "ladder" in made and self._runner.preset.settings.server:
            self._serve(made["ladder"])
        return Reproduced(made, self._examples(), self._left_out, also)

    def _tables(self, scorer: Scorer | ReturnedScorer, *, also: bool = False) -> Tables:
        """The rows of one split; of a further one (`also`) nothing may be there.

        A run of before there were further splits is none the less finished.
        """
        split, made, missing = scorer.references.split, Tables(), len(self._left_out)
        for table in self._options.chosen:
            name = f"{TABLES[table]}, {split}" if also else TABLES[table]
            rows = [row for row in self._plan.rows(table) if self._is_there(scorer, name, row)]
            if rows:
                self._listener.say(f"scoring {name}: {len(rows)} rows")
                made[table] = [self._row(scorer, table, row) for row in rows]
        if also and not made:
            del self._left_out[missing:]
            self._listener.say(f"no captions of {split}: its tables are left out")
        return made

    def _write(self, made: Tables, split: str) -> None:
        for table, found in made.items():
            name = table_name(table, split)
            tables.write_table(self._options.out, name, table, found, split)

    def _seeds(self, row: PlannedRow) -> range:
        return range(1 if self._plan.is_shared(row.stage) else self._options.seeds)

    def _is_there(self, scorer: Scorer | ReturnedScorer, name: str, row: PlannedRow) -> bool:
        there = all(scorer.is_there(row.stage, n, row.beam) for n in self._seeds(row))
        if not there:
            self._left_out.append(f"{name}: {row.system}")
        return there

    def _row(self, scorer: Scorer | ReturnedScorer, table: str, row: PlannedRow) -> tables.TableRow:
        seeds = self._seeds(row)
        scored = [scorer.score(row.stage, number, row.beam) for number in seeds]
        made = tables.make_row(row.system, scored, table)
        made["stage"] = row.stage
        # The best weights are the start model's if a run only got worse: its end shows it.
        curves = [validations(self._runner.folder(row.stage, n)) for n in seeds]
        last = [curve[-1][1] / 100 for curve in curves if curve]
        made["last_validation_cider"] = statistics.fmean(last) if last else None
        self._people[scorer.references.split] = scored[0].human
        return made

    def _latency(self) -> tuple[dict[str, float], int | None]:
        """The teacher's ways and one student, in turns; kept with the models they are of.

        Also how many words the teacher wrote; None where that is not known: tables of before.
        """
        kept = self._runner.run_file.content.get("latency", {})
        if isinstance(self._scorer, ReturnedScorer):  # measured where the models are, or not at all
            return dict(kept.get("milliseconds", {})), kept.get("words")
        rows = [row for row in self._plan.rows("ladder") if self._is_done(row)]
        teachers = [row for row in rows if row.system.startswith("AIC")]
        students = [row for row in rows if not row.system.startswith("AIC")]
        timed = {row.system: row for row in teachers}
        if students:
            timed["NAIC"] = students[-1]
        key = {name: self._runner.identity(row.stage, 0) for name, row in timed.items()}
        if kept.get("models") != key or kept.get("words") != WORDS:
            self._listener.say("timing one image at a time")
            models = {
                name: (self._runner.folder(row.stage) / "best", row.beam)
                for name, row in timed.items()
            }
            kept = measure_latency(
                models, self._scorer.store, self._scorer.rows, self._options.device
            )
            kept["models"] = key
            self._runner.run_file.content["latency"] = kept
            self._runner.run_file.save()
        return dict(kept["milliseconds"]), kept.get("words")

    def _is_done(self, row: PlannedRow) -> bool:
        return self._scorer.is_there(row.stage, 0, row.beam)

    def _note_data(self) -> None:
        """What the features are of, for whoever reads the tables without having them."""
        content = self._runner.run_file.content
        if isinstance(self._scorer, Scorer):
            index = self._scorer.store.index
            names = ("reader", "backbone", "weights", "pixels", "regions", "dim", "images")
            content["data"] = {name: index.get(name) for name in (*names, "mirrored", "cropped")}
        reported = [
            {"split": own.references.split, "images": len(own.references.records)}
            for own in (self._scorer, *self._others)
        ]
        content["reported"], *also = reported
        content["people"] = self._people[content["reported"]["split"]]
        content["also_reported"] = [
            own | {"people": self._people[own["split"]]}
            for own in also
            if own["split"] in self._people
        ]
        self._runner.run_file.save()

    def _serve(self, rows: list[tables.TableRow]) -> None:
        """Files for COCO's server."""
        if not all(record.id.isdecimal() for record in self._scorer.references.records):
            self._listener.say("no files for COCO's server: the ids of the images are no numbers")
            return
        curves = {row["stage"]: validations(self._runner.folder(row["stage"])) for row in rows}
        best = {stage: max(cider for _, cider in curve) for stage, curve in curves.items() if curve}
        write_server_files(self._options.out, rows, best)

    def _draw(self, made: dict[str, list[tables.TableRow]]) -> None:
        folder = self._options.out / "figures"
        if "ladder" in made:
            write_figure(folder / "ladder.svg", ladder_figure(made["ladder"]))
            write_figure(folder / "latency.svg", speed_figure(made["ladder"]))
        for start in ("scratch", "weight-init") if "baselines" in made else ():
            runs = {
                row["system"].removeprefix(f"{start}, "): self._runner.folder(row["stage"])
                for row in made["baselines"]
                if row["system"].startswith(start) and not row["system"].endswith("XE")
            }
            title = f"Learning by each baseline ({start}), the first seed"
            name = f"baselines-{start}.svg"
            write_figure(folder / name, curves_figure(title, runs))

    def _examples(self) -> list[gallery.Example]:
        out = self._options.out
        rows = [row for row in self._plan.rows("ladder") if row.system in SHOWN]
        results = {
            SHOWN[row.system]: self._scorer.places(row.stage, 0, row.beam)[0]
            for row in rows
            if self._is_done(row)
        }
        count = self._runner.preset.settings.examples
        references = self._scorer.references
        examples = gallery.gather(references.records, results, count, out)
        gallery.write_pages(out, examples, references.split)
        return examples


def table_name(table: str, split: str = "") -> str:
    """The name of its files; `split` is that of a further table."""
    return f"{TABLES[table]}-{split.replace('/', '-')}" if split else TABLES[table]


def read_reproduced(options: ReproduceOptions, also: Sequence[str]) -> Reproduced | None:
    """The tables of a finished run as its files say; None if one of them is not there."""

    def read(split: str) -> Tables:
        paths = {
            table: options.out / f"{table_name(table, split)}.json" for table in options.chosen
        }
        return {table: json.loads(path.read_bytes()) for table, path in paths.items()}

    try:
        examples = gallery.read_examples(options.out)
        return Reproduced(read(""), examples, [], {split: read(split) for split in also})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def ladder_figure(rows: Sequence[tables.TableRow]) -> str:
    """CIDEr of each system with its interval over the images."""
    found = []
    for row in rows:
        ends = row["intervals"].get("CIDEr") or ()
        found.append(Bar(row["system"], 100 * row["CIDEr"], *(100 * end for end in ends)))
    return bars("CIDEr of each system, with 95 % intervals over the images", "CIDEr", found)


def speed_figure(rows: Sequence[tables.TableRow]) -> str | None:
    """CIDEr against the time of an image; None where no time was measured."""
    dots = [
        Dot(row["system"], row["latency_ms"], 100 * row["CIDEr"])
        for row in rows
        if row["latency_ms"] is not None
    ]
    if not dots:
        return None
    what = "milliseconds for one image, from its features (logarithmic)"
    return scatter("CIDEr against latency", what, "CIDEr", dots, log_x=True)


def curves_figure(title: str, runs: dict[str, Path]) -> str | None:
    """Validation CIDEr along runs, by their names; None where there is nothing to show yet."""
    curves = [Line(name, tuple(validations(run))) for name, run in runs.items()]
    curves = [curve for curve in curves if curve.points]
    return lines(title, "epoch", "validation CIDEr", curves) if curves else None


def validations(run: Path) -> list[tuple[float, float]]:
    """Epochs and CIDEr (times 100) of a run's validations."""
    from naic.train.logs import read_metrics

    return [
        (float(line["epoch"]), 100 * float(line["cider"]))
        for line in read_metrics(run)
        if "cider" in line
    ]


def write_figure(path: Path, svg: str | None) -> None:
    """Write it, if there is one; an older one that no longer holds goes."""
    path.parent.mkdir(exist_ok=True)
    remove_temporaries(path.parent, path.name)
    if svg is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, svg.encode())
