"""`naic pack MODEL --out DIR`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from naic.cli.main import SOME_SKIPPED, parse
from naic.runtime.graphs import precisions
from naic.tasks.beside import graphs_if_possible
from naic.tasks.options import PackOptions
from naic.tasks.pack import Packed, pack_model

HELP = """Make a trained model small, and give it a backbone, so that it can be shipped.

A model that learnt from features gets the backbone that made them; then every weight is kept in a
few bits. The packed model takes images and is loaded like any other. Keep MODEL: what is packed
cannot be packed anew with more bits, and is not what to train on. With --hub it is also put on the
model hub, where others load it by its name; exit code 3 means: packed, but not uploaded."""
OPTIONS = PackOptions  # what the verb takes: shell completion finds it here


def run(arguments: Sequence[str]) -> int:
    """Parse, work, report."""
    options = parse(PackOptions, "pack", HELP, arguments)
    if options.hub is None:
        return _pack(options)
    from naic.tasks.hub import check_hub, is_packed_already

    options.check()
    check_hub(options)
    if not options.dry_run and is_packed_already(options):
        print(f"model:    {options.out}, packed before")
        if not precisions(options.out):
            print_graphs(options.out)
        return _publish(options)
    return _pack(options) or (0 if options.dry_run else _publish(options))


def _pack(options: PackOptions) -> int:
    _print_packed(pack_model(options))
    if options.dry_run:
        print("Nothing was written (--dry-run).")
    else:
        print(f"model:    {options.out}")
        print_graphs(options.out)
    return 0


def _publish(options: PackOptions) -> int:
    """Give the card its metadata, and upload the folder where there is a token."""
    from naic.tasks.hub import add_metadata, upload, upload_hint
    from naic.tasks.hub_card import SCORES

    scores = "" if SCORES in add_metadata(options) else ", without scores: none are known"
    print(f"card:     with the hub's metadata{scores}")
    where = upload(options)
    if where is None:
        print(f"hub:      {upload_hint(options.out)}", file=sys.stderr)
        return SOME_SKIPPED
    print(f"hub:      {where}")
    return 0


def print_graphs(folder: Path) -> None:
    """Put graphs beside the weights in a folder that is whole without them, and tell of it."""
    print("graphs that take no PyTorch are made, which takes a minute or two")
    missing = graphs_if_possible(folder)
    print(f"graphs:   none: {missing}" if missing else "graphs:   beside the weights")


def _print_packed(done: Packed) -> None:
    for part in done.parts:
        print(
            f"{part.name + ':':<9} {part.weights:>11,} weights in {part.bytes:>11,} bytes, "
            f"off by {part.error:.2%}"
        )
    print(f"its backbone is {done.backbone}")
    print(f"size:     {done.bytes:,} bytes in all; the weights took {done.plain_bytes:,}")
