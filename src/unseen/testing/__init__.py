"""Contract suites that plug-ins run on their sources, benchmarks and methods.

    from unseen.testing import check_score
    from my_package.scores import CARD

    def test_my_score() -> None:
        check_score(CARD)

Each is a plain function that raises an `AssertionError` with the broken rule.
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.testing.backbones import check_backbone_source as check_backbone_source
    from unseen.testing.benchmarks import check_benchmark as check_benchmark
    from unseen.testing.datasets import check_dataset as check_dataset
    from unseen.testing.datasets import check_dataset_source as check_dataset_source
    from unseen.testing.methods import check_adaptation as check_adaptation
    from unseen.testing.methods import check_zeroshot_method as check_zeroshot_method
    from unseen.testing.scores import check_score as check_score
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
