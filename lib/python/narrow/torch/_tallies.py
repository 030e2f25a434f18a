"""Binades and statistics of a step's tensors, computed where each lies.

On the host a tensor is counted at once. On a CUDA device kernels add to records in the device's memory, on the stream
that torch is using; the records are read when the step has ended, and nothing waits before that.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, NamedTuple

import torch

from .. import _kernels, _narrow
from .._arrays import DTYPES, F32, dense, floats, given, plan
from .._device import KERNELS, DeviceArray, on_device

SLOTS = 256  # records of one allocation


class Key(NamedTuple):
    """What is counted together: tensors of one role and name, of one type, in one step."""

    role: str
    name: str
    dtype: str


@functools.lru_cache(maxsize=None)
def _format(dtype: torch.dtype) -> str:
    return DTYPES.get(str(dtype).removeprefix("torch."), ("",))[0]


@functools.lru_cache(maxsize=None)
def _codes(dtype: str) -> _narrow.Plan | None:
    """The plan of what a kernel reads as it lies, apart from float32."""
    p = plan(DTYPES[dtype][0])
    return p if dtype != "float32" and KERNELS.tallies_codes(p) else None


class _Records:
    """The records on one device; the memory stays for the next step."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.blocks: list[torch.Tensor] = []
        self.slots: dict[Key, int] = {}

    def address(self, key: Key, device: torch.device) -> int:
        n = self.slots.setdefault(key, len(self.slots))
        if n // SLOTS == len(self.blocks):
            self.blocks.append(torch.zeros(SLOTS * self.size, dtype=torch.uint8, device=device))
            wait(device)  # kernels on any stream find zeros
        return self.blocks[n // SLOTS].data_ptr() + n % SLOTS * self.size

    def take(self, tallies: dict[Key, _narrow.Tally]) -> None:
        if not self.slots:
            return
        device = self.blocks[0].device
        wait(device)
        copies = [block.to("cpu", copy=True) for block in self.blocks]
        for block in self.blocks:
            block.zero_()
        wait(device)
        for key, n in self.slots.items():
            KERNELS.read_tally(tallies[key], copies[n // SLOTS].data_ptr() + n % SLOTS * self.size)
        self.slots.clear()


def wait(device: torch.device) -> None:
    torch.cuda.synchronize(device)


class Tallies:
    """Counts by key; tensors of one key add up."""

    def __init__(self, formats: list[str]) -> None:
        plans = [plan(name) for name in formats]
        without = [] if KERNELS is None else [p.name for p in plans if not KERNELS.has_statistics(p)]
        self.why_no_device = (
            "this build of narrow has no CUDA" if KERNELS is None
            else f"no kernel of the device measures {', '.join(without)}" if without else ""
        )  # fmt: skip
        self._empty = _narrow.Tally(plans)  # a copy knows what takes time to find out about formats
        self._tallies: dict[Key, _narrow.Tally] = {}
        self._records: dict[int, _Records] = {}
        self._counts: dict[tuple[int, int], torch.Tensor] = {}  # of a device and stream; kernels leave zeros
        self._lock = threading.Lock()  # backward passes on several devices have a thread each

    def why_not(self, x: torch.Tensor) -> str:
        """Why this tensor cannot be counted; empty where it can."""
        if type(x) not in (torch.Tensor, torch.nn.Parameter):
            return f"a {type(x).__name__}"
        if torch._C._functorch.is_functorch_wrapped_tensor(x):
            return "in a transformation of torch.func"
        if x.layout is not torch.strided or x.is_nested:
            return "sparse or nested"
        if x.is_quantized or not _format(x.dtype):
            return f"of type {x.dtype}"
        if x.device.type not in ("cpu", "cuda"):
            return f"on the device {x.device.type}"
        if x.is_cuda and self.why_no_device:
            return f"on a CUDA device, and {self.why_no_device}"
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            return "computed in a CUDA graph"
        return ""

    def add(self, role: str, name: str, x: torch.Tensor) -> None:
        """Counts a tensor for which why_not() has no reason. FP64 is read as FP32, as by narrow.histogram()."""
        key = Key(role, name, _format(x.dtype))
        x = x.detach()
        if x.dtype is torch.float64:
            x = x.float()
        with self._lock:
            if key not in self._tallies:
                self._tallies[key] = _narrow.Tally(self._empty)
            d = on_device(x)
            if d is None:
                self._tallies[key].add(dense(floats(given(x)), F32))
            elif d.size:
                self._add_on_device(key, d)

    def _add_on_device(self, key: Key, d: DeviceArray) -> None:
        values, numbers = d.without_gaps(False), _codes(d.dtype)
        if numbers is None:
            values = _kernels._floats(values)
        device, stream = values.where
        if device not in self._records:
            self._records[device] = _Records(KERNELS.tally_bytes(self._empty))
        records = self._records[device].address(key, values.x.device)
        if (device, stream) not in self._counts:
            self._counts[device, stream] = torch.zeros(KERNELS.counts_bytes, dtype=torch.uint8, device=values.x.device)
        counts = self._counts[device, stream].data_ptr()
        KERNELS.tally(self._empty, values.address, numbers, values.size, records, counts, device, stream)

    def take(self) -> dict[Key, _narrow.Tally]:
        """All that was counted since the last call, in the order in which it came; waits for the devices."""
        with self._lock:
            tallies, self._tallies = self._tallies, {}
            for records in self._records.values():
                records.take(tallies)
        return tallies


class Later:
    """Numbers that may lie on a device: asked for without waiting, read when they have come."""

    def __init__(self, numbers: list[Any]) -> None:
        self._host: list[Any] = []
        self._events: dict[torch.device, torch.cuda.Event] = {}
        for x in numbers:
            if not isinstance(x, torch.Tensor):
                self._host.append(x)
            elif not x.is_cuda:
                self._host.append(x.item())
            else:
                page = torch.empty((), dtype=x.dtype, pin_memory=True)
                self._host.append(page.copy_(x.detach().reshape(()), non_blocking=True))
                with torch.cuda.device(x.device):
                    self._events[x.device] = torch.cuda.Event()
                    self._events[x.device].record()

    def is_there(self) -> bool:
        return all(event.query() for event in self._events.values())

    def read(self) -> list[float]:
        for event in self._events.values():
            event.synchronize()
        return [float(x) for x in self._host]
