"""Which checkpoint should I fine-tune? Rank them before fine-tuning: expected accuracies, and which ones are tied.

python examples/choose_checkpoint.py photos/ --models packaged:efficientnet-lite0 packaged:efficientnet-lite1
"""

from __future__ import annotations

import argparse

import unseen


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "data", help="a folder with a sub-folder of images per class, or a name such as packaged:grocery"
    )
    parser.add_argument("--models", nargs="+", default=["packaged:efficientnet-lite0", "packaged:efficientnet-lite1"])
    parser.add_argument("--save", default="ranking.csv", help="where the table goes")
    given = parser.parse_args(arguments)

    ranking = unseen.rank(given.models, given.data)
    print(ranking.headline())
    print(f"Recommended: {ranking.best}")
    print(f"Table: {ranking.save(given.save)}")


if __name__ == "__main__":
    main()
