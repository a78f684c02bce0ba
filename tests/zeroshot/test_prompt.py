"""Prompts: as CLIP's authors compute them, and held against a loop over images and templates."""

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
from unseen.cli import main
from unseen.core.errors import DataError, UnseenError
from unseen.core.extras import ensure_torchvision
from unseen.study import plan_study
from unseen.zeroshot.prompt import (
    Prompt,
    prompt_embeddings,
    prompt_names,
    prompt_scores,
    read_templates,
    shared_prompts,
)

CONFIG = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
NAMES = ("apple", "bobcat", "walrus", "teapot", "castle", "violin", "canoe", "pretzel")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="module")
def clip_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ensure_torchvision()
    open_clip: Any = pytest.importorskip("open_clip")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("clip")
    state = open_clip.CLIP(**CONFIG).state_dict()
    save_file({k: v.contiguous() for k, v in state.items()}, folder / "open_clip_model.safetensors")
    normal = {"mean": open_clip.OPENAI_DATASET_MEAN, "std": open_clip.OPENAI_DATASET_STD}
    (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": CONFIG, "preprocess_cfg": normal}))
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for label, name in enumerate(NAMES):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            pixels = np.random.default_rng(100 * label + i).integers(0, 256, (40, 48, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def test_embeddings_are_means_of_unit_vectors() -> None:
    table = {"a cat": [3.0, 0.0], "the cat": [0.0, 5.0], "a dog": [0.0, 1.0], "the dog": [0.0, 2.0]}
    found = prompt_embeddings(lambda texts: np.asarray([table[t] for t in texts]), ["cat", "dog"], ["a {}", "the {}"])
    np.testing.assert_allclose(found, [[2**-0.5, 2**-0.5], [0, 1]])
    assert prompt_scores(np.asarray([[2.0, 2.0]]), found)[0] == pytest.approx([1, 2**-0.5])
    with pytest.raises(DataError, match="one space"):
        prompt_scores(np.ones((2, 3)), found)
    method = Prompt().fit(np.eye(2), [0, 1], found)
    assert method.predict(np.asarray([[0.1, 1.0]]), found).tolist() == [1]


def test_prompts_have_class_names_as_written() -> None:
    written = [
        "crème brûlée",
        "piñata",
        "2012 BMW M3",
        "7 Up",
        "DC-10",
        "iPhone",
        "C++",
        "Bengal cat (pet)",
        "St. John's",
    ]
    assert prompt_names(written) == written
    assert prompt_names(["cre\u0300me bru\u0302le\u0301e", "x"])[0] == "crème brûlée", "one Unicode form"
    folders = ["red_fox", "blue+whale", "bus_(vehicle)", "7_Up", "_", "snow_leopard cub"]
    assert prompt_names(folders) == ["red fox", "blue whale", "bus (vehicle)", "7 Up", "_", "snow_leopard cub"]
    assert prompt_names(["001.Laysan_Albatross", "002.Sooty_Tern"]) == ["Laysan Albatross", "Sooty Tern"]
    assert prompt_names(["001.Laysan_Albatross", "Sooty_Tern"])[0] == "001.Laysan Albatross", "no numbering of all"
    assert prompt_names(["2012.BMW", "2012.Audi"]) == ["2012.BMW", "2012.Audi"], "not a numbering"
    told: list[str] = []
    prompt_embeddings(lambda texts: told.extend(texts) or np.ones((len(texts), 2)), ["7 Up", "iPhone"], ["a {}."])
    assert told == ["a 7 Up.", "a iPhone."]
    assert shared_prompts(["crane", "red fox", "red_fox"]) == {"red fox": ["red fox", "red_fox"]}


def test_templates(tmp_path: Path) -> None:
    assert read_templates("plain") == ("a photo of a {}.",)
    (tmp_path / "mine.txt").write_text("a {} on a shelf\n\nmany {}\n")
    assert read_templates(str(tmp_path / "mine.txt")) == ("a {} on a shelf", "many {}")
    (tmp_path / "bad.txt").write_text("no place\n")
    with pytest.raises(DataError, match="once, where the class goes"):
        read_templates(str(tmp_path / "bad.txt"))
    for wrong in ("a {color} {}", "{} and {}", "a {} {", "{0}", "{}}"):
        (tmp_path / "bad.txt").write_text(f"{wrong}\n")
        with pytest.raises(DataError, match="no other braces"):
            read_templates(str(tmp_path / "bad.txt"))
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe{}")
    with pytest.raises(DataError, match="cannot read the templates"):
        read_templates(str(tmp_path / "bad.txt"))
    with pytest.raises(UnseenError, match="none of openai"):
        read_templates("nothing")
    ensure_torchvision()
    open_clip: Any = pytest.importorskip("open_clip")
    assert [t.format("cat") for t in read_templates("openai")] == [
        t("cat") for t in open_clip.OPENAI_IMAGENET_TEMPLATES
    ]


def test_clip_run_is_the_loop_of_its_authors(home: Path, clip_folder: Path, pictures: Path) -> None:
    """Classifier weights by class and template, then one matrix product, as open_clip's own zero-shot script has it."""
    import open_clip

    assert main(["clip", "run", str(pictures), "--models", f"open_clip:{clip_folder}", "--templates", "simple"]) == 0
    (result,) = unseen.load_results("clip").results
    model, _, transform = open_clip.create_model_and_transforms(f"local-dir:{clip_folder}")
    model.eval()
    tokenizer = open_clip.get_tokenizer(f"local-dir:{clip_folder}")
    data = unseen.load_dataset(f"folder:{pictures}")
    weights = []
    with torch.no_grad():
        for name in data.class_names:
            texts = tokenizer([template(name) for template in open_clip.SIMPLE_IMAGENET_TEMPLATES])
            one = torch.nn.functional.normalize(model.encode_text(texts), dim=-1).mean(0)
            weights.append(one / one.norm())
        split = data.split("test")
        images = torch.stack([transform(split.open(i).convert("RGB")) for i in range(len(split))])
        logits = torch.nn.functional.normalize(model.encode_image(images), dim=-1) @ torch.stack(weights).T
    expected = float((logits.argmax(1).numpy() == split.labels).mean())
    assert result.metrics["top1"] == pytest.approx(expected)
    assert result.details["test_images"] == len(split) == 8
    assert "ImageNet-1K" in result.details["audit"]
    assert result.metrics["top1_low"] <= expected <= result.metrics["top1_high"]


def test_prompts_stand_beside_other_methods(home: Path, clip_folder: Path, pictures: Path) -> None:
    model = f"open_clip:{clip_folder}"
    study = unseen.Study(
        "both",
        (model,),
        (str(pictures),),
        [
            unseen.BENCHMARKS.get("zsl")(
                methods=("prompt", "ESZSL"),
                embedding="prompts",
                templates="plain",
                split="SS",
                share=0.25,
                grid="quick",
            ),
            unseen.BENCHMARKS.get("clip")(templates="plain"),
            unseen.BENCHMARKS.get("probe")(seeds=1, solver="ridge"),
        ],
    )
    results = unseen.run_study(study, report=False).results
    assert all(result.ok for result in results), [result.error for result in results]
    assert {r.cell.parameters.get("method", r.cell.benchmark) for r in results} == {"prompt", "ESZSL", "clip", "probe"}
    assert results[0].details["embedding"] == "prompts" and results[0].details["embedding_dimensions"] == 24
    frame = unseen.load_results("both").to_pandas()
    assert {"zsl", "top1"} <= set(frame.columns)


def test_a_dataset_may_be_all_test_images(home: Path, clip_folder: Path, pictures: Path) -> None:
    data = unseen.load_dataset(f"folder:{pictures}?as=test")
    assert {name: len(split) for name, split in data.splits.items()} == {"test": 48}
    study = unseen.Study(
        "t", (f"open_clip:{clip_folder}",), (f"folder:{pictures}?as=test",), {"clip": {"templates": "plain"}}
    )
    (result,) = unseen.run_study(study, report=False).results
    assert result.details["test_images"] == 48
    with pytest.raises(DataError, match="no split 'train'"):
        unseen.evaluate("random:test_resnet?size=64", f"folder:{pictures}?as=test")


def test_the_template_and_the_tower_count_and_models_without_one_are_told(home: Path, pictures: Path) -> None:
    clip = unseen.BENCHMARKS.get("clip")
    ids = {clip(templates=t).plan("m", "d")[0].id for t in ("plain", "simple", "openai")}
    assert len(ids) == 3
    zsl = unseen.BENCHMARKS.get("zsl")
    assert zsl(templates="plain").plan("m", "d")[0].id == zsl().plan("m", "d")[0].id, "idle without prompts"
    assert (
        zsl(embedding="prompts", templates="plain").plan("m", "d")[0].id
        != zsl(embedding="prompts").plan("m", "d")[0].id
    )
    assert "prompt.2" in clip().plan("m", "d")[0].version, "class names are used as written"
    assert "prompts.2" in zsl(embedding="prompts").plan("m", "d")[0].version
    assert "prompts" not in zsl().plan("m", "d")[0].version
    study = unseen.Study("s", ("random:test_resnet?size=64",), (str(pictures),), {"clip": {"templates": "plain"}})
    (result,) = unseen.run_study(study, report=False, on_error="ignore").results
    assert "has no text tower" in result.error


def test_the_record_has_shared_prompts_and_classes_without_test_images(
    home: Path, clip_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    (pictures / "castle").rename(pictures / "sea_lion")
    (pictures / "violin").rename(pictures / "sea lion")
    for name in ("train", "test"):
        (tmp_path / "own" / name).mkdir(parents=True)
    for folder in pictures.iterdir():
        (tmp_path / "own" / "train" / folder.name).symlink_to(folder)
        if folder.name != "apple":
            (tmp_path / "own" / "test" / folder.name).symlink_to(folder)
    study = unseen.Study(
        "notes", (f"open_clip:{clip_folder}",), (str(tmp_path / "own"),), {"clip": {"templates": "plain"}}
    )
    recorded: list[unseen.Result] = []
    unseen.run_study(study, report=False, on_result=recorded.append)
    (result,) = recorded
    assert (result.record.classes_given, result.record.classes_used) == (8, 8)
    assert result.record.notes == (
        "2 classes share the prompt 'sea lion': 'sea lion', 'sea_lion'",
        "1 classes are candidates without a test image, so that the mean per-class accuracy excludes them: 'apple'",
    )


def test_templates_are_checked_before_extraction(home: Path, pictures: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.txt"
    file.write_text("a {color} {}\n")
    for name in ("clip", "zsl"):
        options = {"templates": str(file), **({"embedding": "prompts"} if name == "zsl" else {})}
        study = unseen.Study("s", ("random:test_resnet?size=64",), (str(pictures),), {name: options})
        with pytest.raises(DataError, match="no other braces"):
            plan_study(study, home)
