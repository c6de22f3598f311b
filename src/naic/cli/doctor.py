"""`naic doctor`."""

from collections.abc import Sequence
from dataclasses import asdict
from json import dumps

import tyro

from naic.cli.main import FAILED

HELP = """Say what is installed, what works, and what to do about the rest.

The model inside naic is loaded and shown a drawn image. Exit code 1 means that naic cannot
caption; what is merely missing, such as an extra, is no failure."""

MARKS = {"works": "ok", "missing": "-", "attention": "!", "problem": "BAD"}


def run(arguments: Sequence[str]) -> int:
    """Parse, examine, tell."""
    code: int = tyro.cli(_doctor, prog="naic doctor", description=HELP, args=list(arguments))
    return code


def _doctor(json: bool = False) -> int:
    """Examine and tell.

    Args:
        json: Print one JSON object, for programs and for reports of what is wrong.
    """
    from naic import __version__
    from naic.tasks.doctor import captions_work, examine

    findings = []
    for finding in examine():
        findings.append(finding)
        if not json:
            print(f"{MARKS[finding.state]:<4} {finding.name + ':':<15} {finding.what}", flush=True)
            if finding.todo:
                print(f"     {'':<15} {finding.todo}", flush=True)
    works = captions_work(findings)
    if json:
        rows = [asdict(finding) for finding in findings]
        print(dumps({"naic": __version__, "works": works, "findings": rows}, indent=1))
    else:
        print("naic can caption images." if works else "naic cannot caption images.")
    return 0 if works else FAILED


OPTIONS = _doctor  # what the verb takes: shell completion finds it here
