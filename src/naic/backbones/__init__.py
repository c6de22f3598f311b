"""Backbones: from pixels to a grid of feature vectors; `load.py` has the table of them."""
