"""A caption by ONNX Runtime alone: python caption_onnx.py exported/model.onnx photo.jpg."""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
facts = session.get_modelmeta().custom_metadata_map
vocabulary, side = json.loads(facts["vocabulary"]), int(facts["pixels"])
picture = ImageOps.exif_transpose(Image.open(sys.argv[2])).convert("RGB").resize((side, side))
words, confidences = session.run(None, {"pixels": np.asarray(picture)[None]})
said = words[0, :, 0].tolist()  # each agent's likeliest word
print(" ".join(vocabulary[word] for word in said[: [*said, 0].index(0)]))  # 0 is the period
