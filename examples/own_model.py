"""How good are the features of my network on my images? One call, with an nn.Module and a folder.

python examples/own_model.py photos/ --seeds 3
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import unseen


class Net(nn.Module):
    """Any module will do: features are what enters its last linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 32, 5, stride=4), nn.ReLU()),
            *(nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a folder with a sub-folder of images per class")
    parser.add_argument("--weights", help="a state dict of the network above; random weights without it")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(arguments)

    net = Net()
    if given.weights:
        net.load_state_dict(torch.load(given.weights, weights_only=True))
    result = unseen.evaluate(net, given.data, seeds=given.seeds)
    low, high = result.interval.low, result.interval.high
    print(f"top-1 {100 * result.top1:.1f} % [{100 * low:.1f}, {100 * high:.1f}] on the held-out fifth of {given.data}")


if __name__ == "__main__":
    main()
