"""PyTorch: watch a run, emulate a format in it, find the first operation that differs, predict what a GPU returns."""

from __future__ import annotations

from ._batch import BatchInvariance, batch_invariance
from ._compare import Comparison, compare
from ._emulate import Emulation, emulate, recipes
from ._nonfinite import FirstNonfinite, first_nonfinite
from ._predict import Account, predict
from ._trace import Trace, trace
from ._training import TrainingPrediction, predicting
from ._watch import Watch, watch

__all__ = [
    "Account", "BatchInvariance", "Comparison", "Emulation", "FirstNonfinite", "Trace", "TrainingPrediction", "Watch", "batch_invariance",
    "compare", "emulate", "first_nonfinite", "predict", "predicting", "recipes", "trace", "watch",
]  # fmt: skip
