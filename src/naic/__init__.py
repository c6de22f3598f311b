"""naic: image captioning in one parallel pass.

Importing the package is cheap on purpose: what runs a model is imported with the model.
"""

import os
from typing import TYPE_CHECKING

# ONNX Runtime would tell its makers of each run, and keep a file for that among the temporary ones.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__version__ = "0.1.0.dev0"

__all__ = ["Captioner", "__version__"]

if TYPE_CHECKING:
    from naic.runtime.captioner import Captioner
else:

    def __getattr__(name: str) -> object:
        """`Captioner`, when it is asked for."""
        if name == "Captioner":
            from naic.runtime.captioner import Captioner

            return Captioner
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        """What is there, `Captioner` included before its first use."""
        return sorted({*globals(), *__all__})
