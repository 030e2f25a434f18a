"""The records of a run as TensorBoard draws them: shares that formats lose, amax, binades."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Board:
    """to: True for a folder in that of the run, the path of another, or a SummaryWriter, which stays open."""

    def __init__(self, to: Any) -> None:
        self._writer = to
        self._is_ours = not hasattr(to, "add_histogram_raw")
        if self._is_ours:
            try:
                import torch.utils.tensorboard  # noqa: F401
            except ImportError:
                raise ValueError("tensorboard: it is not installed; pip install tensorboard, or leave it out") from None

    def open(self, folder: Path) -> None:
        if self._is_ours:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard" if self._writer is True else self._writer))

    def scalar(self, tag: str, value: float | None, step: int) -> None:
        if value is not None:
            self._writer.add_scalar(tag, value, step)

    def tensor(self, record: dict[str, Any]) -> None:
        """Binades stand at their exponents: the axis is log2 of the magnitude."""
        step, tag = record["step"], f"{record['role']}/{record['name']}"
        self.scalar(f"{tag}/amax", record["amax"], step)
        for row in record["formats"]:
            lost = (row["underflow"] + row["overflow"]) / max(1, record["count"])
            self.scalar(f"{tag}/lost in {row['format']}", lost, step)
        counts = record["binades"] if "binades" in record else [*map(sum, zip(record["negative"], record["positive"]))]
        if not counts:
            return
        low = record["first"]
        middles = [low + i + 0.5 for i in range(len(counts))]
        moment = lambda power: sum(n * x**power for n, x in zip(counts, middles))
        self._writer.add_histogram_raw(
            f"{tag}/log2", min=low, max=low + len(counts), num=sum(counts), sum=moment(1), sum_squares=moment(2),
            bucket_limits=[low + i + 1 for i in range(len(counts))], bucket_counts=counts, global_step=step,
        )  # fmt: skip

    def close(self) -> None:
        self._writer.close() if self._is_ours else self._writer.flush()
