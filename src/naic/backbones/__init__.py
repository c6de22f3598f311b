"""Backbones: from pixels to a grid of feature vectors."""

from naic.backbones.load import Backbone, load_backbone

__all__ = ["Backbone", "load_backbone"]
