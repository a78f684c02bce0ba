"""`unseen.evaluate` beside VisBench's classification probe: the same folder, the same network with the same weights.

python bench/facade.py            # needs: pip install --no-deps visbench

Each runs in a process of its own with one thread for torch, and its CPU time is that of the process, imports and the
building of the network left out. VisBench gets the network's last map, from which it makes its own pooled features;
ours finds the same ones by itself. Asked for: half of VisBench's CPU time, and no lower accuracy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODES = ("visbench", "unseen")


def write_photographs(folder: Path) -> None:
    """The packaged photographs as a folder per class, in train and test."""
    import unseen

    data = unseen.load_dataset("packaged:grocery")
    for split in ("train", "test"):
        images = data.split(split)
        for i in range(len(images)):
            target = folder / split / data.class_names[images.labels[i]]
            target.mkdir(parents=True, exist_ok=True)
            images.open(i).convert("RGB").save(target / f"{i:05d}.jpg", quality=95)


def network():
    """ResNet-18 of timm with random weights, and its preprocessing as a torchvision transform."""
    from unseen.core.torchvision_shim import ensure_torchvision

    ensure_torchvision()
    import timm
    import torch
    from torchvision import transforms

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = timm.create_model("resnet18", pretrained=False, num_classes=0).eval()
    steps = [transforms.Resize(256, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(224)]
    normal = transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    return net, transforms.Compose([*steps, transforms.ToTensor(), normal])


def run(mode: str, folder: Path) -> None:
    """One of the two, as a process of its own: prints its accuracy and CPU seconds."""
    net, transform = network()
    if mode == "unseen":
        import unseen
        from unseen.api import evaluate  # noqa: F401 - imports are not timed on either side

        began = time.process_time()
        found = unseen.evaluate(net, folder, transform=transform, home=folder.parent / "home")
        accuracy = found.top1
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
        backbone = CustomBackbone(Maps(net), transform, name="resnet18", embed_dim=512, device="cpu")
        train, test = (ImageFolderDataset(folder / split, split) for split in ("train", "test"))
        cache = FeatureCache(folder.parent / "cache")
        done = visbench.run(backbone, "classification", test, train_dataset=train, cache=cache, device="cpu")
        accuracy = done.metrics.get("accuracy", done.metrics.get("top1"))
    print(json.dumps({"accuracy": float(accuracy), "seconds": time.process_time() - began}))


def main() -> None:
    if len(sys.argv) == 3:
        run(sys.argv[1], Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "photos"
        write_photographs(folder)
        found = {}
        for mode in MODES:
            command = [sys.executable, __file__, mode, str(folder)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                print(f"{mode}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'failed'}")
                continue
            found[mode] = json.loads(done.stdout.strip().splitlines()[-1])
            print(f"{mode:10} top-1 {100 * found[mode]['accuracy']:5.1f} %   CPU {found[mode]['seconds']:6.1f} s")
    if len(found) == 2:
        ratio = found["visbench"]["seconds"] / found["unseen"]["seconds"]
        lead = 100 * (found["unseen"]["accuracy"] - found["visbench"]["accuracy"])
        print(f"{ratio:.1f}x less CPU time (asked: 2), accuracy {lead:+.1f} points (asked: not lower)")


if __name__ == "__main__":
    main()
