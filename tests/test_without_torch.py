"""What surrounds the network needs no torch: a runtime without it will use the same code."""

import subprocess
import sys

AROUND = (
    "naic.images",
    "naic.images.sources",
    "naic.text",
    "naic.decode.decoding",
    "naic.decode.decoding",
    "naic.runtime.sentences",
    "naic.metrics.score",
)


def test_images_text_and_sentences_are_imported_without_torch() -> None:
    code = f"import sys, {', '.join(AROUND)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
