"""Metadata of the probes of classes, numbers and several labels."""

from __future__ import annotations

from collections.abc import Mapping

from unseen.results.info import TOP1, BenchmarkInfo, MetricStyle

PROBE = BenchmarkInfo(
    title="Linear probe",
    question="How well do frozen features separate the classes?",
    command="probe",
    sentence="""Linear separability of frozen features ({layer} layer) was measured with the {solver} classifier,
        trained on {shots} images per class; hyper-parameters were chosen on validation images only ({validation}),
        never on test images""",
    citations=("cog",),
    metrics=(TOP1,),
)


def _mean_prediction(details: Mapping[str, object]) -> float:
    """Return R² of predicting the mean for every image."""
    return 0.0


REGRESSION = BenchmarkInfo(
    title="Regression probe",
    question="How well do frozen features predict a number?",
    command="probe",
    sentence="""A number per image was predicted from frozen features ({layer} layer) by ridge regression; the penalty
        was chosen on validation images only ({validation}), never on test images""",
    citations=(),
    metrics=(
        MetricStyle("r2", "R²", long_title="R², the share of variance explained", outcomes="image_scores"),
        MetricStyle("mae", "MAE", higher_is_better=False, long_title="mean absolute error"),
        MetricStyle("rmse", "RMSE", higher_is_better=False, long_title="root mean squared error"),
        MetricStyle("pearson", "Pearson", long_title="Pearson's correlation"),
        MetricStyle("spearman", "Spearman", long_title="Spearman's rank correlation"),
    ),
    chance=_mean_prediction,
    targets=("number",),
)

MULTILABEL = BenchmarkInfo(
    title="Multi-label probe",
    question="How well do frozen features predict which labels an image has?",
    command="probe",
    sentence="""Several labels per image were predicted from frozen features ({layer} layer) by one logistic classifier
        per label; penalties and thresholds were chosen on validation images only ({validation}), never on test
        images""",
    citations=(),
    metrics=(
        MetricStyle("map", "mAP", percent=True, long_title="mean average precision"),
        MetricStyle("f1_macro", "F1, macro", percent=True, long_title="F1 averaged over labels"),
        MetricStyle("f1_micro", "F1, micro", percent=True, long_title="F1 of all decisions together"),
        MetricStyle(
            "lrap", "LRAP", percent=True, long_title="label ranking average precision", outcomes="image_scores"
        ),
    ),
    targets=("several",),
)
