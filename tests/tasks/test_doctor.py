"""The doctor names what is missing, and does not die of it."""

import importlib.metadata
import os
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

from naic.errors import CheckpointError
from naic.runtime import captioner
from naic.tasks import doctor
from naic.tasks.doctor import EXTRAS, Finding, caption_something, captions_work, examine

ROOT = Path(__file__).parent.parent.parent


def found(name: str) -> Finding:
    return next(finding for finding in examine() if finding.name == name)


@pytest.fixture(autouse=True)
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captioning takes seconds: only the tests about it do it."""
    monkeypatch.setattr(doctor, "caption_something", lambda: iter(()))


def test_every_extra_of_the_package_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(EXTRAS) == set(project["optional-dependencies"]) - {"dev", "docs"}


def test_it_knows_what_the_package_asks_for() -> None:
    assert {"onnxruntime", "numpy", "pillow", "tyro"} <= {*doctor.requirements("")}
    assert "torch" not in doctor.requirements("")
    assert {"onnx", "torch"} <= {*doctor.requirements("onnx")}
    assert "onnx" not in doctor.requirements("")
    assert doctor.requirements("no such extra") == []


def test_a_missing_extra_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.metadata.version

    def without_numba(name: str) -> str:
        if name == "numba":
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without_numba)
    assert found("extra train") == Finding(
        "extra train",
        "missing",
        "not installed: numba",
        "For captions on a GPU, and naic prepare, train, distil, finetune, reproduce, pack: "
        "pip install 'naic[train]'",
    )
    assert found("packages").state == "works"


def test_a_missing_package_that_is_always_needed_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", nothing)
    finding = found("packages")
    assert finding.state == "problem"
    assert "onnxruntime" in finding.what
    assert finding.todo.startswith("Run: pip install ")


def test_a_copy_that_was_not_installed_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", unknown)
    findings = list(examine())
    unseen = [finding for finding in findings if "could not be looked at" in finding.what]
    assert len(unseen) == 1 + len(EXTRAS)
    assert captions_work(findings)


def test_an_old_python_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 1))
    assert found("versions").state == "attention"


def test_too_many_threads_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("naic.device.usable_cores", lambda: 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert found("processor").todo.endswith("export OMP_NUM_THREADS=1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))
    assert found("processor").state == "works"
    monkeypatch.setattr(os, "getloadavg", lambda: (9.0, 0.5, 0.5))
    assert "9.0 programs run at once" in found("processor").what


def test_little_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.free_memory() > 1 << 20
    monkeypatch.setattr(doctor, "free_memory", lambda: 1 << 29)
    assert found("memory") == Finding(
        "memory",
        "attention",
        "0.5 GiB free",
        "Close other programs, or give a smaller --batch to naic caption.",
    )


def test_a_card_that_torch_cannot_use_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
    assert found("graphics").state == "attention"
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    assert found("graphics").state == "missing"
    assert found("Java").state == "missing"
    assert "Only SPICE needs it." in found("Java").todo
    assert found("ExifTool").state == "missing"
    assert "Only naic caption --write exif needs it." in found("ExifTool").todo


def test_exiftool_is_asked_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "exiftool"
    program.write_text("#!/bin/sh\necho 12.34\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert found("ExifTool") == Finding("ExifTool", "works", f"version 12.34, {program}")


def test_folders_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "file"))
    assert found("cache").state == "attention"
    assert found("cache").todo == "Set NAIC_CACHE to a folder of yours."
    monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "new" / "cache"))
    assert found("cache").state == "works"
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("tmp*"))


def test_the_shipped_model_captions() -> None:
    (finding,) = caption_something()
    assert finding.name == "captioning"
    assert finding.state == "works"
    assert finding.what.startswith('the model says "')
    assert captions_work([finding])


def test_a_model_that_is_not_there_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> Path:
        raise CheckpointError("shipped", "this copy of naic has no model inside", "Get one.")

    monkeypatch.setattr(captioner, "shipped_model", gone)
    (finding,) = caption_something()
    assert finding == Finding(
        "captioning", "problem", "shipped: this copy of naic has no model inside", "Get one."
    )
    assert not captions_work([finding])


def test_any_other_failure_is_a_finding_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Path:
        raise RuntimeError("libgomp is gone\nand more")

    monkeypatch.setattr(captioner, "shipped_model", broken)
    (finding,) = caption_something()
    assert (finding.state, finding.what) == ("problem", "RuntimeError: libgomp is gone")
