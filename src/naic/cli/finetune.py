"""`naic finetune CAPTIONS --out DIR`."""

import shlex
import sys
from collections.abc import Sequence
from functools import partial

from naic.cli.main import parse
from naic.cli.pack import print_graphs
from naic.cli.screen import print_problems, progress, teller
from naic.plugins import OPTION_WORDS
from naic.progress import Callbacks
from naic.runtime.graphs import precisions
from naic.tasks.finetune.plan import FinetuneOptions
from naic.tasks.finetune.report import Finetuned, HeldOutScore
from naic.tasks.finetune.run import FinetuneDryRun, dry_run, finetune

HELP = """Teach the model inside naic, or one of your own, to speak like your captions.

What all captions have in common, such as a fixed beginning or capitals, is kept as a style beside
the weights; the rest is learnt by CMAL, and new words inside the model's own sentences. Images of a
split called val are kept aside to judge by; without such a split, one image in ten is. DIR/best is
the tuned model, or the model as it was if that is no worse: naic caption --model DIR/best. A run
that was cut off goes on when the same command is given again. Exit code 3 means: done, but some
rows or images could not be used."""
OPTIONS = FinetuneOptions  # what the verb takes: shell completion finds it here

NO_BETTER = """naic finetune: on the images kept aside the tuned weights match your captions no
better than the model without them, which is what DIR/best is. More images, more captions of each,
or another --learning-rate may help; begin each in another --out."""
WORDS_SHOWN = 12
EXAMPLES = 5


def run(arguments: Sequence[str]) -> int:
    """Parse, work, report."""
    options = parse(FinetuneOptions, "finetune", HELP, arguments)
    say = partial(print, file=sys.stderr)
    callbacks = Callbacks(say, progress, teller("finetune"))
    if options.dry_run:
        return _print_dry_run(dry_run(options, callbacks))
    command = f"naic finetune {shlex.join([*arguments, *OPTION_WORDS])}"
    done = finetune(options, callbacks, command)
    code = _print_finetuned(done, options)
    if not precisions(options.out / "best"):
        print_graphs(options.out / "best")
    return code


def _print_dry_run(found: FinetuneDryRun) -> int:
    plan = found.plan
    how = "as its splits say" if plan.own_split else "at random: there is no split called val"
    print(f"model:     {found.model}")
    print(f"images:    {plan.learnt_from:,} to learn from, {plan.held_out:,} kept aside ({how})")
    if plan.left_out:
        print(f"left out:  {plan.left_out:,} images without captions, or of other splits")
    own = found.found
    if own.style is not None:
        _print_style(own.style.describe(), own.explained, None if found.steps else own.around)
    _print_words(plan.new_words, plan.unknown)
    if found.steps:
        print(f"training:  {plan.epochs} epochs, {found.steps:,} steps")
    else:
        print("training:  none: the model says the rest already")
    print(f"disk:      {found.gigabytes:.1f} GB at most; {found.free_gigabytes:.0f} GB are free")
    print("Nothing was written (--dry-run).")
    return print_problems(plan.problems, "report.json, once the run is made")


def _print_finetuned(done: Finetuned, options: FinetuneOptions) -> int:
    print(f"images:    {done.learnt_from:,} learnt from, {done.held_out:,} kept aside")
    if done.style:
        _print_style(done.style, done.explained, done.around if done.kept == "style" else None)
    learnt = done.kept == "weights"
    unknown = done.unknown if learnt else (*done.new_words, *done.unknown)
    _print_words(done.new_words if learnt else (), unknown)
    for word, instead in done.instead_of.items() if learnt else ():
        print(f"           {word}: in the place of {', '.join(instead) or 'nothing it said'}")
    for example in done.examples[:: max(1, len(done.examples) // EXAMPLES)][:EXAMPLES]:
        print(f"{example.id}\n  before: {example.before}\n  after:  {example.after}")
    print(f"before:    {_scores(done.before)}")
    print(f"after:     {_scores(done.after)}")
    print(f"result:    {done.verdict}")
    print(f"time:      {done.seconds / 60:.1f} minutes")
    print(f"model:     {options.out / 'best'}")
    if done.tuned is not None and done.kept != "weights":
        print(NO_BETTER, file=sys.stderr)
    return print_problems(done.problems, str(options.out / "report.json"))


def _print_style(style: str, explained: float, around: tuple[str, str] | None) -> None:
    """What was found, and what would do as well."""
    print(f"style:     {style}; with it the model says {explained:.0%} of your captions already")
    if around is not None:
        options = zip(("--prefix", "--suffix"), around, strict=True)
        said = " ".join(f"{name} {shlex.quote(text)}" for name, text in options if text)
        print(f"           naic caption {said} writes so too, without a model of your own")


def _print_words(new: Sequence[str], unknown: Sequence[str]) -> None:
    for title, words in (("new words:", new), ("unknown:", unknown)):
        if words:
            more = ", …" if len(words) > WORDS_SHOWN else ""
            print(f"{title:<10} {len(words):,}: {', '.join(words[:WORDS_SHOWN])}{more}")


def _scores(score: HeldOutScore) -> str:
    return f"CIDEr {100 * score.cider:.1f}, bad endings {score.bad_endings:.1%}"
