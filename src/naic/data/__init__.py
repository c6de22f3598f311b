"""Datasets in, records and features out."""
