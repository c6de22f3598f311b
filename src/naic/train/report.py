"""How good a run's captions are: during the run, and at its end, with the best weights."""

import json
import platform
import re
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from naic import __version__
from naic.decode.decoding import Decoding
from naic.device import device_name
from naic.files import CARD, WEIGHTS, remove_temporaries, write_atomically
from naic.models.folder import read_weights
from naic.resume import BEST, REPORT
from naic.train import checkpoint
from naic.train.card import CardScore, model_card
from naic.train.config import current, settings_toml
from naic.train.guard import Guard
from naic.train.inputs import Inputs
from naic.train.settings import Settings
from naic.train.setup import TrainingState
from naic.train.stages import stage_of
from naic.train.validate import Validation, Validator

CAPTIONS = "captions"


class Reporter:
    """Captions the validation images, keeps the best weights, writes what came of the run."""

    def __init__(self, training: TrainingState, command: str) -> None:
        inputs = training.inputs
        self.settings = inputs.settings
        self._training = training
        self._command = command
        self.data = inputs.sign()
        self._validator = Validator(
            inputs.store,
            inputs.validation,
            inputs.vocabulary,
            device=training.accelerator.device,
            batch=self.settings.validation.batch,
            rank=training.accelerator.process_index,
            world=training.accelerator.num_processes,
            own=training.own,
        )

    def validate(self, decoding: Decoding) -> Validation:
        """Caption the validation images with the weights as they are."""
        inputs, engine = self._training.inputs, self._training.engine
        with engine.autocast():
            return self._validator.validate(engine.plain, inputs.spec, decoding)

    def worth(self, found: Validation) -> float:
        """What decides which weights are the best: CIDEr, and rewards of one's own beside it."""
        own = self._training.own
        reward = stage_of(self.settings).reward
        if not own or reward is None:
            return found.cider
        total = sum(one.weight * found.own[one.name] for one in own)
        return reward(self.settings).cider * found.cider + total

    def keep_best(self, step: int, found: Validation) -> None:
        """Put the weights as they are into the run's `best` folder, with a card."""
        inputs = self._training.inputs
        card = self._card(self._scores(found, self.settings.validation.beam))
        checkpoint.keep_best(
            self.settings.out,
            self._training.engine.plain.state_dict(),
            inputs.model_settings,
            inputs.vocabulary,
            card,
            step,
            inputs.more_files,
        )

    def examples(self, found: Validation, count: int) -> list[str]:
        """A few captions, from all over the validation images."""
        captions = list(found.captions.values())
        return captions[:: max(1, len(captions) // count)][:count]

    def withdraw(self) -> None:
        """Remove the report of an earlier end: where one is, all else is as it says."""
        if self._training.accelerator.is_main_process:
            (self.settings.out / REPORT).unlink(missing_ok=True)

    def write(self, guard: Guard, seconds: float) -> dict[str, Any]:
        """Caption with the best weights in each way asked for; write the card and report.json."""
        accelerator, engine = self._training.accelerator, self._training.engine
        out = self.settings.out
        if accelerator.is_main_process:
            weights = read_weights(out / BEST / WEIGHTS)
            engine.plain.load_state_dict(weights)
        engine.share_weights()
        rows, scores = [], list[CardScore]()
        for beam in self.settings.validation.report:
            found = self.validate(Decoding(beam))
            rows.append({"beam": beam, **scores_of(found)})
            scores += self._scores(found, beam)
            if accelerator.is_main_process:
                self._write_captions(found, beam)
        text = json.dumps(self._report(guard, seconds, rows), indent=1)
        if accelerator.is_main_process:
            remove_temporaries(out, REPORT)  # a killed run's
            remove_temporaries(out / BEST, CARD)
            write_atomically(out / BEST / CARD, self._card(scores).encode())
            write_atomically(out / REPORT, f"{text}\n".encode())  # last: it says that all is done
        accelerator.wait_for_everyone()
        report: dict[str, Any] = json.loads(text)
        return report

    def _write_captions(self, found: Validation, beam: int) -> None:
        path = _captions(self.settings, beam)
        path.parent.mkdir(exist_ok=True)
        remove_temporaries(path.parent, "*")
        write_atomically(path, found.results())

    def _report(self, guard: Guard, seconds: float, rows: list[dict[str, Any]]) -> dict[str, Any]:
        inputs = self._training.inputs
        return {
            "stage": self.settings.stage,
            "captioner": self.settings.captioner,
            "command": self._command,
            "config": settings_toml(self.settings),
            "data": asdict(self.data),
            "validation_images": len(inputs.validation),
            "vocabulary": inputs.vocabulary.fingerprint,
            "parameters": self._parameters(),
            "best_step": guard.best_step,
            "steps": inputs.steps,
            "seconds": seconds,
            "device": device_name(self._training.accelerator.device),
            "processes": self._training.accelerator.num_processes,
            "versions": {
                "naic": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
            "scores": rows,
        }

    def _scores(self, found: Validation, beam: int) -> list[CardScore]:
        splits = ", ".join(self.settings.data.validation)
        decoding = Decoding(beam).describe()
        how = f"{splits}, {len(found.captions):,} images, {decoding}, df of these references"
        return [CardScore(name, value, how) for name, value in scores_of(found).items()]

    def _card(self, scores: Sequence[CardScore]) -> str:
        inputs = self._training.inputs
        return model_card(
            title=f"{self.settings.captioner} captioner, {self.settings.stage}",
            summary=f"An image captioner for features of {inputs.store.index['backbone']}.",
            command=self._command,
            config=settings_toml(self.settings),
            data=self.data,
            vocabulary=inputs.vocabulary,
            parameters=self._parameters(),
            scores=scores,
        )

    def _parameters(self) -> int:
        return sum(p.numel() for p in self._training.engine.plain.parameters())


def finished_report(accelerator: Accelerator, inputs: Inputs) -> dict[str, Any] | None:
    """The report of this very run, if it came to its end; all processes get that of process 0."""
    found: list[Any] = [_read_report(inputs) if accelerator.is_main_process else None]
    if accelerator.num_processes > 1:
        broadcast_object_list(found)
    return None if found[0] is None else dict(found[0])


def _read_report(inputs: Inputs) -> dict[str, Any] | None:
    settings = inputs.settings
    expected = {
        "data": asdict(inputs.sign()),
        "vocabulary": inputs.vocabulary.fingerprint,
        "validation_images": len(inputs.validation),
        "steps": inputs.steps,
    }
    try:
        report = json.loads((settings.out / REPORT).read_bytes())
    except (OSError, ValueError):  # then it is written again
        return None
    same = isinstance(report, dict) and json.loads(json.dumps(expected)).items() <= report.items()
    same = same and _same_settings(report.get("config"), settings)
    files = [_captions(settings, beam) for beam in settings.validation.report]
    files.append(settings.out / BEST / WEIGHTS)
    return report if same and all(path.is_file() for path in files) else None


def _same_settings(text: object, settings: Settings) -> bool:
    """Compared as content: an earlier naic laid out the same settings otherwise."""
    try:
        return current(tomllib.loads(str(text))) == tomllib.loads(settings_toml(settings))
    except ValueError:
        return False


def _captions(settings: Settings, beam: int) -> Path:
    splits = re.sub(r"[^\w.-]", "_", "-".join(settings.data.validation))  # a name, and no path
    return settings.out / CAPTIONS / f"{splits}-beam{beam}.json"


def scores_of(found: Validation) -> dict[str, float]:
    """The numbers of a validation, by name."""
    scores = {
        "cider": found.cider,
        "repeats": found.repeats,
        "bad_endings": found.bad_endings,
    }
    scores |= {f"reward_{name}": value for name, value in found.own.items()}
    return scores if found.facts is None else scores | {"facts": found.facts}
