"""One call for one question, with names or with objects, over the same studies that files and commands describe.

unseen.extract(model, data)                  features and labels, through the store
unseen.evaluate(model, train, test)          probe accuracy with its interval
unseen.compare({"a": model_a, ...}, data)    several models on the same images, pair by pair
unseen.rank(models, data)                    which checkpoint to fine-tune
unseen.evaluate_zeroshot(X, y, S)            zero-shot methods on arrays
unseen.load_results()                        what was computed before
"""

from typing import TYPE_CHECKING

from unseen.core.registry import lazy_exports

if TYPE_CHECKING:
    from unseen.api.callback import ProbeCallback as ProbeCallback
    from unseen.api.comparing import compare as compare
    from unseen.api.extracting import extract as extract
    from unseen.api.probing import evaluate as evaluate
    from unseen.api.ranking import rank as rank
    from unseen.api.ranking import rank_checkpoints as rank_checkpoints
    from unseen.api.ranking import rank_study as rank_study
    from unseen.api.reading import load_results as load_results
    from unseen.api.zeroshot import evaluate_zeroshot as evaluate_zeroshot
else:
    __all__, __getattr__, __dir__ = lazy_exports(__name__)
