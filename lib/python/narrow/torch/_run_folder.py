"""The writer of run folders: run.json once and whole, then lines that are appended, each in one write.

What is written outlives the process: a crash leaves at most one line without its end, which readers leave out.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

LOGS = ("tensors.jsonl", "scale.jsonl", "loss.jsonl")
TAIL = 1 << 20  # bytes; no line is as long


def number(x: float | None) -> Any:
    """x as JSON takes it: what is no number there is a word, as in the program's JSON."""
    return x if x is None or math.isfinite(x) else "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"


def _last_step(path: Path) -> int:
    """The step of the last whole line, -1 without one. What comes after that line is cut off."""
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL))
        whole, end, torn = file.read().rpartition(b"\n")
        if torn:
            file.truncate(size - len(torn))
    if not end:
        return -1
    try:
        return int(json.loads(whole.rpartition(b"\n")[2])["step"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"to: the last line of {path} is no record of a run; take another folder") from None


class RunFolder:
    """to: a folder that is new or empty; with resume that of an earlier run with the same formats."""

    def __init__(self, to: str | os.PathLike[str], about: dict[str, Any], resume: bool) -> None:
        self.path = Path(to)
        head = self.path / "run.json"
        self.last_step = -1
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"to: {self.path} is a file; a folder that is new or empty is needed")
        if head.exists():
            if not resume:
                raise ValueError(f"to: {self.path} holds a run; take another folder, or resume=True to go on with it")
            self._check(head, about)
            if packed := [log for log in LOGS if (self.path / f"{log}.gz").exists()]:
                raise ValueError(f"to: {self.path / packed[0]}.gz is packed; gunzip it to go on with the run")
            self.last_step = max((_last_step(p) for p in map(self.path.joinpath, LOGS) if p.exists()), default=-1)
        elif self.path.exists() and any(self.path.iterdir()):
            raise ValueError(f"to: {self.path} is no folder of a run and not empty; take another folder")
        self._files: dict[str, int] = {}
        if not head.exists():
            self.path.mkdir(parents=True, exist_ok=True)
            part = head.with_name(f"run.json.{os.getpid()}")
            with open(part, "w") as file:
                file.write(json.dumps(about) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, head)

    @staticmethod
    def _check(head: Path, about: dict[str, Any]) -> None:
        try:
            earlier = json.loads(head.read_text())
            version, formats = earlier["narrow_run"], earlier["formats"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"to: {head} does not describe a run; take another folder") from None
        if version != about["narrow_run"]:
            raise ValueError(f"to: {head} is of version {version!r}, and this writes {about['narrow_run']}")
        if formats != about["formats"]:
            raise ValueError(f"formats: {about['formats']}, but the run in {head.parent} has {formats}; give those")

    def append(self, log: str, line: str) -> None:
        """One line, in one write: those of other processes do not come between."""
        if log not in self._files:
            self._files[log] = os.open(self.path / log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        data = line.encode() + b"\n"
        if os.write(self._files[log], data) != len(data):
            raise OSError(f"{self.path / log}: the disk took a part of a line")

    def close(self) -> None:
        while self._files:
            os.close(self._files.popitem()[1])
