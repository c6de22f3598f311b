"""Captions of a shard, as a Parquet file with a row for each image."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from naic.errors import Problem
from naic.storage import name_of
from naic.tasks.caption.rows import shortened
from naic.tasks.caption.speaker import load_captioner
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Looking, Made, why_not
from naic.tasks.shards.options import CaptionShards
from naic.tasks.shards.parquet import captions_file, import_pyarrow
from naic.tasks.shards.rows import Row

if TYPE_CHECKING:
    from naic.runtime.captioner import Caption

_NOTHING = "nothing is left of its caption: what the model says is forbidden, or too long"


class CaptionMaker:
    """A captioner that writes Parquet."""

    def __init__(self, asked: CaptionShards, tell: Callable[[Problem], None]) -> None:
        """Load the model; `tell` hears of words that are wished for in vain."""
        import_pyarrow()  # now: a minute's work would be for nothing
        self.beside: Mapping[str, bytes] = {}
        options = asked.as_caption()
        self._captioner = load_captioner(tell, options)
        self._wishes = options.wishes()
        self._alternatives = asked.alternatives
        engine = self._captioner.engine
        self._look = Looking(engine.pixels, asked.batch, engine.device.type)

    def __call__(self, shard: Shard, rows: Iterator[Row]) -> Made:
        """The rows in the order of the images: a caption, or in its place an error."""
        found: list[dict[str, Any]] = []
        for keys, seen in self._look(rows):
            said = self._captioner.say(seen.pixels, alternatives=self._alternatives, **self._wishes)
            cells = dict(zip(seen.positions, map(self._cells, said), strict=True))
            cells |= {position: {"error": why_not(error)} for position, error in seen.errors}
            found += [{"key": keys[position]} | cells[position] for position in sorted(cells)]
        names = ["key", "caption", "confidence", "alternatives", "error"]
        if not self._alternatives:
            names.remove("alternatives")
        columns = {name: [row.get(name) for row in found] for name in names}
        errors = sum("error" in row for row in found)
        data = captions_file(columns, {"shard": name_of(shard.source)})
        return Made(data, len(found), errors)

    def _cells(self, said: "Caption") -> dict[str, Any]:
        if not said.text:
            return {"error": _NOTHING}
        cells = {"caption": said.text, "confidence": shortened(said.confidence)}
        others = [
            {"caption": other.text, "confidence": shortened(other.confidence)}
            for other in said.alternatives
        ]
        return cells | ({"alternatives": others} if self._alternatives else {})
