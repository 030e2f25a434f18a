"""Packages that a test may do without: the tests that use one are skipped where it is absent, the others of their file run."""

import importlib
from typing import Any

import pytest


class Absent:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith(("_", "pytest")):  # what pytest asks of everything that it finds in a file
            raise AttributeError(attribute)
        pytest.skip(f"no {self._name}")


def optional(name: str) -> Any:
    """The module; where there is none, something whose use skips the test."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return Absent(name)
