"""Training with PyTorch: watch a run, emulate a format in it, find the first operation that differs."""

from __future__ import annotations

__all__: list[str] = []
