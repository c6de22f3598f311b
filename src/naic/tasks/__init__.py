"""Whole jobs, each one call: the command line and other programs use the same."""
