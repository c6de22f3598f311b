"""The settings of COCO's ladder beside the paper's: ours from the run's files, theirs as it says.

The paper: Guo et al., "Non-Autoregressive Image Captioning with Counterfactuals-Critical
Multi-Agent Learning", IJCAI 2020, its section on settings.
"""

from collections.abc import Mapping
from typing import Any

Stages = Mapping[str, dict[str, Any]]
OPEN = "not said"
PAPER_XE = ("50", "30", "1e-4 more each epoch up to 3e-4, halved every 3 epochs after the sixth")
# Images in a step, epochs, learning rate.
PAPER = {
    "teacher-xe": (OPEN, OPEN, OPEN),
    "teacher-scst": (OPEN, OPEN, OPEN),
    "naic-base": PAPER_XE,
    "naic-init": PAPER_XE,
    "naic-kd": PAPER_XE,
    "naic-cmal": ("50", "about 70", "7.5e-5, times 0.8 every 10 epochs"),
}
STUDENT = "naic-cmal"


def settings(run: Mapping[str, Any], stages: Stages) -> str:
    """Both tables."""
    model, cmal = stages[STUDENT]["config"]["model"], stages[STUDENT]["config"]["cmal"]
    preset, data = run["finished"]["settings"], run["data"]
    side = round(data["regions"] ** 0.5)
    rows = [
        ("images with captions", _images(stages[STUDENT], data), "113,287"),
        (
            "features of an image",
            f"{side}×{side} grid of {data['backbone']}, {data['dim']:,} numbers each",
            "bottom-up regions of a detector",
        ),
        ("words", _vocabulary(stages), "9,487"),
        ("layers", f"{model['encoder_layers']} + {model['decoder_layers']}", "6 + 6"),
        ("width", str(model["width"]), "512 (Transformer-base)"),
        ("heads, feed-forward", f"{model['heads']}, {model['hidden']:,}", "8, 2,048"),
        ("dropout, students", str(model["dropout"]), "0.1 (Transformer-base)"),
        ("agents", str(model["length"]), "16"),
        ("the teacher's captions", f"beam {preset['beam']}, {preset['keep']} an image", "beam 3"),
        ("sentences sampled for an image", str(cmal["samples"]), OPEN),
        ("k, baseline", f"{cmal['topk']}, {cmal['baseline']}", "2, counterfactual"),
        ("images without captions", _unlabelled(stages), "100,000, in one row"),
    ]
    table = "\n".join(f"| {what} | {ours} | {theirs} |" for what, ours, theirs in rows)
    return f"""## Settings, ours and the paper's

| | here | in the paper |
|---|---|---|
{table}

| stage | images in a step | epochs | learning rate | in the paper: in a step | epochs | rate |
|---|---|---|---|---|---|---|
{_schedules(stages)}

The optimiser is Adam in both. "{OPEN}": the paper leaves it open.
"""


def _images(stage: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    twins = ", mirrored ones among them" if data.get("mirrored") else ""
    return f"{stage['data']['images']:,}{twins}"


def _vocabulary(stages: Stages) -> str:
    counts = sorted({own["words"] for own in stages.values() if "words" in own})
    found = ", ".join(f"{count:,}" for count in counts) or "n/a"
    return f"{found}; {same_words(stages)}"


def same_words(stages: Stages) -> str:
    """Whether all rows have one vocabulary, by its fingerprint."""
    found = {own["vocabulary"] for own in stages.values() if "vocabulary" in own}
    return "the same in all rows" if len(found) == 1 else f"**{len(found)} different vocabularies**"


def _unlabelled(stages: Stages) -> str:
    with_them = [name for name in stages if "unlabelled" in name]
    return "as in `unlabelled`'s rows" if with_them else "none"


def _schedules(stages: Stages) -> str:
    lines = []
    for name, own in stages.items():
        config = own["config"]
        theirs = " | ".join(PAPER.get(name, ("", "not there", "")))
        lines.append(
            f"| `{name}` | {config['run']['batch'] * config['run'].get('accumulate', 1)} "
            f"| {config['run']['epochs']:g} | {_rate(config)} | {theirs} |"
        )
    return "\n".join(lines)


def _rate(config: Mapping[str, Any]) -> str:
    schedule = config["schedule"]
    text = f"{schedule['learning_rate']:g}, {schedule['kind']}"
    if schedule.get("warmup_steps"):
        text += f" after {schedule['warmup_steps']:,} steps of warming up"
    own = config.get("optimiser", {})
    if config.get("model", {}).get("backbone") and "backbone_rate" in own:  # it learns, too
        text += f"; of the backbone {own['backbone_rate']:g} of it"
        text += f", of each block {own['block_rate']:g} of the next one's"
        text += f", from step {own['frozen_steps']:,} on" if own["frozen_steps"] else ""
    return text
