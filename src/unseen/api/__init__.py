"""The Python functions: one call for one question, with names or with objects, on the execution path of the CLI.

unseen.extract(model, data)                  features and labels, cached
unseen.evaluate(model, train, test)          probe accuracy with a confidence interval
unseen.compare({"a": model_a, ...}, data)    several models on the same images, pair by pair
unseen.rank(models, data)                    which checkpoint to fine-tune
unseen.evaluate_zeroshot(X, y, S)            zero-shot methods on arrays
unseen.load_results()                        stored results
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.api.callback import ProbeCallback as ProbeCallback
    from unseen.api.comparison import compare as compare
    from unseen.api.evaluation import evaluate as evaluate
    from unseen.api.extraction import extract as extract
    from unseen.api.ranking import rank as rank
    from unseen.api.ranking import rank_checkpoints as rank_checkpoints
    from unseen.api.ranking import rank_study as rank_study
    from unseen.api.stored import load_results as load_results
    from unseen.api.zeroshot import evaluate_zeroshot as evaluate_zeroshot
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
