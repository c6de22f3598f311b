"""The captioners there are. A new one is a module beside this one, and one line here."""

from naic.errors import ConfigError
from naic.models import transformer
from naic.models.contract import CaptionerSpec

CAPTIONERS: dict[str, CaptionerSpec] = {
    "causal": transformer.CAUSAL,
    "parallel": transformer.PARALLEL,
}


def captioner_spec(name: str, where: str = "captioner") -> CaptionerSpec:
    """The captioner of this name; `where` it was named, for the error if there is none."""
    if name not in CAPTIONERS:
        hint = f"There are: {', '.join(CAPTIONERS)}. A newer naic may know it."
        raise ConfigError(where, f"there is no captioner {name!r}", hint)
    return CAPTIONERS[name]
