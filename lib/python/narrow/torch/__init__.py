"""Training with PyTorch: watch a run, emulate a format in it, find the first operation that differs."""

from __future__ import annotations

from ._emulate import Emulation, emulate, recipes

__all__ = ["Emulation", "emulate", "recipes"]
