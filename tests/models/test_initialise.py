"""The student starts from the teacher, and the report tells what was not taken."""

import pytest
import torch

from naic.errors import CheckpointError
from naic.models.captioners import take_weights
from tests.models.small import small

EMBEDDING = "decoder.embedding.weight"


def test_a_student_takes_all_but_the_embedding() -> None:
    teacher, student = small(causal=True, seed=1), small(causal=False, seed=2)
    places = {name: p.data_ptr() for name, p in student.named_parameters()}
    report = take_weights(student, teacher.state_dict())
    assert set(report.taken) == {name for name, _ in student.named_parameters()}
    assert report.reset == ()
    assert report.unused == (EMBEDDING,)
    for name, parameter in student.named_parameters():
        assert torch.equal(parameter, teacher.get_parameter(name)), name
        assert parameter.data_ptr() == places[name]  # an optimiser may hold it already
        assert parameter.requires_grad
    count = len(report.taken)
    expected = f"{count} of {count} tensors taken\nnot used: {EMBEDDING}"
    assert report.describe() == expected


def test_what_a_teacher_lacks_is_named() -> None:
    student, teacher = small(causal=False, seed=1), small(causal=True, seed=2)
    before = teacher.decoder.embedding.weight.clone()
    report = take_weights(teacher, student.state_dict())
    assert report.reset == (f"{EMBEDDING}: the weights given have none",)
    assert report.unused == ()
    assert torch.equal(teacher.decoder.embedding.weight, before)
    assert f"not taken: {EMBEDDING}: the weights given have none" in report.describe()


def test_other_shapes_are_left_alone() -> None:
    model, other = small(causal=True, words=12), small(causal=True, words=13, seed=3)
    before = model.decoder.output.weight.clone()
    report = take_weights(model, other.state_dict())
    assert report.reset == (
        f"{EMBEDDING}: the one given is (13, 16), not (12, 16)",
        "decoder.output.weight: the one given is (13, 16), not (12, 16)",
        "decoder.output.bias: the one given is (13,), not (12,)",
    )
    assert report.unused == ()
    assert torch.equal(model.decoder.output.weight, before)
    assert torch.equal(model.encoder.project.weight, other.encoder.project.weight)


def test_another_kind_of_float_is_converted() -> None:
    model, other = small(causal=False), small(causal=False, seed=4, dtype=torch.float32)
    take_weights(model, other.state_dict())
    assert torch.equal(model.encoder.project.weight, other.encoder.project.weight.double())


@pytest.mark.parametrize(
    "weights", [{}, {"conv.weight": torch.ones(2)}, {"decoder.output.bias": torch.ones(3)}]
)
def test_nothing_fits(weights: dict[str, torch.Tensor]) -> None:
    with pytest.raises(CheckpointError, match=f"none of the {len(weights)} tensors"):
        take_weights(small(causal=False), weights)
