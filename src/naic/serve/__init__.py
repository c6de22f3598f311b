"""Captions over HTTP: a queue with an end, contracts that other programs speak, and a page."""
