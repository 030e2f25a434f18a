"""Training with PyTorch: watch a run, emulate a format in it, find the first operation that differs."""

from __future__ import annotations

from ._batch import BatchInvariance, batch_invariance
from ._compare import Comparison, compare
from ._nonfinite import FirstNonfinite, first_nonfinite
from ._trace import Trace, trace

__all__ = [
    "BatchInvariance", "Comparison", "FirstNonfinite", "Trace", "batch_invariance", "compare", "first_nonfinite",
    "trace",
]  # fmt: skip
