import pytest
import torch

from naic.backbones.efficientnet import Conv


@pytest.mark.gpu
def test_a_convolution_of_single_pixels_is_a_product() -> None:
    """Without gradients and in half precision it is computed as one."""
    torch.manual_seed(0)
    conv = Conv(16, 24, 1).cuda().half().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(2, 16, 5, 7, device="cuda").half().to(memory_format=torch.channels_last)
    with torch.no_grad():
        found = conv(x)
    assert found.is_contiguous(memory_format=torch.channels_last)
    expected = conv.float()(x.float())
    torch.testing.assert_close(found.float(), expected, atol=0.01, rtol=0.01)
