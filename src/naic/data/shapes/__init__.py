"""The embedded dataset: scenes of coloured shapes, drawn on demand, with captions and facts.

It needs no download, has as many scenes as are asked for, and knows the truth about each of them,
so every stage of training can be exercised in minutes and what a model says can be checked.
`dataset` makes records and files of them.
"""

from naic.data.shapes.drawing import contact_sheet, draw
from naic.data.shapes.phrasing import captions
from naic.data.shapes.scenes import Scene, SceneObject, facts, make_scene
from naic.data.shapes.truth import Verdict, check

__all__ = [
    "Scene",
    "SceneObject",
    "Verdict",
    "captions",
    "check",
    "contact_sheet",
    "draw",
    "facts",
    "make_scene",
]
