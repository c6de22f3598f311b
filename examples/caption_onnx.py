"""A caption by ONNX Runtime alone: python caption_onnx.py exported/model.onnx photo.jpg."""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def caption(model: str, photo: str) -> str:
    """What a graph of `naic export` says of an image file."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    vocabulary, side = json.loads(facts["vocabulary"]), int(facts["pixels"])
    image = ImageOps.exif_transpose(Image.open(photo)).convert("RGB").resize((side, side))
    (words,) = session.run(["words"], {"pixels": np.asarray(image)[None]})
    said = words[0, :, 0].tolist()  # each agent's likeliest word
    return " ".join(vocabulary[word] for word in said[: [*said, 0].index(0)])  # 0 is the period


if len(sys.argv) != 3:
    sys.exit("usage: python caption_onnx.py exported/model.onnx photo.jpg")
try:
    print(caption(*sys.argv[1:]))
except KeyError as missing:
    sys.exit(f"{sys.argv[1]}: not a graph of naic export, it does not tell its {missing}")
except Exception as error:  # ONNX Runtime's and Pillow's have no common name
    sys.exit(f"no caption of {sys.argv[2]}: {str(error).splitlines()[0]}")
