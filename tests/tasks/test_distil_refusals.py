"""What `naic distil` will not do."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torch import Tensor

from naic.data.features import FeatureStore
from naic.errors import CheckpointError, ConfigError, DataError, NaicError, StoreError
from naic.models.folder import read_weights, write_weights
from naic.tasks.options import DistilOptions
from tests.runtime.small import make_model
from tests.tasks.teachers import distil_options, make_home, make_teacher, run
from tests.train.runs import on_one_thread


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with on_one_thread():
        yield make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def options(home: Path, tmp_path: Path) -> DistilOptions:
    return distil_options(home, tmp_path / "out")


WRONG: list[tuple[dict[str, Any], type[NaicError], str]] = [
    ({"features": ()}, ConfigError, "one of the two is needed"),
    ({"images": (Path("images"),)}, ConfigError, "one of the two is needed"),
    ({"beam": 0}, ConfigError, "--beam: 0 is not between 1 and 100"),
    ({"keep": 4}, ConfigError, "--keep: 4 of the 3 sentences"),
    ({"keep": 0}, ConfigError, "--keep: 0 of the 3 sentences"),
    ({"batch": 0}, ConfigError, "--batch: 0 is below 1"),
    ({"part": "0/2"}, ConfigError, "'0/2' is no part. Write 1/4"),
    ({"part": "3/2"}, ConfigError, "'3/2' is no part"),
    ({"part": "half"}, ConfigError, "'half' is no part"),
    ({"precision": "bfloat16"}, ConfigError, "bfloat16 is for a GPU, and this is cpu"),
    ({"splits": ("trian",)}, ConfigError, "there is no split 'trian'"),
    ({"model": Path("nowhere")}, CheckpointError, "is no model folder"),
    ({"features": (Path("nowhere"),)}, StoreError, "there is no such folder"),
]


@pytest.mark.parametrize(("changes", "error", "why"), WRONG)
def test_what_cannot_be_is_refused(
    changes: dict[str, Any], error: type[NaicError], why: str, options: DistilOptions
) -> None:
    with pytest.raises(error) as found:
        run(replace(options, **changes))
    assert why in str(found.value)


def test_a_student_is_no_teacher(options: DistilOptions, home: Path, tmp_path: Path) -> None:
    make_teacher(tmp_path / "student", FeatureStore(home / "store"), captioner="parallel")
    with pytest.raises(ConfigError, match="a parallel captioner cannot search for sentences"):
        run(replace(options, model=tmp_path / "student"))
    assert not options.out.exists()


def test_features_of_other_backbone_by_the_same_name_are_refused(
    options: DistilOptions, home: Path, tmp_path: Path
) -> None:
    shutil.copytree(home / "store", tmp_path / "store")
    path = tmp_path / "store" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"weights": "package"}))
    for digest in ("package", "tuned"):
        make_teacher(tmp_path / digest, FeatureStore(tmp_path / "store"), digest=digest)
    here = replace(options, features=(tmp_path / "store",))
    run(replace(here, model=tmp_path / "package"))
    with pytest.raises(StoreError, match="learnt from b with other weights"):
        run(replace(here, model=tmp_path / "tuned", out=tmp_path / "other"))


@pytest.mark.parametrize(("key", "value"), [("backbone", "c"), ("pixels", 9)])
def test_features_it_has_not_learnt_are_refused(
    key: str, value: object, options: DistilOptions, tmp_path: Path
) -> None:
    shutil.copytree(options.features[0], tmp_path / "other")
    path = tmp_path / "other" / "index.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {key: value}))
    with pytest.raises(StoreError, match=r"the features are .* and it reads 9 numbers from b at 8"):
        run(replace(options, features=(tmp_path / "other",)))


def test_an_image_in_two_stores_is_refused(options: DistilOptions) -> None:
    with pytest.raises(DataError, match="the image '0' is in 2 of the stores"):
        run(replace(options, features=options.features * 2))


def test_another_teacher_is_refused(options: DistilOptions, home: Path, tmp_path: Path) -> None:
    run(options)
    make_teacher(tmp_path / "other", FeatureStore(home / "store"), seed=1)
    with pytest.raises(ConfigError, match="begun with another teacher"):
        run(replace(options, model=tmp_path / "other"))


def test_a_teacher_of_no_numbers_is_refused(options: DistilOptions, tmp_path: Path) -> None:
    shutil.copytree(options.model, tmp_path / "broken")
    path = tmp_path / "broken" / "model.safetensors"
    weights: dict[str, Tensor] = {n: w * float("nan") for n, w in read_weights(path).items()}
    path.unlink()
    write_weights(path, weights)
    with pytest.raises(CheckpointError, match="its weights are no numbers"):
        run(replace(options, model=tmp_path / "broken"))


def test_a_folder_of_something_else_is_left_alone(options: DistilOptions) -> None:
    options.out.mkdir()
    (options.out / "thesis.tex").write_text("years of work")
    with pytest.raises(StoreError, match=r"is not empty \(.*\) and holds no pseudo-caption store"):
        run(options)
    with pytest.raises(StoreError, match=r"is not empty \(.*\) and holds no pseudo-caption store"):
        run(replace(options, out=options.features[0]))


def test_images_for_a_teacher_with_other_backbone_are_not_even_looked_at(tmp_path: Path) -> None:
    """Its features came from trained backbone, which no package has."""
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 40)).save(tmp_path / "photos" / "a.png")
    model = make_model(tmp_path / "teacher", "causal", digest="0" * 64)
    options = DistilOptions(model, tmp_path / "out", images=(tmp_path / "photos",), device="cpu")
    with pytest.raises(StoreError, match=r"with weights of its own.*--features"):
        run(options)
    assert not (tmp_path / "out" / "features").exists()
