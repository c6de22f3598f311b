r"""Features of photos as `naic caption` sees them on a processor: by a model's int8 graph.

python benchmarks/finetune_features.py data/flickr8k --images data/flickr8k/Images \
    --out data/flickr8k-features

For trials of fine-tuning on many photos without a GPU: on two cores the graph makes them seven
times as fast as `naic prepare` does in float32. The store is laid out as that of `naic prepare`
with the model's backbone, and its index tells of the graph; the words that follow from such
features are those of `naic caption` by default.
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime  # type: ignore[import-untyped]

from naic.backbones.load import load_backbone
from naic.data.decoding import decode_batches
from naic.data.readers import read
from naic.data.readers.captions import detect
from naic.data.records import Problems, Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.models.folder import load_model
from naic.resume import claim
from naic.runtime.captioner import shipped_model
from naic.runtime.graphs import beside
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import _settings

BATCH = 16
Floats = npt.NDArray[Any]


def backbone_graph(model: Path) -> bytes:
    """The part of a model's int8 graph that ends in the features (B, R, F)."""
    content = beside(model, "int8").content
    assert isinstance(content, Path)
    whole = onnx.load(str(content))
    # The networks of the backbone are joined feature by feature, which nothing else in it is.
    place, name = next(
        (place, node.output[0])
        for place, node in enumerate(whole.graph.node)
        if node.op_type == "Concat" and [own.i for own in node.attribute] == [2]
    )
    wanted, kept = {name}, []
    for node in reversed(whole.graph.node[: place + 1]):
        if not wanted.isdisjoint(node.output):
            kept.append(node)
            wanted.update(node.input)
    graph = onnx.helper.make_graph(
        kept[::-1],
        "features",
        list(whole.graph.input),
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)],
        [tensor for tensor in whole.graph.initializer if tensor.name in wanted],
    )
    made = onnx.helper.make_model(graph, opset_imports=whole.opset_import)
    made.ir_version = whole.ir_version
    return bytes(made.SerializeToString())


def features(graph: bytes, records: list[Record], pixels: int) -> Iterator[tuple[int, Floats]]:
    """(R, F) of each image that can be opened, with its place; a core for each image."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    images = [record.image for record in records]

    def run(image: npt.NDArray[np.uint8]) -> Floats:
        return np.asarray(session.run(None, {"pixels": image[None]})[0][0], np.float16)

    with ThreadPoolExecutor(2) as pool:
        for seen in decode_batches(images, pixels, batch=BATCH, processes=False):
            yield from zip(seen.positions, pool.map(run, list(seen.pixels)), strict=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--images", type=Path, action="append", default=[])
    parser.add_argument("--model", type=Path, default=shipped_model())
    parser.add_argument("--splits", nargs="*", default=["train", "val"])
    parser.add_argument("--limit", type=int, help="so many of each split")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    settings = load_model(asked.model).settings
    reader = detect(asked.source)
    assert reader != "store"
    reading = read(
        reader,
        asked.source,
        images=tuple(asked.images),
        problems=Problems(skip=True),
        splits=tuple(asked.splits),
        limit=asked.limit,
    )
    options = PrepareOptions(reader, asked.source, asked.out, device="cpu")
    name = settings.model.backbone
    backbone = load_backbone(name, pixels=settings.pixels, weights=asked.model, device="cpu")
    graph = backbone_graph(asked.model)
    with claim(asked.out):
        writer = StoreWriter(
            asked.out,
            reading.records,
            _settings(options, backbone),
            options.per_shard,
            notes={"tuned": True, "graph": "int8"},
        )
        for number in writer.missing:
            span = writer.span(number)
            found = dict(
                features(graph, [reading.records[place] for place in span], backbone.pixels)
            )
            places = [span[own] for own in found]
            block = np.concatenate([*found.values()])
            writer.write(number, ShardRows(places, [backbone.regions] * len(places), block), [])
            print(f"{span.stop:,} of {len(reading.records):,}", flush=True)
        writer.finish()


if __name__ == "__main__":
    main()
