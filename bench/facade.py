"""`unseen.evaluate` beside VisBench's classification probe: the same folder, the same network with the same weights.

python bench/facade.py [NETWORKS] [EVERY]      # needs: pip install --no-deps visbench
python bench/facade.py lite0                   # EfficientNet-Lite0, trained, instead of random networks

Each runs in a process of its own with one thread for torch, and its CPU time is that of the process, imports and the
building of the network left out. VisBench gets the network's last map, from which it makes its own pooled features;
ours finds the same ones by itself. All see the same 1,336 photographs, half of each class to train on and half to test
on, drawn at random, and the same pixels: what differs is how the network is run, and the probe. With OWN=1 in the
environment the halves are the set's own, whose test photographs are of other shops: there 80 % on images left out
become 48 %, and a probe that fits less is better off. `unseen-bf16` is the same call with how=Extraction(precision=
"bf16"). With several networks (random weights of seeds 0, 1, ...) the difference of accuracies has an interval over
test images; EVERY 4 takes a quarter of the photographs. Target: half of VisBench's CPU time, no lower accuracy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tables import Table

MODES = ("visbench", "unseen", "unseen-bf16")


def write_photographs(folder: Path, every: int = 1) -> None:
    """The packaged photographs (or one of so many) as a folder per class, in train and test."""
    import unseen
    from unseen.data.dataset import join_splits
    from unseen.data.subset import stratified_split

    data = unseen.load_dataset("packaged:grocery")
    parts = {name: data.split(name) for name in ("train", "test")}
    if "OWN" not in os.environ:
        pooled = join_splits(list(parts.values()))
        halves = stratified_split(pooled.names, pooled.labels, test=0.5)
        parts = {name: pooled.take(rows) for name, rows in halves.items()}
    for name, images in parts.items():
        for i in range(0, len(images), every):
            target = folder / name / data.class_names[images.labels[i]]
            target.mkdir(parents=True, exist_ok=True)
            images.open(i).convert("RGB").save(target / f"{i:05d}.jpg", quality=95)


def network(seed: str):
    """ResNet-18 of timm with random weights of a seed, or Lite0, and its preprocessing as a torchvision transform."""
    from unseen.core.extras import ensure_torchvision

    ensure_torchvision()
    import timm
    import torch
    from torchvision import transforms

    torch.set_num_threads(1)
    if seed == "lite0":
        from unseen.backbones import load_backbone

        net = load_backbone("packaged:efficientnet-lite0").module
        net.reset_classifier(0)
    else:
        torch.manual_seed(int(seed))
        net = timm.create_model("resnet18", pretrained=False, num_classes=0).eval()
    steps = [transforms.Resize(256, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(224)]
    half, imagenet = ((0.5,) * 3, (0.5,) * 3), ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    normal = transforms.Normalize(*(half if seed == "lite0" else imagenet))
    return net, transforms.Compose([*steps, transforms.ToTensor(), normal])


def run(mode: str, folder: Path, seed: str) -> None:
    """One of the two, as a process of its own: prints CPU seconds and, per test image by name, whether it was right."""
    net, transform = network(seed)
    if mode != "visbench":
        import unseen
        from unseen.api import evaluate  # noqa: F401 - imports are not timed on either side

        how = unseen.Extraction(precision="bf16" if mode.endswith("bf16") else "fp32")
        began = time.process_time()
        found = unseen.evaluate(net, folder, transform=transform, how=how, home=folder.parent / f"{mode}{seed}")
        seconds = time.process_time() - began
        right = found.correct > 0.5
        names = list(unseen.load_dataset(f"folder:{folder}").split("test").names)
    else:
        import torch
        import visbench
        from visbench.backbones.custom import CustomBackbone
        from visbench.cache import FeatureCache
        from visbench.data.image_folder import ImageFolderDataset

        class Maps(torch.nn.Module):
            def __init__(self, inner: torch.nn.Module) -> None:
                super().__init__()
                self.inner = inner

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.inner.forward_features(x)

        began = time.process_time()
        backbone = CustomBackbone(Maps(net), transform, name="resnet18", embed_dim=net.num_features, device="cpu")
        train, test = (ImageFolderDataset(folder / split, split) for split in ("train", "test"))
        cache = FeatureCache(folder.parent / f"cache{seed}")
        done = visbench.run(backbone, "classification", test, train_dataset=train, cache=cache, device="cpu")
        seconds = time.process_time() - began
        features = cache.extract_dataset(backbone, test, keep="pooled", pooling=backbone.default_pooling())
        right = (done.probe.predict(features).cpu() == torch.tensor(test.labels())).numpy()
        if abs(float(right.mean()) - float(done.metrics["top1"])) > 1e-6:
            raise SystemExit("the predictions are not those behind VisBench's own accuracy")
        names = [str(path.relative_to(folder / "test")) for path in test.paths]
    table = {Path(name).name: bool(one) for name, one in zip(names, right, strict=True)}
    print(json.dumps({"right": table, "seconds": seconds}))


def main() -> None:
    if len(sys.argv) == 4:
        run(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
        return
    asked = sys.argv[1] if len(sys.argv) > 1 else "1"
    networks = [asked] if asked == "lite0" else [str(seed) for seed in range(int(asked))]
    found: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "photos"
        write_photographs(folder, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
        for seed in networks:
            for mode in MODES:
                command = [sys.executable, __file__, mode, str(folder), seed]
                environment = {**os.environ, "OMP_NUM_THREADS": "1"}
                done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
                if done.returncode:
                    raise SystemExit(f"{mode}: {done.stderr.strip()[-800:] or 'failed'}")
                one = json.loads(done.stdout.strip().splitlines()[-1])
                found[mode].append(one)
                accuracy = sum(one["right"].values()) / len(one["right"])
                print(
                    f"network {seed} {mode:10} top-1 {100 * accuracy:5.1f} %   CPU {one['seconds']:6.1f} s", flush=True
                )
    _report(found, networks)


def _report(found: dict[str, list[dict[str, Any]]], networks: list[str]) -> None:
    import numpy as np

    from unseen.metrics import paired_bootstrap

    table = Table("network", "VisBench", "`unseen.evaluate`", 'with `how=Extraction(precision="bf16")`')
    names = sorted(found["unseen"][0]["right"])
    for i, network in enumerate(networks):
        table.add(
            "EfficientNet-Lite0" if network == "lite0" else f"ResNet-18, seed {network}",
            *(f"{r[i]['seconds']:.1f} s, {100 * np.mean(list(r[i]['right'].values())):.1f} %" for r in found.values()),
        )
    gaps = []
    means = {m: np.mean([[one["right"][name] for name in names] for one in runs], axis=0) for m, runs in found.items()}
    for mode in MODES[1:]:
        gap = paired_bootstrap(means[mode], means["visbench"]).difference
        ratios = [a["seconds"] / b["seconds"] for a, b in zip(found["visbench"], found[mode], strict=True)]
        gaps.append(
            f"{min(ratios):.1f} to {max(ratios):.1f} times less, {100 * gap.value:+.1f} points "
            f"[{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
        )
        print(
            f"{mode}: {min(ratios):.2f} to {max(ratios):.2f}x less CPU (asked: 2), accuracy {100 * gap.value:+.1f} "
            f"points [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}] (asked: not lower)"
        )
    table.add("together", "", *gaps)
    table.show()


if __name__ == "__main__":
    main()
