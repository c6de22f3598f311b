"""What makes a model fast without changing what it learns."""

from torch import nn

from naic.backbones.inside import PREFIX


def compile_layers(model: nn.Module) -> None:
    """Compile what repeats.

    Layers that stand in a list are alike: they are compiled one by one, and all but the first
    come from the compiler's cache. That takes seconds where the whole model takes minutes. A
    backbone without such a list, whose layers have a shape each, is compiled as a whole.
    """
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            for layer in module:
                if not _has_list(layer):  # networks that are joined have lists of their own
                    layer.compile()
    for name, module in model.named_children():
        if f"{name}." == PREFIX and not _has_list(module):
            module.compile()


def _has_list(module: nn.Module) -> bool:
    return any(isinstance(part, nn.ModuleList) for part in module.modules())
