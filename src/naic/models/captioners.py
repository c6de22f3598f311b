"""The captioners there are. A new one is a module beside this one, and one line here."""

from naic.errors import ConfigError
from naic.models import transformer
from naic.models.contract import CaptionerSpec

CAPTIONERS: dict[str, CaptionerSpec] = {
    "causal": transformer.CAUSAL,
    "parallel": transformer.PARALLEL,
}


def captioner_spec(name: str) -> CaptionerSpec:
    """The captioner of this name."""
    if name not in CAPTIONERS:
        hint = f"There are: {', '.join(CAPTIONERS)}."
        raise ConfigError("captioner", f"there is no captioner {name!r}", hint)
    return CAPTIONERS[name]
