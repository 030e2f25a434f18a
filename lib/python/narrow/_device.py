"""Arrays on a CUDA device: torch's and cupy's, where they lie, on the stream that their library is using.

The kernels take float32 and codes of 8, 16 and 32 bits. What has none (float64, integers, block formats, the search of
validate) is computed on the host from a copy, and results go back to the device.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from . import _narrow

KERNELS: Any = getattr(_narrow, "device", None)  # in a build with CUDA


def torch_of(x: Any) -> Any:
    """The module torch, where x is a tensor of it."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else None


def plain(x: Any) -> Any:
    """A tensor of torch as nothing but numbers in memory."""
    if x.layout is not sys.modules["torch"].strided or x.is_nested or x.is_quantized or x.is_meta:
        raise TypeError(
            "a torch tensor with all its numbers in memory is needed: not nested, sparse, quantized or meta"
        )
    if x.requires_grad:
        x = x.detach()
    return x.resolve_conj().resolve_neg() if x.is_conj() or x.is_neg() else x


@functools.lru_cache(maxsize=None)
def _dtype(dtype: Any) -> tuple[str, int]:
    """Its name and bytes: read once, since a call on few elements is mostly such questions."""
    return str(dtype).removeprefix("torch."), dtype.itemsize


class DeviceArray:
    """A tensor of torch or an array of cupy on a CUDA device."""

    __slots__ = ("dtype", "is_torch", "itemsize", "library", "shape", "size", "strides", "x")

    def __init__(self, x: Any) -> None:
        self.is_torch = torch_of(x) is not None
        self.library = sys.modules["torch" if self.is_torch else "cupy"]
        self.dtype, self.itemsize = _dtype(x.dtype)
        self.shape: tuple[int, ...] = x.shape
        if self.is_torch:
            self.x, self.size, self.strides = plain(x), x.numel(), x.stride()
        else:
            self.x, self.size, self.strides = x, x.size, tuple(s // self.itemsize for s in x.strides)

    @property
    def address(self) -> int:
        return self.x.data_ptr() if self.is_torch else self.x.data.ptr

    @property
    def device(self) -> int:
        return self.x.device.index if self.is_torch else self.x.device.id

    @property
    def where(self) -> tuple[int, int]:
        """The device, and the stream on which its library is working."""
        if self.is_torch:
            index = self.x.get_device()
            raw = getattr(self.library._C, "_cuda_getCurrentRawStream", None)  # without a Stream made for the question
            return index, raw(index) if raw is not None else self.library.cuda.current_stream(index).cuda_stream
        with self.x.device:
            return self.device, self.library.cuda.get_current_stream().ptr

    @property
    def place(self) -> str:
        """How results find back: the library and the device."""
        return f"torch:cuda:{self.device}" if self.is_torch else f"cupy:{self.device}"

    @property
    def gpu(self) -> str:
        """sm_90, ..."""
        if self.is_torch:
            return "sm_{}{}".format(*self.library.cuda.get_device_capability(self.x.device))
        return f"sm_{self.x.device.compute_capability}"

    def empty(self, dtype: str, shape: tuple[int, ...] | None = None) -> DeviceArray:
        """New memory of the same library, in the order of this array."""
        kind = self.x.dtype if dtype == self.dtype else getattr(self.library, dtype)
        if self.is_torch:
            like = self.library.empty_like(self.x, dtype=kind) if shape is None else self.x.new_empty(shape, dtype=kind)
            return DeviceArray(like)
        with self.x.device:
            like = self.library.empty_like(self.x, dtype=kind) if shape is None else self.library.empty(shape, kind)
            return DeviceArray(like)

    def steps(self) -> list[tuple[int, int]]:
        """From the fastest index to the slowest: the distance of its elements, and their number."""
        return sorted((step, n) for step, n in zip(self.strides, self.shape) if n != 1)

    def has_gaps(self) -> bool:
        expected = 1
        for step, n in self.steps():
            if step != expected:
                return self.size > 0
            expected *= n
        return False

    def in_c_order(self) -> bool:
        return bool(self.x.is_contiguous()) if self.is_torch else bool(self.x.flags.c_contiguous)

    def without_gaps(self, in_order: bool) -> DeviceArray:
        """The array itself, or a copy in C order where it has gaps (or another order, where that counts)."""
        if self.in_c_order() or not (in_order or self.has_gaps()):
            return self
        return DeviceArray(self.x.contiguous() if self.is_torch else self.library.ascontiguousarray(self.x))

    def assign(self, values: Any) -> None:
        if self.is_torch:
            self.x.copy_(values)
        else:
            self.x[...] = values

    def host(self) -> Any:
        """A copy on the CPU: of torch's library, or numpy's."""
        return self.x.cpu() if self.is_torch else self.x.get()


def is_jax(x: Any) -> bool:
    return type(x).__module__.split(".")[0] in ("jax", "jaxlib")


def on_device(x: Any) -> DeviceArray | None:
    """x as an array on a device, or None where it is on the host (or one of jax, whose memory is not written)."""
    if isinstance(x, np.ndarray):
        return None
    torch = torch_of(x)
    if not x.is_cuda if torch is not None else not hasattr(x, "__cuda_array_interface__") or is_jax(x):
        return None
    if KERNELS is None:
        raise TypeError("an array on a CUDA device: this build of narrow has no CUDA; bring it to the CPU (x.cpu(), x.get()), "
                        "or build where the GPU is, with -DNARROW_CUDA=ON")  # fmt: skip
    if torch is None and not ("cupy" in sys.modules and isinstance(x, sys.modules["cupy"].ndarray)):
        raise TypeError(f"{type(x).__name__} on a CUDA device: torch.as_tensor(x) or cupy.asarray(x) views it as an array")
    return DeviceArray(x)


def back_on(place: str, array: Any) -> Any:
    """A tensor of torch or an array of numpy, moved to where DeviceArray.place says."""
    library, _, device = place.partition(":")
    if library == "torch":
        return array.to(device)
    if library == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(int(device)):
            return cupy.asarray(array)
    jax = sys.modules["jax"]
    platform, _, number = device.partition(":")
    return jax.device_put(array, next(d for d in jax.devices(platform) if str(d.id) == number))
