"""The embedded dataset: scenes of coloured shapes, drawn on demand, with captions and facts.

It needs no download, has as many scenes as are asked for, and knows the truth about each of them,
so every stage of training can be exercised in minutes and what a model says can be checked.
"""
