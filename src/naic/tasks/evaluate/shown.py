"""An evaluation as a page: what is shown of it, and by which names."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from naic.images.sources import FileImage
from naic.tasks.evaluate import tables
from naic.tasks.evaluate.page import Contents, Said, page
from naic.tasks.evaluate.pictures import link, small_copies
from naic.tasks.evaluate.signature import signature_line

if TYPE_CHECKING:  # which has its reports from here
    from naic.tasks.evaluate.run import Evaluation

# By image these say little, and nothing that Bleu_4, ROUGE_L and CIDEr do not.
_OF_SETS = ("Bleu_1", "Bleu_2", "Bleu_3")
_FIRST = "CIDEr"  # the order that a page begins with
_DIGITS = 12


def evaluation_page(evaluation: "Evaluation", path: Path, *, embed: bool) -> Iterator[bytes]:
    """The page in parts, to be written to `path`, from where it finds its pictures."""
    names = tables.labels(evaluation.systems)
    found = evaluation.pictures if not embed else []
    links = [link(one.path, path) if isinstance(one, FileImage) else None for one in found]
    figures = [own(evaluation) for own in (tables.scores, tables.further, tables.habits)]
    notes = [tables.headline(evaluation), *tables.shortcomings(evaluation)]
    if not evaluation.pictures:
        notes.append("This page has no pictures: they are shown with --images DIR.")
    against = f" against {names[1]}" if evaluation.against is not None else ""
    return page(
        Contents(
            title=f"Captions of {names[0]}{against}",
            notes=notes,
            ids=[image.id for image in evaluation.images],
            references=[image.captions for image in evaluation.images],
            systems=[_said(evaluation, place, name) for place, name in enumerate(names)],
            tables=[one for one in figures if one.rows],
            facts=_facts(evaluation, names),
            links=links,
            copies=small_copies(evaluation.pictures) if embed else None,
        )
    )


def _said(evaluation: "Evaluation", place: int, name: str) -> Said:
    system = evaluation.systems[place]
    shown = sorted(
        (score for name, score in system.scores.items() if name not in _OF_SETS),
        key=lambda score: score.name != _FIRST,
    )
    scores = {score.name: score.per_image.tolist() for score in shown}
    return Said(name, system.captions, scores)


def _facts(evaluation: "Evaluation", names: list[str]) -> list[tuple[str, str]]:
    """What the figures are of."""
    roles = ["captions", *["against"] * (evaluation.against is not None)]
    roles += ["also"] * len(evaluation.also)
    facts = [
        (role, f"{name}, SHA-256 {system.sha256[:_DIGITS]}…")
        for role, name, system in zip(roles, names, evaluation.systems, strict=True)
    ]
    source = evaluation.source
    references = f"{source['references']} ({source['reader']})"
    facts.append(("references", _named(references, source["split"])))
    if source["df"] is not None:
        facts.append(("df", _named(source["df"], source["df_split"])))
    return [*facts, ("signature", signature_line(evaluation.signature))]


def _named(name: str | list[str] | None, splits: str | list[str] | None) -> str:
    return f"{name}, split {' '.join(splits)}" if splits else str(name)
