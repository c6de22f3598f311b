"""What surrounds the network needs no torch: a runtime without it will use the same code."""

import os
import subprocess
import sys
from pathlib import Path

AROUND = (
    "naic.images",
    "naic.images.sources",
    "naic.text",
    "naic.decode.decoding",
    "naic.decode.decoding",
    "naic.runtime.sentences",
    "naic.metrics.score",
    "naic.tasks.shards.run",
    "naic.tasks.shards.captions",
)


def test_images_text_and_sentences_are_imported_without_torch() -> None:
    code = f"import sys, {', '.join(AROUND)}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_onnx_runtime_tells_nobody_of_its_runs(tmp_path: Path) -> None:
    """It would keep a file for that among the temporary ones, from the moment it is imported."""
    environment = {name: value for name, value in os.environ.items() if "TELEMETRY" not in name}
    subprocess.run(
        [sys.executable, "-c", "import naic, onnxruntime"],
        check=True,
        env=environment | {"TMPDIR": str(tmp_path)},
    )
    assert [*tmp_path.iterdir()] == []
