"""Datasets: `LanceDataset` in chapters, and the functions that open and write them."""

from pilum.dataset.lance_dataset import LanceDataset, dataset, write_dataset
from pilum.dataset.operations import LanceOperation, Transaction
from pilum.dataset.scanner import LanceScanner

__all__ = [
    "LanceDataset",
    "LanceOperation",
    "LanceScanner",
    "Transaction",
    "dataset",
    "write_dataset",
]
