"""A benchmark from an ontology of one's own: levels of products ever further from those it was trained on.

python examples/own_ontology.py products/ --models packaged:efficientnet-lite0
"""

from __future__ import annotations

import argparse
from pathlib import Path

from unseen import Study, run_study
from unseen.concepts import build_levels, filters_for, read_taxonomy, run_funnel

ONTOLOGY = """child,parent
shoe,product
coat,product
chair,product
boot,shoe
sandal,shoe
running shoe,shoe
tennis shoe,shoe
parka,coat
trench coat,coat
armchair,chair
"""
SEEN = ("running shoe", "parka")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a folder with a sub-folder per product: boot, sandal, armchair ...")
    parser.add_argument("--models", nargs="+", default=["packaged:efficientnet-lite0"])
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args(arguments)

    Path("ontology.csv").write_text(ONTOLOGY)
    Path("seen.txt").write_text("".join(f"{name}\n" for name in SEEN))
    ontology = read_taxonomy("ontology.csv")
    eligible = run_funnel(ontology, ontology.ids, filters_for(ontology, ontology.ids, SEEN)).concepts
    build_levels(ontology, eligible, SEEN, levels=2, size=2).save("levels.json")

    options = {"ontology": "ontology.csv", "seen": "seen.txt", "levels": "levels.json", "seeds": given.seeds}
    outcome = run_study(Study("products", tuple(given.models), (given.data,), {"cog": options}))
    for result in outcome.results:
        if result.ok and result.cell.parameters["shots"] == "all":
            print(result.cell.model, result.cell.parameters["level"], f"{100 * result.metrics['top1']:.1f} %")
    print(f"Page: {outcome.page}")


if __name__ == "__main__":
    main()
