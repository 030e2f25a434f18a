"""Tensor files: opened without reading them, read when asked for, block-quantised tensors as one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Iterator

import numpy as np

from . import _narrow
from ._arrays import DTYPES, given
from ._quantized import Quantized

_NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8",
          "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8", "BOOL": "?", "C64": "c8"}  # fmt: skip
_FORMAT = {type: format for format, type in DTYPES.values() if type}


class Tensor:
    """A tensor of a file. np.asarray(t) reads its numbers; functions of narrow take it as it is."""

    def __init__(self, tensor: _narrow.FileTensor) -> None:
        self._tensor = tensor
        self.name, self.shape, self.type = tensor.name, tuple(tensor.shape), tensor.type
        self.format = tensor.block_format or _FORMAT.get(tensor.type, "")  # "" for integers

    def codes(self) -> np.ndarray:
        """The codes of the elements, unpacked to a byte or more each."""
        return self._tensor.codes()

    def numpy(self) -> np.ndarray:
        """The numbers: a read-only view of the file where numpy has the type, else decoded to float32."""
        if self.type in _NUMPY and not self._tensor.block_format:
            dtype = np.dtype(_NUMPY[self.type])
            mapped = self._tensor.mapped()
            if mapped is not None:
                if mapped.ctypes.data % dtype.alignment:
                    mapped = mapped.copy()
                return mapped.view(dtype).reshape(self.shape)
            if self.type not in ("F64", "F32", "C64"):
                return self._tensor.codes().view(dtype)
            return self._tensor.values(self.type == "F64")
        return self._tensor.values(False)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        values = self.numpy()
        return np.array(values, dtype, copy=True) if copy or (dtype is not None and values.dtype != dtype) else values

    def __repr__(self) -> str:
        return f"<narrow.Tensor {self.name!r}: {self.format or self.type}, {self.shape}>"


class Tensors(Mapping):
    """The tensors of a file by name; metadata: what it says of itself; unreadable: what cannot be read, and why."""

    def __init__(self, path: str) -> None:
        tensors, self.metadata, self.unreadable = _narrow.open_file(path)
        self.path = path
        self._tensors = {t.name: Tensor(t) for t in tensors}

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<narrow.Tensors of {self.path!r}: {len(self)}>"


def load(path: str | os.PathLike) -> Tensors:
    """Opens .safetensors (sharded too), .npy, .npz; nothing is read before it is asked for."""
    return Tensors(os.fspath(path))


def save(path: str | os.PathLike, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Writes .safetensors, or .npy for one array: whole or not at all. Quantized arrays become codes and scales."""
    parts: list[tuple[str, np.ndarray, str, list[int]]] = []
    said = dict(metadata or {})
    for name, x in tensors.items():
        if isinstance(x, Quantized):
            if x.axis not in (-1, x.codes.ndim - 1):
                raise ValueError(f"{name}: in a file, blocks lie along the last axis, not along axis {x.axis}")
            more, keys = _narrow.block_file_parts(name, list(x.codes.shape), np.ascontiguousarray(x.codes),
                                                  np.ascontiguousarray(x.scales), x.tensor_scale, x.format)  # fmt: skip
            parts += more
            said.update(keys)
            continue
        g = given(x.numpy() if isinstance(x, Tensor) else x)
        array = np.ascontiguousarray(g.array)
        kind = g.type or f"U{8 * array.itemsize}"
        if not g.type:
            said[f"{name}.format"] = g.format
        parts.append((name, array, kind, list(array.shape)))
    _narrow.save_file(os.fspath(path), parts, list(said.items()))
