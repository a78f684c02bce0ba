"""The cards of ImageNet-CoG against the tables of its paper; and errors for wrong files."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest
import torch
from torch import Tensor

from unseen.backbones import load_backbone, model_cards
from unseen.backbones.sources.cog import cog_models
from unseen.core.errors import CheckpointError, UnknownNameError, UsageError

#: Table 1 of the paper, millions; ResNet-50 where it gives none. CLIP's tower is larger than that, see its test.
TABLE_1 = {
    "resnet50": 23.5, "a-t2t-vit-t-14": 21.1, "a-deit-s": 21.7, "a-deit-s-distilled": 21.7, "a-inception-v3": 25.1,
    "a-nat-m4": 7.6, "a-efficientnet-b1": 6.5, "a-efficientnet-b4": 17.5, "a-deit-b-distilled": 86.1,
    "a-resnet152": 58.1, "a-vgg19": 139.6,
}  # fmt: skip
#: Table B of the supplement. Inception-v3 is not in it; CLIP is one of "all models with ResNet backbone" there.
TABLE_B = {
    "a-t2t-vit-t-14": 384, "a-deit-s": 384, "a-deit-s-distilled": 384, "a-deit-b-distilled": 768, "a-nat-m4": 1536,
    "a-efficientnet-b1": 1280, "a-efficientnet-b4": 1792, "a-vgg19": 4096,
}  # fmt: skip


# The cards ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", cog_models())
def test_cards_agree_with_the_tables(name: str) -> None:
    card = cog_models()[name].card
    if name == "d-clip":  # encode_image gives 1024 from 38.3 M parameters: Table B and "ResNet50-sized" do not hold
        assert (card.feature_dim, card.parameters) == (1024, 38_316_896)
    else:
        assert card.feature_dim == TABLE_B.get(name, 2048)
        assert card.parameters / 1e6 == pytest.approx(TABLE_1.get(name, 23.5), rel=0.01)
    sizes = {"a-inception-v3": 299, "a-efficientnet-b1": 240, "a-efficientnet-b4": 380, "a-deit-b-distilled": 384}
    preprocessing = card.preprocessing
    assert preprocessing.size == preprocessing.resize == sizes.get(name, 224)
    assert (preprocessing.mode, preprocessing.interpolation) == ("shortest", "bicubic")
    if name == "s-simclr-v2":
        assert (preprocessing.mean, preprocessing.std) == ((0, 0, 0), (1, 1, 1))
    elif name == "d-clip":
        assert [round(v, 3) for v in (*preprocessing.mean, *preprocessing.std)] == [
            0.481, 0.458, 0.408, 0.269, 0.261, 0.276
        ]  # fmt: skip
    else:
        assert (preprocessing.mean, preprocessing.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert card.source.startswith("https://")
    assert card.citation
    assert card.paper == "cog"


def test_cards_are_listed_in_the_groups_of_the_paper() -> None:
    cards = [card for card in model_cards() if card.paper == "cog"]
    counts = collections.Counter(card.group for card in cards)
    assert counts == {
        "reference": 1, "architecture": 10, "self-supervision": 10, "regularization": 6, "web data": 4
    }  # fmt: skip
    assert [card.id for card in cards] == [f"cog:{name}" for name in cog_models()]


# Wrong files ----------------------------------------------------------------------------------------------------------


def without_head(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in tensors.items() if not name.startswith("fc.")}


def prefixed(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in tensors.items()}


def save(value: object, path: Path) -> Path:
    torch.save(value, path)
    return path


def test_a_missing_key_is_named(resnet50: tuple[dict[str, Tensor], Tensor], folder: Path) -> None:
    weights = without_head(resnet50[0])
    del weights["layer3.4.bn2.running_var"]
    path = save(weights, folder / "w.pth")
    with pytest.raises(CheckpointError, match=r"cog:s-dino: .*'layer3\.4\.bn2\.running_var': it is missing"):
        load_backbone(f"cog:s-dino?weights={path}")


def test_another_shape_is_named(resnet50: tuple[dict[str, Tensor], Tensor], folder: Path) -> None:
    weights = prefixed(without_head(resnet50[0]), "module.")
    weights["module.layer2.0.conv1.weight"] = torch.zeros(64, 256, 1, 1)
    path = save(weights, folder / "w.pth")
    with pytest.raises(CheckpointError, match=r"cog:s-swav: .*'module\.layer2\.0\.conv1\.weight': its shape is \(64"):
        load_backbone(f"cog:s-swav?weights={path}")


def test_an_unexpected_key_is_named(resnet50: tuple[dict[str, Tensor], Tensor], folder: Path) -> None:
    path = save(without_head(resnet50[0]) | {"layer5.weight": torch.zeros(1)}, folder / "w.pth")
    with pytest.raises(CheckpointError, match=r"cog:s-barlowtwins: .*'layer5\.weight': the network has no such tensor"):
        load_backbone(f"cog:s-barlowtwins?weights={path}")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("s-moco-v2", "state_dict"),
        ("r-adv-robust", "model"),
        ("a-efficientnet-b1", "model_state"),
        ("s-obow", "network"),
    ],
)
def test_a_file_without_its_container(name: str, key: str, folder: Path) -> None:
    path = save({"conv1.weight": torch.zeros(1)}, folder / "w.pth")
    with pytest.raises(CheckpointError, match=f"cog:{name}: w.pth has no tensors under '{key}'.*'conv1.weight'"):
        load_backbone(f"cog:{name}?weights={path}")


def test_the_file_of_another_model(resnet50: tuple[dict[str, Tensor], Tensor], folder: Path) -> None:
    path = save(prefixed(resnet50[0], "module."), folder / "w.pth")
    with pytest.raises(CheckpointError, match=r"cog:s-dino: .*'conv1\.weight'.*begins with 'module\.conv1\.weight'"):
        load_backbone(f"cog:s-dino?weights={path}")
    with pytest.raises(CheckpointError, match=r"cog:d-clip: .*'visual\.conv1\.weight'"):
        load_backbone(f"cog:d-clip?weights={path}")
    with pytest.raises(CheckpointError, match=r"no TensorFlow checkpoint|not the index"):
        load_backbone(f"cog:s-simclr-v2?weights={path}")
    with pytest.raises(CheckpointError, match=r"not a checkpoint of BYOL"):
        load_backbone(f"cog:s-byol?weights={path}")


def test_names_and_options() -> None:
    with pytest.raises(UnknownNameError, match="s-dino"):
        load_backbone("cog:s-dinno")
    with pytest.raises(UnknownNameError, match="weights"):
        load_backbone("cog:s-dino?weight=x")
    with pytest.raises(UsageError, match="224 pixels only"):
        load_backbone(f"cog:a-deit-s?size=256&weights={__file__}")
    with pytest.raises(CheckpointError, match=r"cog:s-dino: there is no file at .*dino_resnet50_pretrain\.pth"):
        load_backbone("cog:s-dino?weights=/nowhere/w.pth")


def test_the_page_has_a_row_for_every_model() -> None:
    page = Path(__file__).parents[2] / "docs" / "cog-models.md"
    rows = {line.split("`")[1]: line for line in page.read_text().splitlines() if line.startswith("| `cog:")}
    assert list(rows) == [f"cog:{name}" for name in cog_models()]
    for name, model in cog_models().items():
        card, cells = model.card, [cell.strip() for cell in rows[f"cog:{name}"].split("|")]
        assert cells[2:7] == [
            card.group,
            f"{card.parameters / 1e6:.1f}",
            str(card.preprocessing.size),
            model.layer,
            str(card.feature_dim),
        ]
        assert (model.urls[0] if model.urls else model.page) in cells[7]
        assert cells[9] == (model.sha256[:8] or "-")
