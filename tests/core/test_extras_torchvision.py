"""The operators of torchvision are declared only where its library, whatever it is called, does not load."""

from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from unseen.core import extras


@pytest.mark.parametrize("name", ["_C.so", "_C_stable.so", "_C.cp313-win_amd64.pyd"])
@pytest.mark.parametrize("loads", [True, False])
def test_every_name_of_the_library_is_tried(
    name: str, loads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(b"")
    spec = ModuleSpec("torchvision", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    tried: list[str] = []

    def load(path: str) -> None:
        tried.append(Path(path).name)
        if not loads:
            raise OSError("built for another torch")

    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda _name: spec)
    monkeypatch.setattr(torch.ops, "load_library", load)
    assert extras.torchvision_loads() is loads
    assert tried == [name]


@pytest.mark.parametrize(
    ("installed", "loads", "known", "declared"),
    [
        (True, False, (), ["torchvision::nms", "torchvision::qnms"]),
        (True, False, ("nms",), ["torchvision::qnms"]),
        (True, True, (), []),
        (False, False, (), []),
    ],
)
def test_only_what_is_missing_is_declared(
    installed: bool, loads: bool, known: tuple[str, ...], declared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[str, str]] = []
    spec = ModuleSpec("torchvision", None) if installed else None
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda _name: spec)
    monkeypatch.setattr(extras, "torchvision_loads", lambda: loads)
    monkeypatch.setattr(torch.ops, "torchvision", SimpleNamespace(**dict.fromkeys(known)), raising=False)
    monkeypatch.setattr(torch.library, "define", lambda name, schema: found.append((name, schema)))
    extras.ensure_torchvision.__wrapped__()
    assert [name for name, _ in found] == declared
    assert all(schema == "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for _, schema in found)
