"""Packing: the right backbone, the right size, and nothing that cannot be read again."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from naic.backbones.load import load_backbone
from naic.errors import CheckpointError, ConfigError
from naic.models.folder import load_model
from naic.tasks.options import PackOptions
from naic.tasks.pack import pack_model
from tests.tasks.packs import CARD, NETWORK, make_model


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_student_gets_the_backbone_that_it_learnt_from(tmp_path: Path) -> None:
    backbone = load_backbone(NETWORK, pixels=64, device="cpu")
    student = make_model(tmp_path / "student", digest=backbone.digest)
    done = pack_model(PackOptions(student, tmp_path / "packed", bits=8, output_bits=8))
    plain, packed = load_model(student), load_model(tmp_path / "packed")
    assert packed.settings == replace(
        plain.settings,
        features=3072,
        backbone="pixels",
        digest="",
        model=replace(plain.settings.model, backbone=NETWORK),
    )
    assert packed.vocabulary.words == plain.vocabulary.words
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (3, 64, 64, 3), generator=generator, dtype=torch.uint8)
    with torch.inference_mode():
        before = plain.model(backbone(pixels))
        after = packed.model(pixels)
    assert after.shape == before.shape
    assert 0 < float((after - before).norm() / before.norm()) < 0.05
    assert done.backbone == f"the package's {NETWORK}"


def test_the_report_is_true_to_the_byte(tmp_path: Path) -> None:
    student = make_model(tmp_path / "student")
    options = PackOptions(student, tmp_path / "packed")
    guess = pack_model(replace(options, dry_run=True))
    assert not options.out.exists()
    done = pack_model(options)
    assert done == guess
    assert done.bytes == folder_bytes(options.out)
    assert [part.name for part in done.parts] == ["backbone", "encoder", "decoder", "words"]
    found = load_model(options.out).model
    assert sum(part.weights for part in done.parts) == sum(p.numel() for p in found.parameters())
    assert done.plain_bytes == 4 * sum(p.numel() for p in found.parameters())
    errors = {part.name: part.error for part in done.parts}
    assert 0.02 < errors["encoder"] < 0.05  # 5 bits
    assert 0.0005 < errors["backbone"] < 0.003  # 10 bits
    encoder = done.parts[1]
    matrices = 1280 * 32 + 4 * 32 * 32 + 2 * 32 * 64
    vectors = encoder.weights - matrices
    assert encoder.bytes == matrices * 5 // 8 + 2 * (32 * 20 + 3 * 32 + 32 + 64 + 32) + 2 * vectors
    coarse = pack_model(replace(options, out=tmp_path / "coarse", bits=4, backbone_bits=6))
    assert coarse.parts[0].error > 2 * errors["backbone"]
    assert coarse.parts[1].error > 1.5 * errors["encoder"]
    assert coarse.bytes < done.bytes
    assert coarse.parts[3] == done.parts[3]


def test_tuned_backbone(tmp_path: Path) -> None:
    tuned = make_model(tmp_path / "tuned", backbone=NETWORK, seed=1)
    digest = load_backbone(NETWORK, pixels=64, weights=tuned, device="cpu").digest
    student = make_model(tmp_path / "student", digest=digest)
    options = PackOptions(student, tmp_path / "packed", backbone=tuned)
    assert pack_model(options).backbone == f"that of {tuned}"
    wanted, found = load_model(tuned).model, load_model(options.out).model
    name = "backbone.head.weight"
    torch.testing.assert_close(
        found.state_dict()[name], wanted.state_dict()[name], atol=1e-3, rtol=0
    )
    other = make_model(tmp_path / "other", backbone=NETWORK, seed=2)
    for backbone, who in ((other, str(other)), (None, "the backbone's own weights")):
        with pytest.raises(ConfigError, match="learnt from features of another backbone") as error:
            pack_model(replace(options, out=tmp_path / "no", backbone=backbone))
        assert error.value.why.startswith(f"{who} will not do")
    assert not (tmp_path / "no").exists()


def test_a_model_with_backbone_is_simply_packed(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", backbone=NETWORK)
    options = PackOptions(model, tmp_path / "packed")
    assert pack_model(options).backbone == "the model's own"
    assert load_model(options.out).settings == load_model(model).settings
    assert folder_bytes(options.out) < folder_bytes(model) / 3
    with pytest.raises(ConfigError, match=r"--backbone: .* has a backbone of its own"):
        pack_model(replace(options, out=tmp_path / "no", backbone=model))
    with pytest.raises(CheckpointError, match="is packed already"):
        pack_model(PackOptions(options.out, tmp_path / "no"))


def test_a_card_that_is_not_utf_8_is_kept_as_far_as_it_goes(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", backbone=NETWORK)
    (model / "README.md").write_bytes("# Für Photos\n".encode("latin-1"))
    pack_model(PackOptions(model, tmp_path / "packed"))
    assert (tmp_path / "packed" / "README.md").read_text().startswith("# F\ufffdr Photos\n")


def test_the_card_says_how_it_was_packed(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", backbone=NETWORK)
    pack_model(PackOptions(model, tmp_path / "packed", bits=4, backbone_bits=7))
    card = (tmp_path / "packed" / "README.md").read_text()
    assert card.startswith(f"{CARD}\n## Packing\n\n```sh\nnaic pack {model} --out ")
    assert "/packed --bits 4 --output-bits 6 --backbone-bits 7\n```\n" in card
    rows = [line.split(" | ") for line in card.splitlines() if line.startswith("| ")]
    assert [(row[0], row[2]) for row in rows[1:]] == [
        ("| backbone", "7"),
        ("| encoder", "4"),
        ("| decoder", "4"),
        ("| words", "6"),
    ]
    (model / "README.md").unlink()
    pack_model(PackOptions(model, tmp_path / "bare"))
    assert (tmp_path / "bare" / "README.md").read_text().startswith("# model\n\n## Packing\n")


def test_what_cannot_be_packed_is_refused(tmp_path: Path) -> None:
    blobs = make_model(tmp_path / "blobs", source="blobs")
    with pytest.raises(ConfigError, match="it learnt from features of blobs"):
        pack_model(PackOptions(blobs, tmp_path / "no"))
    odd = make_model(tmp_path / "odd", pixels=240)
    with pytest.raises(ConfigError, match="images of 240 pixels a side"):
        pack_model(PackOptions(odd, tmp_path / "no"))
    with pytest.raises(ConfigError, match=r"--out: .* is there already"):
        pack_model(PackOptions(odd, blobs))
    for wrong in (
        PackOptions(odd, tmp_path / "no", bits=13),
        PackOptions(odd, tmp_path / "no", output_bits=1),
        PackOptions(odd, tmp_path / "no", backbone_bits=0),
    ):
        with pytest.raises(ConfigError, match=r"bits: [0-9]+ is not from 2 to 12"):
            pack_model(wrong)
    assert not (tmp_path / "no").exists()
