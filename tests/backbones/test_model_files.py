"""Files that cannot be loaded are refused before any work; every file that a model reads is part of its identity."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import unseen
from unseen.backbones import backbone_revision, check_backbone, load_backbone
from unseen.backbones.load import BACKBONES
from unseen.backbones.model_files import folder_digest, may_hold_several_networks
from unseen.cli import main
from unseen.core.errors import BackboneError, CheckpointError, UnknownNameError
from unseen.study import Study, run_study


class Net(nn.Sequential):
    """A module that a pickle names by its class."""


def network() -> nn.Module:
    return Net(nn.Conv2d(3, 4, 3, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def unloadable(folder: Path) -> dict[str, Path]:
    found = {name: folder / f"{name}.pth" for name in ("module", "legacy", "sequential", "script", "garbage", "cut")}
    torch.save(network(), found["module"])
    torch.save(network(), found["legacy"], _use_new_zipfile_serialization=False)
    torch.save(nn.Sequential(nn.Linear(2, 2)), found["sequential"])
    torch.jit.save(torch.jit.trace(network().eval(), torch.zeros(1, 3, 32, 32)), found["script"])
    found["garbage"].write_bytes(b"not a checkpoint at all")
    torch.save({"a": torch.zeros(1000)}, folder / "whole.pth")
    found["cut"].write_bytes((folder / "whole.pth").read_bytes()[:-200])
    torch.save({"epoch": 3}, folder / "empty.pth")
    found["empty"] = folder / "empty.pth"
    save_file({"a": torch.zeros(1000)}, folder / "whole.safetensors")
    found["short"] = folder / "short.safetensors"
    found["short"].write_bytes((folder / "whole.safetensors").read_bytes()[:-200])
    return found


REASONS = {
    "module": "names code .*Net.*Save its state dict alone",
    "legacy": "names code .*Net.*Save its state dict alone",
    "sequential": r"names code \(torch.nn.modules.*Save its state dict alone",
    "script": "TorchScript archive.*Save its state dict alone",
    "garbage": "cannot be read as a checkpoint: it is damaged, or not a file that torch.save",
    "cut": "cannot be read as a checkpoint",
    "empty": "has no tensors",
    "short": "incomplete",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_files_that_cannot_be_loaded_are_refused_by_the_check_and_by_loading_alike(tmp_path: Path) -> None:
    files = unloadable(tmp_path)
    assert files.keys() == REASONS.keys()
    for kind, path in files.items():
        with pytest.raises(CheckpointError, match=REASONS[kind]) as checked:
            check_backbone(path)
        with pytest.raises(CheckpointError) as loaded:
            load_backbone(f"{path}?arch=timm:test_resnet")
        assert str(checked.value) == str(loaded.value), kind


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("command", ["probe", "rank"])
def test_a_dry_run_refuses_them_with_one_message(
    command: str, images: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, path in unloadable(tmp_path).items():
        for more in (["--dry-run"], []):
            assert main([command, str(images), "--models", str(path), *more]) == 2, (kind, more)
            printed = capsys.readouterr()
            assert (printed.out + printed.err).count(path.name) == 1, (kind, more)
    assert not (home / "features").exists() and not (home / "reports").exists()


@pytest.mark.parametrize("command", ["probe", "rank"])
@pytest.mark.parametrize(
    ("model", "advice"),
    [("timm:resnet5", "'resnet50'"), ("resnet50", "'timm:resnet50'"), ("missing.pth", "no checkpoint at")],
)
def test_a_misspelt_model_is_a_usage_error_before_any_work(
    command: str, model: str, advice: str, images: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(images), "--models", "random:test_resnet?size=64", model]) == 2
    assert advice in capsys.readouterr().err
    assert not (home / "features").exists() and not (home / "reports").exists()


def test_ordinary_checkpoints_pass(tmp_path: Path) -> None:
    state = {"w": torch.zeros(3), "half": torch.zeros(2, dtype=torch.bfloat16), "p": nn.Parameter(torch.zeros(2))}
    extras = {"args": argparse.Namespace(lr=0.1), "best": np.float64(0.5), "loss": np.zeros(3), "when": (1, {2, 3})}
    for legacy in (False, True):
        torch.save({"state_dict": state, **extras}, tmp_path / "a.pth", _use_new_zipfile_serialization=not legacy)
        check_backbone(tmp_path / "a.pth")
    save_file({"w": torch.zeros(3), "none": torch.zeros(0)}, tmp_path / "a.safetensors")
    check_backbone(tmp_path / "a.safetensors")


def test_checking_a_checkpoint_does_not_import_torch(tmp_path: Path) -> None:
    torch.save({"state_dict": {"w": torch.zeros(3)}}, tmp_path / "a.pth")
    code = (
        "import sys; from unseen.backbones import backbone_revision, check_backbone\n"
        f"check_backbone({str(tmp_path / 'a.pth')!r}); backbone_revision({str(tmp_path / 'a.pth')!r})\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_descriptions_of_models_do_not_import_torch() -> None:
    code = (
        "import sys; from unseen.backbones import BACKBONES, backbone_revision, check_backbone, model_cards\n"
        "assert len(list(model_cards())) > 30 and all(scheme for scheme, _ in BACKBONES.entries())\n"
        "check_backbone('packaged:efficientnet-lite0'); backbone_revision('packaged:efficientnet-lite0')\n"
        "check_backbone('cog:s-dino')\n"
        "assert not {'torch', 'timm', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Identity: replaced files invalidate the cells that were computed with the old ones.


def done_again(model: str, images: Path) -> int:
    """Run a small study and return how many of its cells were evaluated, not found in the database."""
    study = Study("s", (model,), (f"folder:{images}",), {"probe": {"solver": "ncm", "seeds": (0,)}})
    outcome = run_study(study, report=False)
    assert not outcome.failed, outcome.failed[0].error
    return outcome.evaluated


NET = (
    "import torch\n\ndef net():\n    torch.manual_seed(0)\n"
    "    return torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3, 4), {})\n"
)
POOL = "torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "parts").mkdir(parents=True)
    (folder / "hubconf.py").write_text("def tiny():\n    from parts.net import net\n    return net()\n")
    (folder / "parts" / "net.py").write_text(NET.format(POOL))
    return folder


def test_an_edited_module_of_a_checkout_invalidates_cells(checkout: Path, images: Path, home: Path) -> None:
    name = f"torchhub:{checkout}/tiny"
    assert [done_again(name, images) for _ in range(2)] == [1, 0]
    weights = load_backbone(name).weights
    (checkout / "parts" / "net.py").write_text(NET.format(f"torch.nn.Tanh(), {POOL}"))  # the same weights
    assert [done_again(name, images) for _ in range(2)] == [1, 0]
    edited = load_backbone(name)
    assert any(isinstance(part, nn.Tanh) for part in edited.module), "the edited code runs"
    assert edited.weights != weights


def test_checkouts_do_not_import_one_anothers_modules(checkout: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "parts").mkdir(parents=True)
    (other / "hubconf.py").write_text((checkout / "hubconf.py").read_text())
    (other / "parts" / "net.py").write_text(NET.format(POOL).replace("3, 5", "3, 7"))
    widths = [load_backbone(f"torchhub:{folder}/tiny").feature_dim for folder in (checkout, other, checkout)]
    assert widths == [5, 7, 5]


def test_what_a_folder_digest_covers(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = folder_digest(checkout)
    for unread in (".git/HEAD.txt", "parts/__pycache__/net.py", "photo.png", "home/cards/a.json"):
        (checkout / unread).parent.mkdir(parents=True, exist_ok=True)
        (checkout / unread).write_text("1")
        (checkout / "home" / "results.sqlite").touch() if unread.startswith("home") else None
        assert folder_digest(checkout) == first, unread
    (checkout / "weights.pth").write_bytes(b"1")
    second = folder_digest(checkout)
    assert second != first
    (checkout / "weights.pth").rename(checkout / "other.pth")
    assert folder_digest(checkout) not in (first, second)
    monkeypatch.setattr("unseen.backbones.model_files._MOST_FILES", 2)
    with pytest.raises(BackboneError, match="more than 2 source and weights files"):
        folder_digest(checkout)


def test_another_transform_is_another_model(images: Path, home: Path) -> None:
    torch.manual_seed(0)
    net, shift = network(), [0.0]

    def transform(image: Any) -> np.ndarray:
        return np.asarray(image.resize((32, 32)), np.float32).transpose(2, 0, 1) / 255 + shift[0]

    def run() -> tuple[int, str]:
        from unseen.backbones.objects import OBJECTS, as_backbone

        name = OBJECTS.add(as_backbone(net, transform=transform))
        try:
            return done_again(name, images), name
        finally:
            OBJECTS.release(name)

    (first, name), (again, _) = run(), run()
    shift[0] = 0.5
    changed, other = run()
    assert (first, again, changed) == (1, 0, 1)
    assert name != other


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Writes the package `unseen_test_plugin`, registers its model, and returns the folder."""
    folder = tmp_path / "site" / "unseen_test_plugin"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(folder.parent))

    def write(body: str) -> Path:
        for name in [n for n in sys.modules if n.startswith("unseen_test_plugin")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        (folder / "__init__.py").write_text(
            "from unseen_test_plugin.net import net\n\ndef model():\n    return net()\n"
        )
        (folder / "net.py").write_text(body)
        BACKBONES._targets.pop("unseen-test-plugin", None)
        unseen.register_backbone("unseen-test-plugin")(importlib.import_module("unseen_test_plugin").model)
        return folder

    yield write
    BACKBONES._targets.pop("unseen-test-plugin", None)


def test_an_edited_module_of_a_plug_in_invalidates_cells(
    plugin: Callable[[str], Path], images: Path, home: Path
) -> None:
    plugin(NET.format(POOL))
    assert [done_again("unseen-test-plugin", images) for _ in range(2)] == [1, 0]
    weights = load_backbone("unseen-test-plugin").weights
    plugin(NET.format(f"torch.nn.Tanh(), {POOL}"))
    assert [done_again("unseen-test-plugin", images) for _ in range(2)] == [1, 0]
    assert load_backbone("unseen-test-plugin").weights != weights


# Plain paths.


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    from unseen.backbones.sources.timm import create_timm

    torch.manual_seed(0)
    torch.save(create_timm("test_resnet", pretrained=False).state_dict(), tmp_path / "mine.pth")
    return tmp_path / "mine.pth"


def test_plain_paths_are_accepted_as_on_the_command_line(
    checkpoint: Path, images: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(checkpoint.parent)
    name = f"file:{checkpoint}?arch=timm:test_resnet&size=64"
    options = "?arch=timm:test_resnet&size=64"
    for given in (f"mine.pth{options}", f"./mine.pth{options}", f"{checkpoint}{options}", name):
        assert load_backbone(given).id == name
        assert backbone_revision(given) == backbone_revision(name)
    assert main(["probe", str(images), "--models", f"mine.pth{options}", "--solver", "ncm"]) == 0
    for given in ("mine.pth", str(checkpoint), f"mine.pth{options}", name):
        capsys.readouterr()
        assert main(["results", "--models", given]) == 0
        assert "mine.pth" in capsys.readouterr().out
    assert main(["results", "--models", "mime.pth"]) == 2
    assert main(["results", "forget", "--models", "mine.pth", "--yes"]) == 0
    with pytest.raises(UnknownNameError, match="'timm:resnet50'"):
        load_backbone("resnet50")


def test_every_source_records_what_it_loaded(tmp_path: Path, checkpoint: Path, checkout: Path) -> None:
    from unseen.backbones.objects import as_backbone

    def facts(backbone: Any) -> tuple[str, str, str]:
        assert backbone.loaded is not None
        return backbone.loaded.file, backbone.loaded.architecture, backbone.loaded.layer

    pooled, output = "pooled features", "the output of the module"
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4), nn.ReLU(), nn.Linear(4, 10))
    expected = {
        "random:test_resnet?size=64": ("", "test_resnet", pooled),
        "random:torchvision:resnet18?size=64": ("", "resnet18", pooled),
        f"{checkpoint}?arch=timm:test_resnet": ("mine.pth", "timm:test_resnet", pooled),
        f"torchhub:{checkout}/tiny": ("", "Sequential", output),
    }
    for name, wanted in expected.items():
        assert facts(load_backbone(name)) == wanted
    size = unseen.load_backbone("random:test_resnet?size=32").preprocessing
    assert facts(as_backbone(classifier, preprocessing=size)) == ("", "Sequential", pooled)
    assert facts(as_backbone(network())) == ("", "Net", output)
    assert facts(as_backbone(lambda batch: batch.mean((1, 2)))) == ("", "function", "the output of the function")


def test_the_record_of_a_result_has_the_model(checkpoint: Path, images: Path, home: Path) -> None:
    study = Study(
        "s", (f"{checkpoint}?arch=timm:test_resnet&size=64",), (f"folder:{images}",), {"probe": {"solver": "ncm"}}
    )
    (first, *_) = run_study(study, report=False).results
    assert first.record.model is not None
    assert first.record.model.file == "mine.pth"
    assert type(first.record).from_dict(first.record.to_dict()).model == first.record.model


@pytest.mark.parametrize("legacy", [False, True])
def test_files_with_several_networks_have_another_revision(tmp_path: Path, legacy: bool) -> None:
    """Version 0.1 chose among networks by another rule: its stored results of such files do not count any more."""
    weight = torch.zeros(2, 2)
    plain, several = tmp_path / "plain.pth", tmp_path / "dino.pth"
    torch.save({"state_dict": {"fc.weight": weight}}, plain, _use_new_zipfile_serialization=not legacy)
    both = {"student": {"fc.weight": weight}, "teacher": {"fc.weight": weight}}
    torch.save(both, several, _use_new_zipfile_serialization=not legacy)
    assert not may_hold_several_networks(plain)
    assert may_hold_several_networks(several)
    assert backbone_revision(f"file:{several}?arch=timm:test_resnet").endswith(" networks.2")
    assert not backbone_revision(f"file:{plain}?arch=timm:test_resnet").endswith("networks.2")
