"""The Python blocks of README and of docs/ run, each by itself."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = [pytest.param(block, id=f"{file.relative_to(ROOT)}:{number}")
          for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
          for number, block in enumerate(re.findall(r"```python\n(.*?)```", file.read_text(encoding="utf-8"), re.S), 1)]  # fmt: skip


@pytest.mark.parametrize("block", BLOCKS)
def test_the_block_runs(block, tmp_path, monkeypatch):
    if "import torch" in block:
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), {})


def test_there_are_blocks():
    assert len(BLOCKS) >= 4
