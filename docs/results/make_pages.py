"""Writes the pages of docs/results from the run files beside them; `--check` tells if they are so.

python docs/results/make_pages.py [--check]
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from backbones_page import backbones_pages  # type: ignore[import-not-found]
from cmal_page import cmal  # type: ignore[import-not-found]
from finetune_page import finetune_pages  # type: ignore[import-not-found]
from house_page import house_pages  # type: ignore[import-not-found]
from ladder_page import ladder, variance_figure  # type: ignore[import-not-found]
from light_calibration import CHART, calibration_chart  # type: ignore[import-not-found]
from light_page import light_page  # type: ignore[import-not-found]
from meteor_page import meteor_part  # type: ignore[import-not-found]
from photos_page import photos  # type: ignore[import-not-found]
from readme_table import readme  # type: ignore[import-not-found]
from scale_page import scale_pages  # type: ignore[import-not-found]
from serving_page import serving_pages  # type: ignore[import-not-found]
from speed_page import speed_pages  # type: ignore[import-not-found]
from student_page import student_pages  # type: ignore[import-not-found]
from systems_page import systems_pages  # type: ignore[import-not-found]
from training_page import training  # type: ignore[import-not-found]

FOLDER = Path(__file__).parent


def run_file(name: str) -> dict[str, Any]:
    """One run's numbers."""
    found: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return found


def speed(title: str, run: dict[str, Any]) -> str:
    """Extraction against the forward pass alone."""
    return f"""## {title}

`{run["command"]}` ({run["machine"]}; {run["backbone"]}, float32, batch {run["batch"]})

| | images/s |
|---|---|
| forward pass alone on ready tensors, in {len(run["forward_alone_slices"])} slices | \
{run["forward_alone_images_per_second"]:,.1f} |
| `naic prepare`, {run["images"]:,} JPEGs out of tars: decode, forward, float16, write, sync | \
{run["prepare_images_per_second"]:,.1f} |
| the same after the first thousand images | {run["prepare_after_the_first_1000"]:,.1f} |
| decoding alone, with all cores | {run["decode_alone_images_per_second"]:,.0f} |
| **ratio** of `prepare` to the forward pass alone | **{run["ratio"]:.3f}** |

The forward pass alone ran between {min(run["forward_alone_slices"]):,.0f} and
{max(run["forward_alone_slices"]):,.0f} images/s: the machine is shared, which is why the slices
are spread over the run.
"""


def memory(run: dict[str, Any]) -> str:
    """Resident memory along the run."""
    rows = "\n".join(f"| {int(n):,} | {mb:,} |" for n, mb in run["resident_megabytes"].items())
    values = list(run["resident_megabytes"].values())
    return f"""## Memory stays flat

The same run, the process's resident memory as it went:

| images done | MB |
|---|---|
{rows}

From the first to the last line: {values[-1] - values[0]:+,} MB.
"""


def kills(run: dict[str, Any]) -> str:
    """What each kill hit, and whether the stores came out right."""
    rows = "\n".join(
        f"| {number} | {kill['seconds']:.2f} | {kill['hit']} | {kill['shards']} |"
        for number, kill in enumerate(run["kills"], 1)
    )
    writing = sum("writing" in kill["hit"] for kill in run["kills"])
    return f"""## Kills

`{run["command"]}`: `naic prepare` of {run["images"]} images in shards of
{run["per_shard"]}, killed with SIGKILL and resumed. {len(run["kills"])} kills, {writing} of them
while a file was being written; **{run["identical"]} of {run["stores"]} stores byte-identical** to
the unbroken one. A run that ended before its kill is not in the list.

| kill | seconds into the run | what it hit | whole shards then |
|---|---|---|---|
{rows}
"""


def start(run: dict[str, Any]) -> str:
    """The command line's own weight."""
    return f"""## Start

`naic --help` takes {run["help_cpu_seconds"]:.3f} s of CPU time; neither it nor `import naic`
imports torch (`tests/cli/test_main.py`).
"""


BAD_FILES = """## Bad files

`pytest tests/tasks -k 900_good_files`: 1,000 files of which 100 are bad in ten ways (empty, cut
off, noise, a web page, a folder, a dangling link, a pipe, a decompression bomb, damaged data,
HEIC) give 900 rows, 100 named errors and exit code 3. The test runs in CI.
"""


def features() -> str:
    """features.md."""
    run = run_file("features.json")
    parts = ["# Features: speed, memory, kills\n\nMade by `make docs` from the run files here.\n"]
    parts += [
        speed("Extraction keeps the backbone's speed", run),
        memory(run),
        kills(run_file("kills.json")),
        BAD_FILES,
    ]
    parts += [start(run)]
    if (FOLDER / "features-gpu.json").exists():
        parts += [speed("The same on a GPU", run_file("features-gpu.json"))]
    return "\n".join(parts)


def rewards() -> str:
    """rewards.md: exactness and speed on one core and on a GPU."""
    core = run_file("rewards.json")
    gpus = [run_file(f"rewards-gpu-{number}.json") for number in (1, 2)]
    head = f"""# Rewards: exact, and how fast

Made by `make docs` from the run files here. A batch is what CMAL scores at once: captions of 50
images, and each of them with one word replaced, by k alternatives for each of its 16 words; 33
sentences an image at k = 2. References and document frequencies are those of COCO's train and
restval, {core["images"]:,} images and {core["captions"]:,} captions, all at full length.
"""
    return "\n".join(
        [head, _agreement(core, gpus), _one_core(core), _choices(core), _gpu(gpus), _floor(gpus)]
    )


def _agreement(core: dict[str, Any], gpus: list[dict[str, Any]]) -> str:
    found = core["agreement"]
    rows = "\n".join(
        f"| {kind} | {count:,} |" for kind, count in found["kinds"].items() if kind != "sentences"
    )
    worst = ", ".join(f"{name} {gap:.1e}" for name, gap in found["largest_difference"].items())
    on_gpu = max(run["largest_difference"] for run in gpus)
    kept = "yes" if found["unchanged_to_the_bit"] else "NO"
    return f"""## Agreement

`{core["command"]}`:
{found["kinds"]["sentences"]:,} sentences scored by the public Python CIDEr-D (`pycocoevalcap`), by
numba and by torch. Largest difference from the public scores: {worst}.
On the GPU against numba, {gpus[0]["sentences"]:,} sentences: {on_gpu:.1e}.

| among them | |
|---|---|
{rows}

Where the sentence stays what it was (the same word, or after the period), the reward is that of
`score` bit for bit, on the CPU, numba and eager torch: {kept}; on the GPU `tests/learn` checks it.
Compiled code adds up in another order: there it holds within one call of `judge`. `make check-slow`
repeats the agreement on made-up captions with 1 to 7 references.
"""


def _one_core(run: dict[str, Any]) -> str:
    times, ratio = run["milliseconds"], run["ratio"]
    rows = "\n".join(
        f"| {what} | {times[name]:,.2f} | {ratio[name]:,.0f}× "
        f"| {times[f'{name}, first']:,.2f} | {ratio[f'{name}, first']:,.0f}× |"
        for name, what in (("numba", "numba, incremental"), ("torch", "torch, batched, float64"))
    )
    return f"""## One core

The same run ({run["machine"]}, Python {run["python"]}, torch {run["torch"]}): the median of
{run["rounds"]} turns. In each, the public code scores one batch; then each form scores that batch
("first": the public code has just filled all caches with other things), and then all
{run["rounds"]} batches one after the other, of which the median counts.
{100 * run["unchanged"]:.0f} % of the counterfactuals have the score of the sampled caption.

| one batch, k = 2 | ms | against public | first, ms | against public |
|---|---|---|---|---|
| public Python CIDEr-D | {times["public"]:,.0f} | | | |
{rows}

Building the tables takes {run["build_seconds"]:.0f} s, once: {run["ngrams"]:,} n-grams.
"""


def _choices(run: dict[str, Any]) -> str:
    numbers = list(run["by_choices"]["numba"])
    head = " | ".join(f"k = {k}" for k in numbers)
    rows = "\n".join(
        f"| {name} | " + " | ".join(f"{times[k]:.2f}" for k in numbers) + " | "
        f"{times['5'] / times['2']:.2f} |"
        for name, times in run["by_choices"].items()
    )
    line = "|---" * (len(numbers) + 2) + "|"
    return f"""## More alternatives

Milliseconds of a batch, the forms and the k in turns. Linear in k would be a ratio of 2.5 for k = 5
to k = 2.

| | {head} | 5 to 2 |
{line}
{rows}
"""


def _gpu(runs: list[dict[str, Any]]) -> str:
    heads = " | ".join(f"run {number}" for number in range(1, len(runs) + 1))
    rows = []
    for size in runs[0]["milliseconds"]:
        for way in runs[0]["milliseconds"][size]:
            values = " | ".join(f"{run['milliseconds'][size][way]:.3f}" for run in runs)
            rows.append(f"| {size.replace('x', ' × ')} | {way} | {values} |")
    table = "\n".join(rows)
    line = "|---" * (2 + len(runs)) + "|"
    return f"""## On a GPU

`{runs[0]["command"]}`
({runs[0]["machine"]}, torch {runs[0]["torch"]}), milliseconds from the call to its end, the median
of 200. Nothing waits for the host (`tests/learn`, mark `gpu`). Outside a graph the time is that of
starting {runs[0]["kernels"]} kernels, and depends more on the host than on the GPU: see both runs.

| images × sentences | | {heads} |
{line}
{table}
"""


def _floor(runs: list[dict[str, Any]]) -> str:
    graph, kernels = runs[0]["milliseconds"]["50x33"]["graph"], runs[0]["kernels"]
    return f"""## The floor

What a GPU must read for 50 × 33 sentences is less than a megabyte: 0.0002 ms at 4.8 TB/s. The rest
is kernels that wait for each other, {1000 * graph / kernels:.1f} µs each in a graph; compiled there
are fewer of them.
"""


def metrics() -> str:
    """metrics.md: BLEU, ROUGE-L and CIDEr against the public code."""
    run = run_file("metrics.json")
    public, ours = run["cpu_seconds_public"], run["cpu_seconds_ours"]
    rows = [(part, public[part], ours[part]) for part in public]
    rows.append(("**all**", sum(public.values()), sum(ours.values())))
    whole = run["whole_process"]
    rows.append(("whole process, files to table", min(whole["public"]), min(whole["ours"])))
    table = "\n".join(f"| {part} | {a:.2f} | {b:.2f} | {b / a:.3f} |" for part, a, b in rows)
    gaps = "\n".join(
        f"| {name} | {found['public_value']:.6f} | {found['largest_on_the_same_tokens']:.1e} |"
        for name, found in run["differences"].items()
    )
    return f"""# Metrics: against the public evaluation

Made by `make docs` from `metrics.json`, which is `{run["command"]}`
({run["machine"]}, Python {run["python"]}, numpy {run["numpy"]}): captions of COCO's val split,
{run["images"]:,} images with {run["references"]:,} references, as the public classes of
`pycocoevalcap` 1.2 score them and as `naic` does. Differences are the largest over the set and
every image; {run["sentences_tokenised_otherwise"]} sentences were tokenised otherwise.

| | public value | largest difference |
|---|---|---|
{gaps}

CPU seconds, Java's included, the best of {run["rounds"]} interleaved runs. The whole process is
`naic evaluate --fast` with its intervals and habits, against the public classes behind COCO's
reader.

| | public | naic | ratio |
|---|---|---|---|
{table}

{meteor_part(run_file("meteor.json"))}"""


def endings() -> str:
    """endings.md: how BAD_ENDINGS was chosen."""
    run = run_file("endings.json")
    humans = "\n".join(
        f"| {split} | {found['captions']:,} | {100 * found['bad_endings']:.2f} % "
        f"| {100 * found['repeats']:.2f} % |"
        for split, found in run["humans"].items()
    )
    words = "\n".join(
        f"| `{word}` | {row['uses']:,} | {row['last']:,} | {100 * row['share']:.3f} "
        f"| {'*' if word in run['chosen'] else ''} |"
        for word, row in run["words"].items()
    )
    return f"""# Bad endings: the calibration

Made by `make docs` from `endings.json`, which is `{run["command"]}`.
A function word is in `BAD_ENDINGS` if people use it at least {run["least_uses"]:,} times in COCO's
train and restval captions, and fewer than {100 * run["most_last"]:.0f} % of those uses end one.

| human captions | | with a bad ending | with a word twice in a row |
|---|---|---|---|
{humans}

Words marked * are in the list.

| word | uses | last | % last | |
|---|---|---|---|---|
{words}
"""


def light() -> str:
    """light.md: captions without torch."""
    names = ("install", "cpu", "choices", "quality", "write-kills", "web", "calibration")
    return str(light_page(*(run_file(f"light/{name}.json") for name in names)))


PAGES: dict[str, Callable[[], str]] = {
    "features.md": features,
    "rewards.md": rewards,
    "metrics.md": metrics,
    "endings.md": endings,
    "training.md": training,
    "cmal.md": cmal,
    "photos.md": photos,
    "light.md": light,
    CHART: lambda: calibration_chart(run_file("light/calibration.json")),
    "../../README.md": readme,
    **backbones_pages(),
    **speed_pages(),
    **finetune_pages(),
    **student_pages(),
    **systems_pages(),
    **house_pages(),
    **scale_pages(),
    **serving_pages(),
    **{
        f"{path.parent.name}.md": partial(ladder, path.parent.name)
        for path in sorted(FOLDER.glob("*/table1.json"))
    },
    **{
        f"{path.parent.name}/figures/gradient-variance.svg": partial(
            variance_figure, path.parent.name
        )
        for path in sorted(FOLDER.glob("*/gradient-variance.json"))
    },
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        target = FOLDER / name
        text = page()
        if "--check" not in sys.argv:
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/results/{name} does not match its run files: run `make docs`.")
