"""Regions of drawn images without a trained network: patches of even colour.

The paper describes an image by detected regions. For images such as those of `data/shapes` a
region needs no detector: it is a connected patch whose colour hardly changes. Photographs have few
such patches, so this is not for them. Every sum is of whole numbers that float32 holds exactly,
so that no feature depends on the order of summing, on the threads, or on the rest of the batch.
"""

import hashlib

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VERSION = "naic blobs 1"  # other features need another version: stores are told apart by it
DIGEST = hashlib.sha256(VERSION.encode()).hexdigest()
REGIONS = 6  # the background and five more; a scene of shapes has at most three
SIDE = 128  # images are reduced to this: the arms of a small cross are six pixels wide
EVEN = 24  # colours of 0 to 255 that differ by less are one patch: grain and clouds reach 16
LEAST = 12  # a patch with a smaller core is a speck
REACH = 4  # how far a patch may lie from its core: tips are too thin to have one
THUMB = 8  # a patch's mask is shown in 8x8 cells
SPREAD = 6.0  # features run from -3 to 3, or from 0 to 6
STEPS = 6  # a colour, a place and an extent are also said by how near they are to each of six marks


class Blobs(nn.Module):
    """Even patches of an image, the largest first: in a drawn scene, that is the background.

    The features of a patch: whether there is one (1 or 0), its mean colour (3), centre (x, y),
    extent (width, height), share of the image, share of its own box that it fills, how far the
    others lie to its sides (4, see `_span`), how many others have its colour, colour, centre and
    extent once more in steps (42, see `_steps`), and its mask, cropped to the box and reduced to
    8x8 cells of -1 to 1. A slot without a patch is all zeros.
    """

    def forward(self, pixels: Tensor) -> Tensor:
        """uint8 (B, H, W, 3) -> (B, 6, 121)."""
        image = F.adaptive_avg_pool2d(pixels.permute(0, 3, 1, 2).float(), SIDE)  # (B, 3, S, S)
        image = image.round().contiguous()
        cores = _largest(_even(image))  # (B, R, S, S)
        sizes = cores.sum((2, 3), dtype=torch.float32)[..., None].clamp(min=1)  # (B, R, 1)
        flat = image.flatten(2)  # (B, 3, S·S)
        colours = torch.bmm(cores.flatten(2).float(), flat.transpose(1, 2)) / sizes  # (B, R, 3)
        masks = _grown(cores, flat, colours.round())
        return _describe(masks, colours)


def _even(image: Tensor) -> Tensor:
    """(B, S, S) which pixels differ little from all their neighbours.

    Comparing neighbours by twos would not do: along a tilted edge the mixed pixels lead in small
    steps from one colour to the other.
    """
    around = F.pad(image, (1, 1, 1, 1), mode="replicate").to(torch.uint8)  # small and quick
    high = low = around
    for dim in (2, 3):
        parts = [high.narrow(dim, shift, SIDE) for shift in range(3)]
        high = parts[0].maximum(parts[1]).maximum(parts[2])
        parts = [low.narrow(dim, shift, SIDE) for shift in range(3)]
        low = parts[0].minimum(parts[1]).minimum(parts[2])
    return (high - low).amax(1) < EVEN


def _largest(even: Tensor) -> Tensor:
    """(B, R, S, S) the largest connected patches of the even pixels, by falling size.

    Pixels are gathered to runs along the rows first: there are a hundred times fewer of them.
    """
    count, device = len(even), even.device
    starts = even & ~F.pad(even, (1, 0))[..., :-1]
    runs = starts.flatten().cumsum(0).reshape(even.shape) * even  # from 1; 0 where not even
    # Two runs touch first where one of them starts: the pixels after that say nothing new.
    touching = even[:, :-1] & even[:, 1:] & (starts[:, :-1] | starts[:, 1:])
    lengths = runs.flatten().bincount(minlength=1)
    roots = _joined(runs[:, :-1][touching], runs[:, 1:][touching], len(lengths))
    sizes = torch.zeros_like(lengths).index_add_(0, roots, lengths)

    patches = (sizes >= LEAST).nonzero().flatten()
    patches = patches[patches > 0]  # run 0 is all that is not even
    image = torch.zeros_like(lengths)
    image[runs.flatten()] = torch.arange(count, device=device).repeat_interleave(SIDE * SIDE)
    # Sorted by image, then size; the sort is stable, so the upper one of two equals comes first.
    order = (image[patches] * SIDE * SIDE * 2 - sizes[patches]).argsort(stable=True)
    patches = patches[order]
    owners = image[patches]
    first = torch.searchsorted(owners, owners)
    ranks = torch.arange(len(patches), device=device) - first
    slots = torch.full_like(lengths, REGIONS)
    slots[patches] = ranks.clamp(max=REGIONS)
    slot = slots[roots][runs].to(torch.uint8)  # (B, S, S)
    return slot[:, None] == torch.arange(REGIONS, dtype=torch.uint8, device=device)[:, None, None]


def _joined(one: Tensor, other: Tensor, count: int) -> Tensor:
    """(count,) for each run the first of all runs that it is connected with."""
    roots = torch.arange(count, device=one.device)
    while True:
        low = roots.clone()
        # The root of a run is told too, not only the run: the way to the first one halves.
        for a, b in ((one, other), (other, one)):
            low.scatter_reduce_(0, a, roots[b], "amin")
            low.scatter_reduce_(0, roots[a], roots[b], "amin")
        low = low[low]
        if torch.equal(low, roots):
            return roots
        roots = low


def _grown(cores: Tensor, flat: Tensor, colours: Tensor) -> Tensor:
    """(B, R, S, S) float masks: pixels near several cores go to the one most like them."""
    near = cores.clone()
    for dim in (2, 3):
        for _ in range(REACH):
            before = near.clone()
            near.narrow(dim, 1, SIDE - 1).logical_or_(before.narrow(dim, 0, SIDE - 1))
            near.narrow(dim, 0, SIDE - 1).logical_or_(before.narrow(dim, 1, SIDE - 1))
    # |pixel - colour|², less the |pixel|² that all have in common.
    unlike = torch.baddbmm(colours.square().sum(2, keepdim=True), colours, flat, alpha=-2)
    unlike = unlike.reshape(near.shape).masked_fill(~near, torch.inf)
    return ((unlike == unlike.amin(1, keepdim=True)) & near).float()


def _describe(masks: Tensor, colours: Tensor) -> Tensor:
    """Masks (B, R, S, S) and colours (B, R, 3) to features (B, R, F)."""
    areas = masks.sum((2, 3))  # (B, R)
    left, width, across = _bins(masks.amax(2))
    top, height, down = _bins(masks.amax(3))
    cells = down @ masks @ across.transpose(2, 3)  # (B, R, T, T), in units of a pixel
    box = (width * height).clamp(min=1)
    thumbs = 2 * cells / (box / THUMB**2)[..., None, None] - 1
    present = (areas > 0).float()
    x, y = left + width / 2, top + height / 2
    plain = torch.cat((colours / 255, torch.stack((x, y), dim=2) / SIDE), dim=2) - 0.5
    extent = torch.stack((width, height), dim=2) / SIDE
    shares = torch.stack((areas / SIDE**2, areas / box), dim=2)
    others = _others(present)
    span = torch.cat((_span(x, others), _span(y, others)), dim=2) / SIDE
    same = (colours[:, :, None] - colours[:, None]).abs().amax(3) < EVEN  # (B, R, R)
    # A model that looks at everything at once is bad at counting; captions say "two", "three".
    alike = (same & others).sum(2, keepdim=True).clamp(max=2) / 2
    parts = (
        present[..., None],
        plain * SPREAD,
        extent * SPREAD,
        shares * SPREAD,
        span * SPREAD,
        alike * SPREAD,
        _steps(plain + 0.5),
        _steps(extent.clamp(max=0.5) * 2),  # only a background is wider than half of the image
        thumbs.flatten(2),
    )
    return torch.cat(parts, dim=2) * present[..., None]


def _steps(values: Tensor) -> Tensor:
    """(B, R, n) numbers from 0 to 1 to (B, R, n·STEPS): 3 at a mark, falling to 0 at the next ones.

    Words such as "orange" and "small" mean a stretch of such a number, which is easier to learn
    from steps than from the number alone.
    """
    marks = torch.linspace(0, 1, STEPS, device=values.device)
    gaps = (values[..., None] - marks).abs() * (STEPS - 1)
    return ((1 - gaps).clamp(min=0) * (SPREAD / 2)).flatten(2)


def _others(present: Tensor) -> Tensor:
    """(B, R, R) which patches are others to a patch.

    The largest is one to no patch: it is what the others stand on.
    """
    others = (present > 0)[:, None] & ~torch.eye(REGIONS, dtype=torch.bool, device=present.device)
    others[:, :, 0] = False
    return others


def _span(centre: Tensor, others: Tensor) -> Tensor:
    """(B, R, 2) from each patch the least and the greatest way to the other ones; 0 without any.

    Captions say "left of" and "between". A model can find that out from the centres, but needs
    far more scenes for it than for colours and shapes. A quarter of the image is as good as more,
    so it counts as half and is the most.
    """
    ways = ((centre[:, None, :] - centre[:, :, None]) * 2).clamp(-SIDE / 2, SIDE / 2)
    least = ways.masked_fill(~others, torch.inf).amin(2)
    most = ways.masked_fill(~others, -torch.inf).amax(2)
    return torch.stack((least, most), dim=2).masked_fill(~others.any(2, keepdim=True), 0)


def _bins(line: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where a mask's shadow (..., S) begins, how long it is, and its pixels' share in 8 bins.

    The bins (..., T, S) divide the length evenly; their edges are eighths of a pixel.
    """
    places = torch.arange(SIDE, device=line.device, dtype=line.dtype)
    inside = line > 0
    end = torch.where(inside, places + 1, 0).amax(-1)
    start = torch.where(inside, places, SIDE).amin(-1).minimum(end)
    length = end - start
    step = (length / THUMB)[..., None]
    edges = start[..., None] + step * torch.arange(THUMB, device=line.device)  # (..., T)
    high = torch.minimum((edges + step)[..., None], places + 1)
    low = torch.maximum(edges[..., None], places)
    return start, length, (high - low).clamp(min=0)
