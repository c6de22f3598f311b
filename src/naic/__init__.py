"""naic: image captioning in one parallel pass.

Importing the package is cheap on purpose: nothing here pulls in torch.
"""

__version__ = "0.1.0.dev0"

__all__ = ["__version__"]
