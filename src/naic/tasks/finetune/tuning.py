"""The work of `naic finetune` in its folder: style, new words, CMAL, and what of it is kept."""

import json
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from naic.data.features import FeatureStore
from naic.files import COMMAND, sweep, write_atomically, writing
from naic.progress import Callbacks
from naic.tasks.finetune import steps
from naic.tasks.finetune.choose import NOTHING, choose, new_words_said, verdict
from naic.tasks.finetune.judge import Judged, compare, judge
from naic.tasks.finetune.own_style import OwnStyle, find_own_style
from naic.tasks.finetune.plan import (
    HELD_OUT,
    TRAIN,
    FinetuneOptions,
    FinetunePlan,
    OwnCaptions,
    make_plan,
    share_out,
)
from naic.tasks.finetune.report import BeforeAfter, Finetuned, HeldOutScore, Kept
from naic.text.style import Style, parse_style, read_style
from naic.text.tokeniser import tokenise

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from pathlib import Path

    from naic.models.folder import LoadedModel


FAR = 0.2  # CIDEr: a model with less has next to nothing in common with the captions


def look_for_style(options: FinetuneOptions, folder: "Path", given: OwnCaptions) -> OwnStyle:
    """In the captions to learn from; those of photos kept aside are not looked at."""
    if not options.style:
        return OwnStyle()
    records, _ = share_out(given.whole.records, options)
    learnt = [record for record in records if record.split == TRAIN]
    return find_own_style(folder, options.device, learnt)


class Tuning:
    """One run in its folder; whatever an earlier part of it has made is taken as it is."""

    def __init__(
        self,
        options: FinetuneOptions,
        folder: "Path",
        loaded: "LoadedModel",
        given: OwnCaptions,
        callbacks: Callbacks,
        command: str,
    ) -> None:
        self.options, self.folder, self.loaded, self.given = options, folder, loaded, given
        self.callbacks, self.command = callbacks, command
        self.work = options.out / steps.WORK
        with writing(self.work):
            self.work.mkdir(exist_ok=True)
            sweep(self.work)
            if not (self.work / COMMAND).exists():
                write_atomically(self.work / COMMAND, f"{command}\n".encode())
            sweep(options.out)

    def run(self) -> Finetuned:
        """All of it."""
        options, loaded = self.options, self.loaded
        found = self._style()
        plan = make_plan(options, self.given, loaded.vocabulary, found.style)
        nothing_more = found.is_all and not plan.new_words
        store, problems = steps.make_features(options, self.folder, loaded, plan, self.callbacks)
        rows = steps.rows_of(store, HELD_OUT)
        raw, _ = share_out(self.given.whole.records, options)
        captions = {record.id: record.captions for record in raw}
        people = {store.records[row].id: captions[store.records[row].id] for row in rows}
        self.callbacks.say("before: what the model says of the photos kept aside")
        said = steps.say(loaded, store, rows, options.device)
        as_it_was = judge(_written(said, read_style(self.folder)), people)
        choices: list[tuple[Kept, Judged]] = [("as it was", as_it_was)]
        if found.style is not None:
            choices.append(("style", judge(_written(said, found.style), people)))
        instead: dict[str, tuple[str, ...]] = {}
        if not nothing_more:
            tuned, instead = self._tune(plan, store, rows, far=choices[-1][1].cider < FAR)
            choices.append(("weights", judge(_written(tuned, found.style), people)))
        kept, best = choose(choices, people, plan.new_words)
        style = read_style(self.folder) if kept == "as it was" else found.style
        if not (options.out / steps.BEST).exists():
            steps.write_best(options.out, self.folder, loaded, style, tuned=kept == "weights")
        gain = compare(best.captions, as_it_was.captions, people)
        new = new_words_said(best.captions, people, plan.new_words)
        told = verdict(kept, gain, len(people), new)
        if nothing_more and kept == "as it was":
            told = NOTHING
        return Finetuned(
            command=self.command,
            kept=kept,
            verdict=told,
            before=_scores(as_it_was),
            after=_scores(best),
            gain=gain,
            tuned=None if nothing_more else _scores(choices[-1][1]),
            style="" if found.style is None else found.style.describe(),
            explained=found.explained,
            around=found.around,
            learnt_from=sum(record.split == TRAIN for record in store.records),
            held_out=len(people),
            epochs=0 if nothing_more else plan.epochs,
            new_words=plan.new_words,
            instead_of=instead,
            unknown=plan.unknown,
            seconds=0.0,
            problems=(*plan.problems, *problems),
            examples=tuple(
                BeforeAfter(id_, as_it_was.captions[id_], text)
                for id_, text in best.captions.items()
            ),
        )

    def _style(self) -> OwnStyle:
        """What was found, now or by an earlier part of the run."""
        path = self.work / "style.json"
        if path.exists():
            kept = json.loads(path.read_bytes())
            style = None if kept["style"] is None else parse_style(kept["style"], str(path))
            around = None if kept["around"] is None else (kept["around"][0], kept["around"][1])
            return OwnStyle(style, kept["explained"], around)
        self.callbacks.say("style: what the model says of your photos, beside what you say")
        found = look_for_style(self.options, self.folder, self.given)
        own = None if found.style is None else found.style.as_json()
        content = {"style": own, "explained": found.explained, "around": found.around}
        write_atomically(path, json.dumps(content).encode())
        return found

    def _tune(
        self, plan: FinetunePlan, store: FeatureStore, rows: list[int], *, far: bool
    ) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
        """Train; gives what is said afterwards, and in whose place new words were learnt."""
        from naic.models.folder import load_model
        from naic.train.loop import train

        loaded, work, device = self.loaded, self.work, self.options.device
        instead: dict[str, tuple[str, ...]] = dict.fromkeys(plan.new_words, ())
        asked = [] if far else steps.rows_to_ask(store, plan.new_words)
        if asked:
            said = steps.say(loaded, store, asked, device)
            targets = work / steps.TARGETS
            instead = steps.write_targets(targets, store, said, plan.new_words, loaded.vocabulary)
        if not (work / steps.START).exists():
            steps.write_start(work / steps.START, loaded, store.index, instead)
        first = steps.First(plan.learnt_from, far=True) if far else steps.First(len(asked))
        xe, cmal = steps.make_stages(self.options, loaded, plan, work, first)
        for stage in filter(None, (xe, cmal)):
            what = f"{plan.learnt_from:,} photos" if far or stage is cmal else "the new words"
            self.callbacks.say(f"{stage.out.name}: {stage.run.epochs:g} epochs of {what}")
            train(stage, resume=True, command=self.command)
            if stage is xe and not (work / steps.LAST).exists():
                steps.write_last(stage.out, work / steps.LAST)
            # Nobody goes on from them.
            shutil.rmtree(stage.out / "checkpoints", ignore_errors=True)
        tuned = load_model(work / "cmal" / steps.BEST)
        return steps.say(tuned, store, rows, device), instead


def _written(said: Mapping[str, str], style: Style | None) -> dict[str, str]:
    """Sentences as people read them."""
    if style is None:
        return dict(said)
    return {id_: style.text(tokenise(text)) for id_, text in said.items()}


def _scores(judged: Judged) -> HeldOutScore:
    return HeldOutScore(judged.cider, judged.bad_endings)
