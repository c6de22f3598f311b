"""A caption by ONNX Runtime alone: python caption_onnx.py exported/model.onnx photo.jpg."""

import json
import sys

import numpy as np
import numpy.typing as npt
import onnxruntime
from PIL import Image, ImageOps

Ints, Floats = npt.NDArray[np.int64], npt.NDArray[np.float32]


def caption(model: str, photo: str) -> str:
    """What a graph of `naic export` says of an image file."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    vocabulary, side = json.loads(facts["vocabulary"]), int(facts["pixels"])
    image = ImageOps.exif_transpose(Image.open(photo)).convert("RGB").resize((side, side))
    said = likeliest(
        *(found[0] for found in session.run(None, {"pixels": np.asarray(image)[None]}))
    )
    return " ".join(vocabulary[word] for word in said[: [*said, 0].index(0)])  # 0 is the period


def likeliest(words: Ints, confidences: Floats, pairs: Floats | None = None) -> list[int]:
    """Each agent's likeliest word; with pairs the likeliest sentence, from its end to its begin."""
    if pairs is None:
        return words[:, 0].tolist()
    scores, onward = np.log(np.maximum(confidences, 1e-38)), []
    best = np.zeros(words.shape[1])  # of all that can come after each word of an agent
    for agent in range(len(words) - 2, -1, -1):
        onward.append(pairs[agent] + scores[agent + 1] + best)
        best = np.where(words[agent] == 0, 0, onward[-1].max(1))
    places = [(scores[0] + best).argmax()]
    for after in reversed(onward):
        places.append(after[places[-1]].argmax())
    return words[np.arange(len(words)), places].tolist()


if len(sys.argv) != 3:
    sys.exit("usage: python caption_onnx.py exported/model.onnx photo.jpg")
try:
    print(caption(*sys.argv[1:]))
except KeyError as missing:
    sys.exit(f"{sys.argv[1]}: not a graph of naic export, it does not tell its {missing}")
except Exception as error:  # ONNX Runtime's and Pillow's have no common name
    sys.exit(f"no caption of {sys.argv[2]}: {str(error).splitlines()[0]}")
