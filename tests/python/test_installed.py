"""The package as pip installs it: numpy is enough, one version everywhere, and the program with the recordings that it reads."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import narrow

HERE = Path(narrow.__file__).resolve().parent
DATA = HERE / "share" / "narrow" / "data"
installed = pytest.mark.skipif(not DATA.exists(), reason="the package of a build folder")


def narrow_says(*words):
    done = subprocess.run([sys.executable, "-m", "narrow", *words], capture_output=True, text=True, env=dict(os.environ, NARROW_DATA=str(DATA)))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_is_of_the_same_version():
    assert subprocess.check_output([sys.executable, "-m", "narrow", "--version"], text=True).replace("-", "") == f"narrow {narrow.__version__}\n"


def test_numpy_is_enough(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert narrow.round(np.float16([0.1]), "e4m3").dtype == np.float16
    ones = np.ones((16, 16), np.float16)
    assert narrow.matmul(ones, ones, model="hopper.wgmma.f16.f16.f16").dtype == np.float16
    with pytest.raises(ImportError, match="install ml_dtypes, or take the codes"):
        narrow.decode(np.uint8([1]), "e4m3", dtype="bfloat16")


@installed
def test_the_version_is_that_of_the_package():
    assert metadata.version("narrow") == narrow.__version__


@installed
def test_types_and_licence_come_along():
    assert (HERE / "py.typed").exists() and "def encode" in (HERE / "_narrow.pyi").read_text()
    assert any(path.name == "LICENSE" for path in metadata.files("narrow"))


@installed
@pytest.mark.parametrize("words", ["run gradient_underflow", "run memory_and_speed", "run watched_run", "run master_weights run=bf16-pure", "gpu plan 64 64 64 --cublas 13.1.0"])
def test_the_program_finds_its_recordings(words):
    said = narrow_says(*words.split(), *(["--fast"] if words.startswith("run") else []), "--json")
    assert "made numbers" not in said
