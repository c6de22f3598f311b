"""Captioners: which kinds there are, and the folder a trained one is kept in."""
