"""training.md: the teacher on COCO, how fast a step is and why, and runs that were killed.

Its run files are written by benchmarks/training_run.py (coco-teacher-xe.json),
benchmarks/training.py (training-speed.json) and tests/train/kill.py (training-kills.json).
"""

import json
import textwrap
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
Run = dict[str, Any]
TARGET = 95.0  # CIDEr on val at beam 3, which we set ourselves before the run
NAMES = {
    **{f"Bleu_{n}": f"BLEU-{n}" for n in range(1, 5)},
    **{"METEOR": "METEOR", "ROUGE_L": "ROUGE-L", "CIDEr": "CIDEr"},
}
STAGES = {"xe": "XE", "scst": "SCST"}


def training() -> str:
    """The whole page."""
    teacher, speed, kills = (
        json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("coco-teacher-xe", "training-speed", "training-kills")
    )
    head = "# Training: the teacher on COCO, speed, kills\n\n"
    head += "Made by `make docs` from the run files here.\n"
    parts = [head, _teacher(teacher), _scores(teacher), _curve(teacher)]
    parts += [_speed(speed, teacher), _parts(speed), _kernels(speed), _limit(speed), _kills(kills)]
    return "\n\n".join(map(_filled, "\n".join(parts).split("\n\n")))


def _filled(block: str) -> str:
    """Prose in lines of one width, whatever the numbers in it; tables and commands as they are."""
    text = block.strip()
    if text.startswith(("|", "#")) or (text[:1] == text[-1:] == "`"):
        return block
    whole = text.replace(" %", "\0%")  # a number and its sign stay together
    lines = textwrap.fill(whole, 100, break_long_words=False, break_on_hyphens=False)
    return block.replace(text, lines.replace("\0", " "))


def _teacher(run: Run) -> str:
    report, speed = run["report"], run["speed"]
    data, epochs = report["data"], run["validations"][-1]["epoch"]
    return f"""## The teacher by cross-entropy

`{report["command"]}`

({report["device"]}, torch {report["versions"]["torch"]}, Python {report["versions"]["python"]})

The causal captioner (Transformer-base, {report["parameters"] / 1e6:.1f} million parameters) learns
from all {data["images"]:,} training images of COCO ({" and ".join(data["splits"])}) and their
{data["captions"]:,} captions. It sees an 8 × 8 grid of features of {data["backbone"]}:
not the bottom-up regions that most published teachers are given, and the backbone stays frozen.

| | |
|---|---|
| wall clock of {epochs:.0f} epochs, {report["steps"]:,} steps: compiling, validations and \
saving included | {report["seconds"]:.0f} s |
| of it the first {speed["first_line_step"]} steps, in which it compiles | \
{speed["first_line_seconds"]:.1f} s |
| images/s, five captions each: the median of {speed["log_lines"]} lines of `metrics.jsonl` | \
{speed["images_per_second"]:,.0f} |

The clock starts when training does, with the features in memory, and stops before the captions of
the report are written.
"""


def _scores(run: Run) -> str:
    report, found = run["report"], run["evaluate"]
    source = found["3"]["source"]
    rows = [_score_row(key, name, list(found.values())) for key, name in NAMES.items()]
    for key, name in (("repeats", "a word twice in a row"), ("bad_endings", "a bad ending")):
        shares = (100 * beam["habits"]["captions"][key] for beam in found.values())
        rows.append(f"| {name}, % of captions |" + "".join(f" {share:.2f} | |" for share in shares))
    table = "\n".join(rows)
    level = f"{100 * found['3']['bootstrap']['level']:.0f} %"
    heads = " | ".join(f"beam {beam} | {level}" for beam in found)
    cider = {beam: 100 * scored["scores"]["CIDEr"] for beam, scored in found.items()}
    own = {str(score["beam"]): 100 * score["cider"] for score in report["scores"]}
    beam = tomllib.loads(report["config"])["validation"]["beam"]
    gap = max(abs(cider[beam] - own[beam]) for beam in cider)
    return f"""### What it scores

On the {report["validation_images"]:,} images of `val` that the store has (the published split has
5,000), by the model of step {report["best_step"]:,}, and likewise for beam 1:

`naic evaluate RUN/captions/val-beam3.json --references {source["references"]} --split val`

SPICE was not computed. {_verdict(cider["3"], found["3"]["intervals"]["CIDEr"])}

| | {heads} |
{"|---" * (1 + 2 * len(found))}|
{table}

Tokens are those of the PTB tokeniser, METEOR is the reference program's (1.5), and intervals are
bootstraps over the images ({found["3"]["bootstrap"]["resamples"]:,} resamples).
The step was chosen by its CIDEr at beam {beam} on these same images, which flatters it a little.
The CIDEr that the run itself reported differs from this by at most {gap:.4f}. The signature:

`{found["3"]["signature_line"]}`
"""


def _score_row(key: str, name: str, beams: list[Run]) -> str:
    pairs = (f" {100 * b['scores'][key]:.2f} | {_interval(b['intervals'][key])} |" for b in beams)
    return f"| {name} |" + "".join(pairs)


def _verdict(cider: float, interval: list[float]) -> str:
    gap = cider - TARGET
    verdict = f"reached: {cider:.2f}" if gap >= 0 else f"missed by {-gap:.2f}: {cider:.2f}"
    within = 100 * interval[0] <= TARGET <= 100 * interval[1]
    return f"""The target was a CIDEr of {TARGET:.0f} at beam 3.
**It was {verdict}.**
The interval of {_interval(interval)} {"holds" if within else "excludes"} the target."""


def _curve(run: Run) -> str:
    lines = run["validations"]
    rows = "\n".join(
        f"| {line['epoch']:.2f} | {line['step']:,} | {line['loss']:.3f} "
        f"| {100 * line['cider']:.2f} |"
        for line in lines
    )
    best, last = max(lines, key=lambda line: float(line["cider"])), lines[-1]
    verdict = "It is the last: more epochs may give more."
    if best is not last:
        fall = 100 * (best["cider"] - last["cider"])
        verdict = f"""From there to the end the training loss goes from {best["loss"]:.2f} to
{last["loss"]:.2f} and CIDEr falls by {fall:.2f}: it overfits. More dropout is what to try next."""
    return f"""### How it learns

Greedy captions of the averaged weights at each validation; the loss is that of the training steps
just before it, for a word.

| epoch | step | training loss | CIDEr on val |
|---|---|---|---|
{rows}

The best is that of epoch {best["epoch"]:.0f}. {verdict}
The best epoch is known only to within the distance of two validations.
"""


def _speed(run: Run, teacher: Run) -> str:
    commands = "\n".join(f"`{stage['command']}`\n" for stage in run["stages"].values())
    rows = "\n".join(
        f"| {STAGES[name]}, {stage['batch']} images | {way} | {found['step_ms']:.1f} "
        f"| {stage['ways']['eager']['step_ms'] / found['step_ms']:.2f}× "
        f"| {found['images_per_second']:,.0f} | {found['flops_per_second'] / 1e12:.0f} "
        f"| {100 * found['utilisation']:.1f} % | {found['first_step_seconds']:.1f} "
        f"| {found['gigabytes']:.1f} |"
        for name, stage in run["stages"].items()
        for way, found in stage["ways"].items()
    )
    work = ", ".join(
        f"{stage['gflops_per_image']:.1f} GFLOP an image for {STAGES[name]}"
        for name, stage in run["stages"].items()
    )
    images = teacher["report"]["data"]["images"]
    features = 2 * run["regions"] * run["features"]
    more = (images - run["images"]) * features / 1e9
    return f"""## How fast a step is

{commands}
({run["machine"]}, torch {run["torch"]}, Python {run["python"]}.) This needs a GPU, so `make bench`
leaves it out. A step is that of `naic train` with the settings of `configs/coco`: forward,
backward, clipping, Adam and averaging, in bfloat16 where mixed precision has it so, with
{run["regions"]} × {run["features"]} features an image in the GPU's memory. These are the features
of {run["images"]:,} training images, with the vocabulary of the whole of COCO,
{run["words"]:,} words, and untrained weights. All shapes are fixed, so that a step costs the same
whatever the number of images and the length of the sentences.

| | | step, ms | against eager | images/s | TFLOP/s | of the peak | first step, s | GB |
|---|---|---|---|---|---|---|---|---|
{rows}

FLOPs are counted, not measured (`naic.models.flops`): matrix products alone, {work}.
XE is three times the forward pass, one forward and two for the backward; SCST four times, as
sampling is one more. The peak is {run["peak_flops"] / 1e12:.0f} TFLOP/s, bfloat16 without
sparsity by the data sheet. The ways ran in this order in one process: the first step of eager is
that of a cold GPU, and a compiled graph finds the kernels that "compiled" made. A fresh run pays
for both, as the {teacher["speed"]["first_line_seconds"]:.1f} s above show.
GB is the most that was allocated; all {images:,} training images would add
{more:.1f} GB of features.
"""


def _parts(run: Run) -> str:
    tables = []
    for name, stage in run["stages"].items():
        whole = sum(stage["parts_ms"].values())
        rows = "\n".join(
            f"| {part} | {ms:.2f} | {100 * ms / whole:.1f} % |"
            for part, ms in stage["parts_ms"].items()
        )
        step = stage["ways"]["compiled, graph"]["step_ms"]
        tables.append(f"""| {STAGES[name]} | ms | share |
|---|---|---|
{rows}
| together | {whole:.2f} | |
| the step itself | {step:.2f} | |
""")
    return """## Where the time goes

Parts of the compiled step in a graph. A part is the difference of two graphs, one that ends after
it and one that ends before it. A graph that ends earlier may keep or skip other things, so a part
may come out a little negative, and together they need not be the step.

""" + "\n".join(tables)


def _kernels(run: Run) -> str:
    stages = run["stages"]
    kinds = sorted(
        {kind for stage in stages.values() for kind in stage["kernels"]},
        key=lambda kind: -max(float(stage["kernels"].get(kind, 0)) for stage in stages.values()),
    )
    rows = "\n".join(
        f"| {kind} | "
        + " | ".join(f"{100 * stage['kernels'].get(kind, 0):.1f} %" for stage in stages.values())
        + " |"
        for kind in kinds
    )
    heads = " | ".join(STAGES[name] for name in stages)
    return f"""Kernels of the same step by their names, as shares of the time of five steps under
the profiler. "Other element-wise" is all that no other name fits, sums and random numbers too.

| | {heads} |
{"|---" * (1 + len(stages))}|
{rows}
"""


def _limit(run: Run) -> str:
    head = "### What stands between it and the card's limit"
    return "\n\n".join([head, *(_stage_limit(run, name) for name in run["stages"])]) + "\n"


def _stage_limit(run: Run, name: str) -> str:
    stage = run["stages"][name]
    kernels, large = stage["kernels"], stage["matmul_flops"]
    step = stage["ways"]["compiled, graph"]["step_ms"]
    work = stage["gflops_per_image"] * 1e9 * stage["batch"]
    products = kernels["matrix products"]
    share = {kind: f"{100 * value:.0f} %" for kind, value in kernels.items()}
    element_wise = kernels["compiled element-wise"] + kernels["other element-wise"]
    text = f"""**{STAGES[name]}.** One large product reaches {large / 1e12:.0f} TFLOP/s here,
{100 * large / run["peak_flops"]:.0f} % of the data sheet. At that speed the step's
{work / 1e12:.2f} TFLOP would take {1e3 * work / large:.1f} ms; the step takes {step:.1f}.
Matrix products take {share["matrix products"]} of it, and run at up to
{1e3 * work / step / products / 1e12:.0f} TFLOP/s meanwhile (if all the counted work is theirs; a
small part is attention's). The rest is element-wise work {100 * element_wise:.0f} %,
attention, which has only 16 words and {run["regions"]} regions to work on, {share["attention"]},
copies {share["copies"]}, the optimiser {share["optimiser"]}, idle {share["idle"]}."""
    sampling = stage["parts_ms"].get("encode and sample")
    if sampling is None:
        return text
    return f"""{text}
Encoding and sampling, word after word, is {sampling:.1f} ms of the step: 16 small passes that wait
for each other."""


def _kills(run: Run) -> str:
    kills, different = run["kills"], run["different_files"]
    rows = []
    for trial in range(run["trials"]):
        own = [kill for kill in kills if kill["trial"] == trial]
        hits = ", ".join(f"{kill['phase']} ({kill['step']})" for kill in own)
        same = "NO: " + ", ".join(different[str(trial)]) if str(trial) in different else "yes"
        rows.append(f"| {trial + 1} | {len(own)} | {hits} | {same} |")
    table = "\n".join(rows)
    saves = run["phases"].get("save", 0)
    half = sum(kill["half_written"] for kill in kills)
    return f"""## Kills

`{run["command"]}`: `naic train` of {run["steps"]} steps with {run["processes"]} processes
on the CPU. One of them is killed with SIGKILL, the other must end too, and the same command goes
on. {len(kills)} kills in {run["trials"]} trials, {saves} of them
({100 * saves / len(kills):.0f} %) while a checkpoint was being saved; {half} left a half-written
one behind. All processes were gone within {run["slowest_end"]:.1f} s.
**{run["identical"]} of {run["trials"]} runs ended with the same files as the unbroken run**, byte
for byte but for the times in them; TensorBoard's were not compared.

| trial | kills | what each hit (the last step logged by then) | identical |
|---|---|---|---|
{table}
"""


def _interval(pair: list[float]) -> str:
    return f"{100 * pair[0]:.2f} to {100 * pair[1]:.2f}"
