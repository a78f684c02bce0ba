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
from unseen.concepts import imagenet_1k
from unseen.core.errors import DataError, UnseenError
from unseen.core.extras import ensure_torchvision
from unseen.core.records import DatasetCard
from unseen.data import Dataset
from unseen.data.sources.xlsa17.splits import read_attribute_splits
from unseen.study import plan_study
from unseen.zeroshot.prompt import (
    Prompt,
    curated_names,
    prompt_embeddings,
    prompt_names,
    prompt_scores,
    read_descriptions,
    read_templates,
    shared_prompts,
)

CONFIG = {
    "embed_dim": 24,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "head_width": 16, "patch_size": 16},
    "text_cfg": {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
NAMES = ("apple", "bobcat", "walrus", "teapot", "castle", "violin", "canoe", "pretzel")


def named(names: list[str], wnids: list[str] | tuple[()] = ()) -> Dataset:
    """A dataset of these classes without images."""
    return Dataset(DatasetCard(id="d"), names, {}, wnids)


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
    with pytest.raises(DataError, match="cannot be read as UTF-8 text"):
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


@pytest.mark.parametrize("names", ["imagenet", "CUB", "packaged"])
def test_prompts_match_the_classifier_of_open_clip(clip_folder: Path, golden_data: Path, names: str) -> None:
    """Real class names of three datasets, and open_clip's own loop over classes and templates."""
    open_clip: Any = pytest.importorskip("open_clip")
    templates: Any = open_clip.SIMPLE_IMAGENET_TEMPLATES
    if names == "imagenet":
        wnids = list(imagenet_1k())[:120]
        classes = curated_names("open_clip", named(wnids, wnids))
        written = classes
        assert classes[:3] == ["tench", "goldfish", "great white shark"]
    elif names == "CUB":
        if not (golden_data / "gbu" / "CUB").is_dir():
            pytest.skip("the class names of CUB are not there")
        classes = list(read_attribute_splits(golden_data / "gbu" / "CUB" / "att_splits.mat").class_names)
        written = [name.partition(".")[2].replace("_", " ") for name in classes]
    else:
        classes = written = list(unseen.load_dataset("packaged:emoji?classes=120").class_names)
    backbone = unseen.load_backbone(f"open_clip:{clip_folder}")
    assert backbone.text is not None
    found = prompt_embeddings(backbone.text, classes, read_templates("simple"))
    model = open_clip.CLIP(**CONFIG).eval()
    from safetensors.torch import load_file

    model.load_state_dict(load_file(clip_folder / "open_clip_model.safetensors"))
    tokenizer = open_clip.SimpleTokenizer(context_length=16)
    reference = open_clip.build_zero_shot_classifier(model, tokenizer, written, templates).numpy().T
    np.testing.assert_allclose(found, reference, atol=1e-5)


def test_several_descriptions_of_a_class(tmp_path: Path) -> None:
    """Mean and maximum against a loop over texts; a class of fewer texts has no disadvantage."""
    vectors = {"round": [1.0, 0, 0], "a red apple": [0, 2.0, 0], "grey": [0, 0, 3.0]}
    tower = lambda texts: np.asarray([vectors[text] for text in texts])  # noqa: E731
    (tmp_path / "texts.json").write_text(json.dumps({"apple": ["round", "a red {}"], "big_stone": "grey"}))
    (tmp_path / "texts.csv").write_text("apple,round,a red {}\nbig_stone,grey\n")
    X = np.asarray([[1.0, 1.0, 0.9], [0.2, 0.0, 1.0]])
    for file in ("texts.json", "texts.csv"):
        texts = read_descriptions(tmp_path / file, named(["apple", "big stone"]))
        assert texts == [["round", "a red {}"], ["grey"]]
        mean, most = (
            prompt_scores(X, prompt_embeddings(tower, ["apple", "big stone"], (), descriptions=texts, combine=how))
            for how in ("mean", "max")
        )
        for i, row in enumerate(X / np.linalg.norm(X, axis=1, keepdims=True)):
            assert most[i] == pytest.approx([max(row[0], row[1]), row[2]])
            assert mean[i] == pytest.approx([(row[0] + row[1]) / 2**0.5, row[2]])
    with pytest.raises(DataError, match=r"no text for 1 of 2 classes: 'aple' \(did you mean 'apple'"):
        read_descriptions(tmp_path / "texts.csv", named(["aple", "big stone"]))


def test_names_and_templates_of_clip_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of clip_benchmark 1.6: datasets/en_*.json, templates with {c}."""
    folder = tmp_path / "clip_benchmark" / "datasets"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise RuntimeError('the package is not imported')")
    (folder / "en_classnames.json").write_text(json.dumps({"pets": ["Abyssinian", "Bengal"]}))
    (folder / "en_zeroshot_classification_templates.json").write_text(json.dumps({"pets": ["a {c}, a type of pet."]}))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert curated_names("clip_benchmark:pets", named(["0", "1"])) == ["Abyssinian", "Bengal"]
    assert read_templates("clip_benchmark:pets") == ("a {}, a type of pet.",)
    with pytest.raises(DataError, match="has 2 names; the dataset has 3"):
        curated_names("clip_benchmark:pets", named(["0", "1", "2"]))
    with pytest.raises(UnseenError, match="pets"):
        read_templates("clip_benchmark:pest")


def test_blocks_of_images_give_the_scores_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    from unseen.benchmarks.clip.protocol import classify

    rng = np.random.default_rng(0)
    X, S, y = rng.normal(size=(50, 8)), rng.normal(size=(12, 8)), rng.integers(0, 12, 50)
    scores = prompt_scores(X, S)
    order = np.argsort(-scores, axis=1)
    monkeypatch.setattr("unseen.zeroshot.protocol._BLOCK_VALUES", 12 * 7)
    best, in_top5 = classify(X.astype(np.float64), y, S)
    np.testing.assert_array_equal(best, order[:, 0])
    np.testing.assert_array_equal(in_top5, (order[:, :5] == y[:, None]).any(1))


def test_descriptions_and_maximum_change_the_numbers_of_both_commands(
    home: Path, clip_folder: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.json").write_text(json.dumps({name: [f"a {name}", f"the sound of {name}"] for name in NAMES}))
    more = ["--models", f"open_clip:{clip_folder}", "--home", str(home), "--descriptions", str(tmp_path / "texts.json")]
    zsl = ["--embedding", "prompts", "--methods", "prompt", "--split", "SS", "--share", "0.25"]
    for combine in ("mean", "max"):
        assert main(["clip", "run", str(pictures), *more, "--combine", combine]) == 0
        assert main(["zsl", "run", str(pictures), *more, *zsl, "--combine", combine]) == 0
    capsys.readouterr()
    assert main(["zsl", "run", str(pictures), *more, "--embedding", "prompts", "--combine", "max", "--dry-run"]) == 2
    assert "--methods prompt" in capsys.readouterr().err
    assert main(["clip", "run", str(pictures), *more, "--class-names", "no.txt", "--dry-run"]) == 2
    assert "no.txt" in capsys.readouterr().err


def test_prompts_have_generalised_metrics_and_calibration(
    home: Path, clip_folder: Path, pictures: Path, tmp_path: Path
) -> None:
    (tmp_path / "unseen.txt").write_text("apple\nbobcat\n")
    options = {
        "methods": ["prompt"],
        "embedding": "prompts",
        "templates": "plain",
        "split": f"file:{tmp_path}/unseen.txt",
    }
    results = []
    for calibration in (0.0, "auto"):
        study = unseen.Study(
            "both", (f"open_clip:{clip_folder}",), (str(pictures),), {"zsl": {**options, "calibration": calibration}}
        )
        results += unseen.run_study(study, report=False).results
    plain, tuned = results
    assert {"zsl", "ts", "tr", "H", "AUSUC"} <= set(plain.metrics)
    assert plain.metrics["AUSUC"] == tuned.metrics["AUSUC"], "the curve needs no constant"
    assert plain.metrics["zsl"] == tuned.metrics["zsl"]
    assert tuned.details["calibration"] != 0
