"""EfficientNet-Lite0/1/2: the small convolutional network that looks at the image.

Written here rather than imported, so that the default install needs neither a model hub nor
torchvision. It is for inference: the batch norms of the trained network are folded into the
convolutions when the weights are converted (`weights.py`), so every layer here is one
convolution with a bias, and ReLU6 where the original has it. There is no squeeze-and-excitation
in the Lite family.

The network looks at the image upside down. It was trained with TensorFlow's "SAME" padding,
which at stride 2 pads an even image more on the right and bottom; the padding of PyTorch's
convolutions amounts to more on the left and top. Turn the image and every kernel by 180 degrees
and the two are the same, so no layer has to pad by hand, which would take a seventh of the time.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Pixels 0..255 are brought to about -1..1 with these; the weights were trained so.
PIXEL_MEAN, PIXEL_STD = 127.0, 128.0
HALF = (torch.float16, torch.bfloat16)
STEM_CHANNELS, GRID_CHANNELS = 32, 1280  # the Lite family does not scale these two


# How much wider and deeper than Lite0 a network is.
VARIANTS = {
    "efficientnet-lite0": (1.0, 1.0),
    "efficientnet-lite1": (1.0, 1.1),
    "efficientnet-lite2": (1.1, 1.2),
}
# EfficientNet-B0's stages, which the Lite networks scale: runs of equal blocks, as repeats, kernel,
# stride (of the first block only), expansion and channels.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class Conv(nn.Conv2d):
    """A convolution that keeps the size (or halves it, at stride 2), then ReLU6 if `active`."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        *,
        active: bool = True,
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride, kernel // 2, groups=groups)
        self.active = active

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C', ceil(H / stride), ceil(W / stride))."""
        for_use = x.is_cuda and x.dtype in HALF and not torch.is_grad_enabled()
        x = self._product(x) if for_use and self.kernel_size == (1, 1) else super().forward(x)
        return F.relu6(x, inplace=True) if self.active else x

    def _product(self, x: Tensor) -> Tensor:
        """One pixel at a time is a matrix product, and on a GPU that adds its bias at no cost."""
        pixels = x.permute(0, 2, 3, 1)  # (B, H, W, C), the order in memory
        return F.linear(pixels, self.weight[:, :, 0, 0], self.bias).permute(0, 3, 1, 2)


class Block(nn.Module):
    """Inverted residual: expand by 1x1, filter each channel alone, project back by 1x1."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = Conv(inputs, inner, 1) if expansion > 1 else nn.Identity()
        self.filter = Conv(inner, inner, kernel, stride, groups=inner)
        self.project = Conv(inner, outputs, 1, active=False)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C', H / stride, W / stride)."""
        y = cast(Tensor, self.project(self.filter(self.expand(x))))
        return y.add_(x) if self.residual else y


class EfficientNetLite(nn.Module):
    """An image in, a grid of feature vectors out: 8x8 of 1280 numbers at 256 pixels.

    It is made with labels only so that the weights can be checked against ImageNet's.
    """

    def __init__(self, name: str, *, labels: bool = True) -> None:
        super().__init__()
        wider, deeper = VARIANTS[name]
        channels = STEM_CHANNELS
        blocks: list[nn.Module] = []
        for number, (repeats, kernel, stride, expansion, width) in enumerate(STAGES):
            outputs = _round_channels(width * wider)
            outermost = number in (0, len(STAGES) - 1)  # these two keep their depth
            for repeat in range(repeats if outermost else math.ceil(repeats * deeper)):
                own = stride if repeat == 0 else 1
                blocks.append(Block(channels, outputs, kernel, own, expansion))
                channels = outputs
        self.stem = Conv(3, STEM_CHANNELS, 3, stride=2)
        self.blocks = nn.Sequential(*blocks)
        self.head = Conv(channels, GRID_CHANNELS, 1)
        if labels:
            self.classifier = nn.Linear(GRID_CHANNELS, 1000)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3), 0 to 255 -> (B, R, 1280), R = ceil(H/32)·ceil(W/32), row by row."""
        x = pixels.flip(1, 2).to(self.stem.weight.dtype)  # (B, H, W, 3), turned by 180 degrees
        x = x.sub_(PIXEL_MEAN).div_(PIXEL_STD).permute(0, 3, 1, 2)  # (B, 3, H, W), channels last
        x = cast(Tensor, self.head(self.blocks(self.stem(x))))  # (B, 1280, h, w)
        return x.flatten(2).transpose(1, 2).flip(1)  # (B, h·w, 1280), turned back


def make_trainable(name: str) -> EfficientNetLite:
    """The network as a part of a captioner: without labels, and laid out as the pixels are."""
    network = EfficientNetLite(name, labels=False)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _round_channels(channels: float, divisor: int = 8) -> int:
    """The nearest multiple of 8, but never more than a tenth below what was asked."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * channels else rounded
