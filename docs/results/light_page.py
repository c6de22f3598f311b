"""light.md: captions without torch, on processors, in files, in a browser; from its run files."""

from typing import Any

from light_calibration import calibration_part  # type: ignore[import-not-found]

Run = dict[str, Any]
MOST_BYTES, MOST_IMPORT = 300e6, 0.3  # what was asked for of an installation without torch
ONE, MANY = 2.5, 1.5  # times eager's speed, asked for of int8: one image, a folder
WHOLE = ("photos_whole", "own_texts_intact")
RESTORED = ("xmp_restored_byte_for_byte", "photos_restored_field_for_field")
ENOUGH = 95  # photos of 100 that the page is to caption as naic does
EAGER, FLOAT32, INT8 = "eager:float32", "onnx:float32", "onnx:int8"
FIRST = (
    "for the first time"  # of an import: as long as any other, since pip compiles what it brings
)
RUNTIMES = {EAGER: "PyTorch, eager, float32", FLOAT32: "ONNX Runtime, float32"}
RUNTIMES |= {INT8: "ONNX Runtime, int8 (the default)"}


def light_page(
    install: Run, cpu: Run, choices: Run, quality: Run, kills: Run, web: Run, sure: Run
) -> str:
    """The whole page."""
    parts = [
        _head(),
        _asked(install, cpu, quality, kills, web, sure),
        _install(install),
        _speed(cpu),
        _choices(choices),
        _quality(cpu, quality),
        calibration_part(sure),
        _kills(kills),
        _web(web),
    ]
    return "\n".join(parts)


def _head() -> str:
    return """# Light: captions without PyTorch

Made by `make docs` from the files in `light`; each part names the command that made its file. What
is behind it: decisions [036](../decisions/036-light.md) (graphs beside weights),
[037](../decisions/037-int8.md) (int8), [030](../decisions/030-confidence.md) (confidence),
[032](../decisions/032-captions-in-metadata.md) (metadata) and
[034](../decisions/034-a-page-of-its-own.md) (the page).
"""


def _asked(install: Run, cpu: Run, quality: Run, kills: Run, web: Run, sure: Run) -> str:
    own = install["rows"]["without torch"]
    one, many = (_faster(cpu[part]["rows"])[INT8] for part in ("one image", "folder"))
    exact = _row(cpu["folder"]["rows"], FLOAT32)["equal captions"]
    value, low, high = quality["rows"]["int8"]["difference"]["CIDEr"]
    errors = [half["after"]["ece"] for half in sure["captions"]["halves"].values()]
    whole = all(kills[name] for name in WHOLE)
    restored = all(kills[name] for name in RESTORED)
    size, load = own["installed, bytes"], own["import naic, s"]
    rows = [
        (
            f"installed without PyTorch: at most {MOST_BYTES / 1e6:.0f} MB",
            _mb(size),
            size <= MOST_BYTES,
        ),
        (f"import: at most {MOST_IMPORT} s", f"{load:.3f} s", load <= MOST_IMPORT),
        (f"int8, one image: {ONE} times as fast as eager", f"{one:.2f}", one >= ONE),
        (f"int8, a folder: {MANY} times as fast as eager", f"{many:.2f}", many >= MANY),
        (
            f"float32: words equal to PyTorch's on {cpu['folder']['images']:,} images of val",
            f"{100 * exact:.1f} % of the captions",
            exact == 1,
        ),
        (
            "the default keeps CIDEr on all of val: its paired interval holds zero",
            f"{value:+.2f} ({low:+.2f} to {high:+.2f})",
            low <= 0 <= high,
        ),
        (
            "expected calibration error on the other half: at most 0.05",
            " and ".join(f"{error:.3f}" for error in errors),
            max(errors) <= 0.05,
        ),
        (f"{len(kills['kills'])} kills: all photos and human texts whole", _yes(whole), whole),
        ("after them --undo restores all files", _yes(restored), restored),
        (
            f"the page: the words of naic for {ENOUGH} of 100 JPEGs",
            f"{web['jpeg']['equal']} of {web['jpeg']['photos']}",
            100 * web["jpeg"]["equal"] >= ENOUGH * web["jpeg"]["photos"],
        ),
        (
            "the page: the same for equal pixels",
            f"{web['png']['equal']} of {web['png']['photos']}",
            web["png"]["equal"] == web["png"]["photos"],
        ),
    ]
    table = "\n".join(
        f"| {what} | {found} | {'yes' if held else '**no**'} |" for what, found, held in rows
    )
    return f"""## What was asked for

| | found | |
|---|---|---|
{table}
"""


def _install(run: Run) -> str:
    names = list(run["rows"])
    what = dict.fromkeys(key for name in names for key in run["rows"][name] if FIRST not in key)
    rows = "\n".join(
        f"| {key.removesuffix(', s').removesuffix(', bytes')} | "
        + " | ".join(_cell(key, run["rows"][name].get(key)) for name in names)
        + " |"
        for key in what
    )
    return f"""## From an empty environment to the first caption

`python benchmarks/light_install.py dist/naic-*.whl --photo photo.jpg` ({_machine(run)}; the wheel
has {_mb(run["wheel, bytes"])}):

| | {" | ".join(names)} |
|---|{"---|" * len(names)}
{rows}

Installed is what the empty environment did not have. Imports are beyond what Python itself takes to
start. The first caption unpacks the weights into the cache. Captions are whole
commands, from start to end; memory is the most that one held, the mapped file of weights included.
"""


def _speed(run: Run) -> str:
    one, many = run["one image"], run["folder"]
    rows = "\n".join(
        f"| {RUNTIMES.get(row['runtime'], row['runtime'])} | {row['median ms']:.0f} "
        f"| {row['least ms']:.0f} | {row['times faster']:.2f} "
        f"| {_in_folder(many, row['runtime'])} |"
        for row in one["rows"]
    )
    return f"""## Speed on two cores

`python -m benchmarks.cpu_runtimes` ({_machine(run)}): one image from pixels to
words, {one["rounds"]} turns; a folder of {many["images"]:,} JPEGs of COCO's `val`, files and all,
in turns of {many["piece"]} images.

| | one image, ms | least | times eager's | images/s in a folder | times eager's |
|---|---|---|---|---|---|
{rows}

int8 gives each core images of its own, with one thread each; of one image alone both cores share
the work. BLIP-base is as its users run it, with random weights, greedily, from ready pixels,
writing 11 words.
"""


def _choices(run: Run) -> str:
    rows = "\n".join(
        f"| {precision}, {what} | {name} | {value:.1f} |"
        for precision, found in run["speeds"].items()
        for what, ways in found.items()
        for name, value in ways.items()
    )
    memory = "\n".join(f"| {name} | {_mb(size)} |" for name, size in run["memory"].items())
    return f"""## Threads, batches and memory

`python -m benchmarks.cpu_choices` ({_machine(run)}), all ways in turns. naic takes all cores for
one image, in int8 a core for each of several, and in float32 all cores for a batch:

| | way | |
|---|---|---|
{rows}

The most memory of `naic caption` on {run["folder"]} photos, with a session for one image and one
for several:

| | |
|---|---|
{memory}
"""


def _in_folder(run: Run, name: str) -> str:
    found = [row for row in run["rows"] if row["runtime"] == name]
    return f"{found[0]['a second']:.1f} | {found[0]['times faster']:.2f}" if found else "– | –"


def _quality(cpu: Run, run: Run) -> str:
    rows = "\n".join(
        f"| {name} | {row['images']:,} | {100 * row['equal'] / row['images']:.1f} % "
        f"| {row['scores']['CIDEr']:.1f} | {_gap(row, 'CIDEr')} | {row['scores']['Bleu_4']:.1f} "
        f"| {_gap(row, 'Bleu_4')} | {row['words']} |"
        for name, row in run["rows"].items()
    )
    equal = "\n".join(
        f"| {RUNTIMES[row['runtime']]} | {100 * row['equal captions']:.1f} % |"
        for row in cpu["folder"]["rows"]
        if row["runtime"] != EAGER
    )
    return f"""## What they say

`python benchmarks/cpu_quality.py` on all of COCO's `{run["split"]}`, captions as `naic caption`
gives them; differences from {run["first"]} with their paired 95 % intervals over the images:

| | images | equal captions | CIDEr | difference | B4 | difference | words |
|---|---|---|---|---|---|---|---|
{rows}

Captions that are PyTorch's word for word, of the folder above:

| | equal captions |
|---|---|
{equal}
"""


def _kills(run: Run) -> str:
    kinds: dict[tuple[str, str], dict[str, int]] = {}
    for kill in run["kills"]:
        found = kinds.setdefault((kill["kind"], kill["doing"]), {})
        found[kill["hit"]] = found.get(kill["hit"], 0) + 1
    rows = "\n".join(
        f"| {kind}, {doing} | {sum(hits.values())} | "
        + ", ".join(f"{hit}: {count}" for hit, count in sorted(hits.items()))
        + " |"
        for (kind, doing), hits in kinds.items()
    )
    return f"""## Kills while captions are written into files

`{run["command"]}`: {run["photos"]} photos, part of them with texts of their own; the command was
killed with SIGKILL {len(run["kills"])} times and given again. After each kill every photo decoded
to its pixels ({_yes(run["photos_whole"])}) and every human text was there
({_yes(run["own_texts_intact"])}); after the last `--undo` all XMP files were what they had been
byte for byte ({_yes(run["xmp_restored_byte_for_byte"])}), and all photos pixel for pixel and field
for field ({_yes(run["photos_restored_field_for_field"])}).

| | kills | what they hit |
|---|---|---|
{rows}
"""


def _web(run: Run) -> str:
    kinds = {
        "jpeg": "JPEG files as they are",
        "png": "PNG files: equal pixels on both sides",
        "large": "JPEG files of 12 megapixels",
    }
    rows = "\n".join(
        f"| {what} | {run[kind]['photos']} | {run[kind]['equal']} "
        f"| {run[kind]['seconds_each']:.1f} | {run[kind]['outside_requests']} |"
        for kind, what in kinds.items()
    )
    return f"""## In a browser

`{run["command"]}`: the page of `naic export --web` in {run["chromium"]} with {run["runtime"]},
one thread, its graph of {_mb(run["graph_bytes"])}, against {run["against"]}:

| photos of `val` | photos | equal captions | seconds each | requests to elsewhere |
|---|---|---|---|---|
{rows}

Seconds were taken while other programs ran, and are told for their order of size alone.
"""


def _gap(row: Run, name: str) -> str:
    value, low, high = row["difference"][name]
    return "" if not (value or low or high) else f"{value:+.2f} ({low:+.2f} to {high:+.2f})"


def _faster(rows: list[Run]) -> dict[str, float]:
    return {row["runtime"]: row["times faster"] for row in rows}


def _row(rows: list[Run], name: str) -> Run:
    return next(row for row in rows if row["runtime"] == name)


def _machine(run: Run) -> str:
    found = run["machine"]
    return f"{found['processor']}, {found['cores']} cores, Python {found['python']}"


def _mb(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


def _yes(held: bool) -> str:
    return "yes" if held else "no"


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "–"
    return _mb(value) if key.endswith("bytes") else f"{value:.2f} s"
