"""What NAIC is timed against beside its teacher with a cache.

Captioners that people use today, through `transformers`: built from their configs with random
weights, so that nothing is fetched. They write a fixed number of tokens, with their cache on, by
`generate`, eagerly, as their users run them.

Writing word by word without a cache: for each word, all words before it are read again. Nobody
should caption so. Older captioning code does, and published speed-ups were measured against it; the
benchmark shows how much of such a figure is the missing cache.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from naic.decode.policy import log_policy
from naic.errors import MissingExtraError
from naic.models.decoder import DecoderLayer, Memory
from naic.models.transformer import TransformerCaptioner
from naic.runtime.engines import KINDS
from naic.text.vocabulary import BOS

BLIP, VIT_GPT2 = "blip", "vit-gpt2"
BLIP_PIXELS, VIT_PIXELS = 384, 224
GPT2_END, GPT2_PAD = 50256, 50255


class OtherModels:
    """The models on a device, each built when it is first asked for."""

    def __init__(self, device: torch.device, precision: str) -> None:
        self._device, self._kind = device, KINDS[precision]
        self._models: dict[str, Any] = {}

    def runner(self, name: str, width: int, words: int, batch: int) -> Callable[[], object]:
        """One `generate` of `batch` images, from ready pixels on the device to tokens.

        Raises:
            MissingExtraError: transformers is not installed, or cannot be imported.
        """
        model = self._model(name)
        side = BLIP_PIXELS if name == BLIP else VIT_PIXELS
        pixels = torch.randn(batch, 3, side, side, device=self._device, dtype=self._kind)
        lengths = {"min_new_tokens": words, "max_new_tokens": words}

        @torch.inference_mode()
        def run() -> object:
            said = model.generate(pixel_values=pixels, num_beams=width, do_sample=False, **lengths)
            return said.cpu()

        return run

    def _model(self, name: str) -> Any:  # noqa: ANN401 - a class of a package that may be missing
        if name not in self._models:
            transformers = _import_transformers()
            with torch.device(self._device):  # drawn there, which is faster than on the host
                made = _blip(transformers) if name == BLIP else _vit_gpt2(transformers)
            self._models[name] = made.to(self._device, self._kind).eval()
        return self._models[name]


def _import_transformers() -> Any:  # noqa: ANN401 - a module
    try:
        import transformers  # type: ignore[import-not-found, unused-ignore]

        transformers.BlipForConditionalGeneration  # noqa: B018 - it is imported when it is named
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision that does not fit
        reason = str(error).strip().splitlines()[0]
        hint = "Run: pip install transformers"
        raise MissingExtraError("transformers", f"cannot be imported ({reason})", hint) from error
    return transformers


def _blip(transformers: Any) -> Any:  # noqa: ANN401 - a module
    """BLIP-base: a ViT-B/16 at 384 pixels, and a BERT-base that looks at it."""
    config = transformers.BlipConfig(text_config={"num_attention_heads": 12})
    return transformers.BlipForConditionalGeneration(config)


def _vit_gpt2(transformers: Any) -> Any:  # noqa: ANN401 - a module
    """A ViT-B/16 at 224 pixels, and a GPT-2 that looks at it."""
    speaks = transformers.GPT2Config(add_cross_attention=True, is_decoder=True)
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        transformers.ViTConfig(), speaks
    )
    model = transformers.VisionEncoderDecoderModel(config=config)
    for own in (model.config, model.generation_config):
        own.decoder_start_token_id = own.bos_token_id = own.eos_token_id = GPT2_END
        own.pad_token_id = GPT2_PAD
    return model


@torch.no_grad()
def search_again(model: TransformerCaptioner, memory: Memory, width: int) -> tuple[Tensor, Tensor]:
    """The likeliest sentence (B, N) that a beam of `width` finds, and its score (B,).

    For a model that never says the period: no sentence ends before the last place, so that the
    time does not depend on what is said. The image is encoded once, as with a cache.
    """
    batch, device = memory.batch, memory.device
    heard = torch.full((batch, width, 1), BOS, device=device)
    # All beams start out alike, so only the first one counts.
    scores = torch.zeros((batch, width), device=device)
    scores[:, 1:] = -math.inf
    for _ in range(model.length):
        log_probs = log_policy(_after(model, memory, heard))
        scores, best = (scores[..., None] + log_probs).flatten(1).topk(width)
        parents, word = best // model.words, best % model.words
        heard = heard.gather(1, parents[..., None].expand_as(heard))
        heard = torch.cat((heard, word[..., None]), -1)
    return heard[:, 0, 1:], scores[:, 0]


def _after(model: TransformerCaptioner, memory: Memory, heard: Tensor) -> Tensor:
    """(B, W, V) logits of the word that follows `heard` (B, W, T), BOS and the words so far."""
    decoder = model.decoder
    embedded: Tensor = decoder.embedding(heard)
    x = embedded * math.sqrt(model.config.width) + decoder.positions[: heard.shape[-1]]
    for number, layer in enumerate(decoder.layers):
        assert isinstance(layer, DecoderLayer)
        x = layer(x, memory.keys[number], memory.values[number], memory.mask, causal=True)
    scores: Tensor = decoder.output(decoder.norm(x[:, :, -1]))
    return scores
