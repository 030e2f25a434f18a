"""Training with PyTorch: watch a run, emulate a format in it, find the first operation that differs."""

from __future__ import annotations

from ._watch import Watch, watch

__all__: list[str] = ["Watch", "watch"]
