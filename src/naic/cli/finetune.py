"""`naic finetune CAPTIONS --out DIR`."""

import shlex
import sys
from collections.abc import Sequence
from functools import partial

from naic.cli.main import parse
from naic.cli.pack import print_graphs
from naic.cli.screen import print_problems, progress, teller
from naic.progress import Callbacks
from naic.runtime.graphs import precisions
from naic.tasks.finetune.plan import FinetuneOptions
from naic.tasks.finetune.run import Finetuned, FinetuneDryRun, HeldOutScore, dry_run, finetune

HELP = """Teach the model inside naic, or one of your own, to speak like your captions.

Its backbone stays as it is; what speaks is trained by cross-entropy, then by CMAL. Images of a
split called val are held out to judge by; without such a split, one image in ten is. DIR/best is
the tuned model: naic caption --model DIR/best. A run that was cut off goes on when the same command
is given again. Exit code 3 means: done, but some rows or images could not be used."""
OPTIONS = FinetuneOptions  # what the verb takes: shell completion finds it here

WORSE = """naic finetune: on the images held out, the tuned model has a lower CIDEr than before: its
captions match the human references less well. It may still have learnt your style: report.json has
both captions of each of these images. More images, more captions of each, or a lower
--learning-rate may help; begin each in another --out."""
WORDS_SHOWN = 12
EXAMPLES = 5


def run(arguments: Sequence[str]) -> int:
    """Parse, work, report."""
    options = parse(FinetuneOptions, "finetune", HELP, arguments)
    say = partial(print, file=sys.stderr)
    callbacks = Callbacks(say, progress, teller("finetune"))
    if options.dry_run:
        return _print_dry_run(dry_run(options, callbacks))
    done = finetune(options, callbacks, f"naic finetune {shlex.join(arguments)}")
    code = _print_finetuned(done, options)
    if not precisions(options.out / "best"):
        print_graphs(options.out / "best")
    return code


def _print_dry_run(found: FinetuneDryRun) -> int:
    plan = found.plan
    how = "as its splits say" if plan.own_split else "at random: there is no split called val"
    print(f"model:     {found.model}")
    print(f"images:    {plan.learnt_from:,} to learn from, {plan.held_out:,} held out ({how})")
    if plan.left_out:
        print(f"left out:  {plan.left_out:,} images without captions, or of other splits")
    _print_words(plan.new_words, plan.unknown)
    print(f"training:  {plan.epochs} epochs by XE, {plan.epochs} by CMAL; {found.steps:,} steps")
    print(f"disk:      {found.gigabytes:.1f} GB at most; {found.free_gigabytes:.0f} GB are free")
    print("Nothing was written (--dry-run).")
    return print_problems(plan.problems, "report.json, once the run is made")


def _print_finetuned(done: Finetuned, options: FinetuneOptions) -> int:
    print(f"images:    {done.learnt_from:,} learnt from, {done.held_out:,} held out")
    _print_words(done.new_words, done.unknown)
    for example in done.examples[:: max(1, len(done.examples) // EXAMPLES)][:EXAMPLES]:
        print(f"{example.id}\n  before: {example.before}\n  after:  {example.after}")
    print(f"before:    {_scores(done.before)}")
    print(f"after:     {_scores(done.after)}")
    print(f"time:      {done.seconds / 60:.1f} minutes")
    print(f"model:     {options.out / 'best'}")
    if done.after.cider < done.before.cider:
        print(WORSE, file=sys.stderr)
    return print_problems(done.problems, str(options.out / "report.json"))


def _print_words(new: Sequence[str], unknown: Sequence[str]) -> None:
    for title, words in (("new words:", new), ("unknown:", unknown)):
        if words:
            more = ", …" if len(words) > WORDS_SHOWN else ""
            print(f"{title:<10} {len(words):,}: {', '.join(words[:WORDS_SHOWN])}{more}")


def _scores(score: HeldOutScore) -> str:
    return (
        f"CIDEr {100 * score.cider:.1f}, bad endings {score.bad_endings:.1%} on the images held out"
    )
