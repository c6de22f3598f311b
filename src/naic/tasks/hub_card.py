"""What the model hub wants to know of a model: the front matter of its card, as YAML.

Only what is known is told. Scores come from the card, where the training run wrote them, and from
files of `naic evaluate --json`; a data set is called as it was there, since nothing says which of
the hub's it is.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.config import read_toml
from naic.errors import ConfigError, DataError, MissingExtraError
from naic.files import CARD, CONFIG, parse_json, printable
from naic.tasks.evaluate.options import NAMES

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

TASK = "image-to-text"
FENCE = "---\n"
_OURS = f"{FENCE}# by naic pack; without this line naic leaves the rest alone\n"
SCORES = "model-index:"  # where they are in the metadata
_UNKNOWN = "unknown"
_TITLES = ["score", "value", "how it was measured"]  # of the table that a training run writes
_HOW = re.compile(r"(.+?), ([\d,]+ images), (.+)")
_METRICS = {"Bleu": "bleu", "ROUGE": "rouge", "METEOR": "meteor", "CIDEr": "cider"}
_KINDS = {"parallel": "non-autoregressive", "fnic": "non-autoregressive"}


def client() -> Any:  # noqa: ANN401 - a module of an extra
    """The hub's own client, or how to get it."""
    try:
        import huggingface_hub
    except ImportError as error:
        hint = "Run: pip install 'naic[hub]'"
        raise MissingExtraError("huggingface_hub", f"is not installed ({error})", hint) from error
    return huggingface_hub


def with_metadata(folder: Path, name: str, license_: str | None, scores: Sequence[Path]) -> str:
    """The card in a model folder as the hub wants it; front matter of somebody else is kept.

    Raises:
        ConfigError: it is, and other metadata are asked for.
    """
    card = (folder / CARD).read_text(encoding="utf-8", errors="replace")
    if card.startswith(_OURS):
        card = card.split(f"\n{FENCE}\n", 1)[-1]
    elif card.startswith(FENCE):
        if license_ or scores:
            why = f"{folder / CARD} has metadata of its own, which naic leaves alone"
            raise ConfigError("--license, --hub-scores", why, "Write them in there.")
        return card
    hub = client()
    settings = read_toml(folder / CONFIG)
    captioner = str(settings.get("captioner", ""))
    kinds = [kind] if (kind := _KINDS.get(captioner)) else []
    results = [*_of_card(card), *(found for path in scores for found in _of_evaluation(path))]
    data = hub.ModelCardData(
        license=license_ or _UNKNOWN,
        library_name="naic",
        pipeline_tag=TASK,
        tags=["image-captioning", *kinds],
        # the name is for the scores alone
        model_name=name.rpartition("/")[2] if results else None,
        eval_results=results or None,
    )
    return f"{_OURS}{data.to_yaml()}\n{FENCE}\n{card}"


def _of_card(card: str) -> "list[EvalResult]":
    """The scores that a training run wrote: those before packing."""
    found = []
    inside = False
    for line in card.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells == _TITLES:
            inside = True
        elif inside and len(cells) == len(_TITLES) and not cells[0].startswith("---"):
            value = _as_number(cells[1])
            if value is not None:
                split, images, how = _parts(cells[2])
                told = f"{cells[0]} before packing, {how}" if how else f"{cells[0]} before packing"
                found.append(_result(cells[0], value, told, images or split, split))
        elif not cells:
            inside = False
    return found


def _parts(how: str) -> tuple[str, str, str]:
    """Split, number of images, and the rest, of how a score was measured."""
    named = _HOW.fullmatch(how)
    return (named[1], f"{named[1]}, {named[2]}", named[3]) if named else (_UNKNOWN, how, "")


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _of_evaluation(path: Path) -> "list[EvalResult]":
    """The scores in a file of `naic evaluate --json`."""
    name = printable(str(path))
    hint = "Name what `naic evaluate --json FILE` wrote."
    try:
        value = parse_json(path.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(name, f"cannot be read ({error})", hint) from error
    source = value.get("source") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(source, dict):
        raise DataError(name, "holds no evaluation", hint)
    splits = ", ".join(map(str, source.get("split") or ())) or "all"
    data = str(source.get("references", _UNKNOWN))
    told = str(value.get("signature_line", ""))
    measured = [(metric, value[metric]) for metric in NAMES if value.get(metric) is not None]
    if not measured:
        raise DataError(name, "holds no scores", hint)
    return [
        _result(metric, float(number), f"{metric}, {told}" if told else metric, data, splits)
        for metric, number in measured
    ]


def _result(metric: str, value: float, told: str, data: str, split: str) -> "EvalResult":
    hub = client()
    found: EvalResult = hub.EvalResult(
        task_type=TASK,
        task_name="Image captioning",
        dataset_type=_UNKNOWN,
        dataset_name=data,
        dataset_split=split,
        metric_type=_METRICS.get(re.split("[_-]", metric)[0], metric.lower()),
        metric_name=told,
        metric_value=value,
    )
    return found
