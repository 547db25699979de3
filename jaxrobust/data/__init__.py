"""Data sets: sources of images and labels, the embedded set, and the checks on user input.

Imports numpy and `jaxrobust.core`; scikit-learn only when its digits are loaded.
"""

from jaxrobust.core.validation import check_images
from jaxrobust.data.npz import load_npz
from jaxrobust.data.registry import DATASETS, list_datasets, load_data
from jaxrobust.data.source import ArraySource, Dataset, DataSource

__all__ = [
  "DATASETS",
  "ArraySource",
  "DataSource",
  "Dataset",
  "check_images",
  "list_datasets",
  "load_data",
  "load_npz",
]
