"""Comparing tensors by name."""

from collections.abc import Mapping

import torch
from torch import Tensor


def assert_same(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        assert torch.equal(found[name], tensor)
