"""Datasets: images, labels and splits of any source."""

from unseen.core.names import Options
from unseen.data.dataset import Dataset, Split
from unseen.data.decode import decode_rgb, open_image
from unseen.data.load import DatasetSource, dataset_cards, load_dataset, register_dataset

__all__ = [
    "Dataset",
    "DatasetSource",
    "Options",
    "Split",
    "dataset_cards",
    "decode_rgb",
    "load_dataset",
    "open_image",
    "register_dataset",
]
