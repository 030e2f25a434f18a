import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import narrow


@pytest.fixture(scope="session")
def program():
    """Runs the program and reads its JSON: an answer that came through files and a command line."""
    here = Path(narrow.__file__).parent
    places = [os.environ.get("NARROW_PROGRAM", ""), here / "bin" / "narrow", here.parent.parent / "apps" / "narrow"]
    path = next((p for p in places if p and Path(p).exists()), None)
    if path is None:
        pytest.skip("no program beside the package")

    def run(*words):
        done = subprocess.run([path, *map(str, words), "--json"], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def spread():
    """Floats of all magnitudes and signs, with specials."""

    def make(count, seed=0):
        rng = np.random.default_rng(seed)
        words = rng.integers(0, 2**32, count, dtype=np.uint32)
        return words.view(np.float32)

    return make


@pytest.fixture(autouse=True)
def names(doctest_namespace):
    doctest_namespace.update(narrow=narrow, np=np)
