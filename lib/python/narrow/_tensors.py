"""Tensor files: opened without reading them, read when asked for, block-quantised tensors as one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Iterator

import numpy as np

from . import _narrow
from ._arrays import DTYPES, F32, F64, decoded, dense, given, plan
from ._quantized import Quantized

_NUMPY = {"F64": "f8", "F32": "f4", "F16": "f2", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8",
          "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8", "BOOL": "?", "C64": "c8"}  # fmt: skip
_FORMAT = {type: format for format, type in DTYPES.values() if type}


class Tensor:
    """A tensor of a file. np.asarray(t) reads its numbers; functions of narrow take it as it is."""

    def __init__(self, tensor: _narrow.FileTensor, said: str = "") -> None:
        self._tensor = tensor
        self.name, self.shape, self.type, self.bits = tensor.name, tuple(tensor.shape), tensor.type, tensor.bits
        self.format = said or tensor.block_format or _FORMAT.get(tensor.type, "")  # "" for integers

    def codes(self) -> np.ndarray:
        """The codes of the elements, unpacked to a byte or more each."""
        return self._tensor.codes()

    def numpy(self) -> np.ndarray:
        """The numbers: a read-only view of the file where numpy has the type, else decoded to float32."""
        if self.type.startswith("U") and self.format:  # codes whose format the metadata name
            p = plan(self.format)
            if p.bits > self.bits:
                raise ValueError(f"{self.name}: the file says {self.format} of elements of {self.bits} bits")
            return decoded(p, self.codes(), F32 if p.fits(plan("fp32")) else F64)
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
        if copy is False and dtype is not None and values.dtype != dtype:
            raise ValueError(f"{self.name}: {values.dtype} as {np.dtype(dtype)} needs a copy")
        return np.array(values, dtype, copy=True) if copy or (dtype is not None and values.dtype != dtype) else values

    def __repr__(self) -> str:
        return f"<narrow.Tensor {self.name!r}: {self.format or self.type}, {self.shape}>"


class Tensors(Mapping):
    """The tensors of a file by name; metadata: what it says of itself; unreadable: what cannot be read, and why."""

    def __init__(self, path: str) -> None:
        tensors, self.metadata, self.unreadable = _narrow.open_file(path)
        self.path = path
        self._tensors = {t.name: Tensor(t, self.metadata.get(f"narrow.format.{t.name}", "")) for t in tensors}

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __repr__(self) -> str:
        return f"<narrow.Tensors of {self.path!r}: {len(self)}>"


def load(path: str | os.PathLike) -> Tensors:
    """Opens .safetensors (sharded too), .npy, .npz; nothing is read before it is asked for.

    A view of the file needs the file: cut it while the view lives, and reading it ends the process.
    """
    return Tensors(_path(path))


def _path(path: Any) -> str:
    text = os.fsdecode(path)
    if not text.isascii() and "\\udc" in ascii(text):
        raise ValueError(f"path: {text!r} is no UTF-8")
    return text


def save(path: str | os.PathLike, tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> None:
    """Writes .safetensors, or .npy for one array: whole or not at all.

    Quantized arrays become codes and scales (NVFP4: the factor of the tensor is rounded to FP32, so that numbers that are
    read back can differ from dequantize() in the last bit). Block-quantised tensors of another file become their numbers.
    """
    if not isinstance(tensors, Mapping) or not all(isinstance(name, str) for name in tensors):
        raise TypeError("save: tensors by name are needed, as in {'w': x}")
    if not all(isinstance(word, str) for pair in (metadata or {}).items() for word in pair):
        raise TypeError("metadata: texts by name are needed")
    parts: list[tuple[str, np.ndarray, str, list[int]]] = []
    said = dict(metadata or {})
    for name, x in tensors.items():
        if isinstance(x, Quantized):
            if x.axis not in (-1, x.codes.ndim - 1):
                raise ValueError(f"{name}: in a file, blocks lie along the last axis, not along axis {x.axis}")
            more, keys = _narrow.block_file_parts(name, list(x.codes.shape), np.ascontiguousarray(x.codes),
                                                  np.ascontiguousarray(x.scales), x._kept, x.format)  # fmt: skip
            parts += more
            said.update(keys)
            continue
        if isinstance(x, Tensor) and x.type not in _NUMPY and x.bits in (8, 16):
            g, kind = given(x.codes()), x.type
        else:
            g = given(x.numpy() if isinstance(x, Tensor) else x)
            kind = g.type or f"U{8 * g.array.itemsize}"
        array = g.array if g.array.flags.c_contiguous else dense(g.array)
        if g.format and not g.type:
            said[f"narrow.format.{name}"] = g.format
        if _path(path).endswith(".npy") and (kind not in _NUMPY or (g.format and not g.type)):
            raise ValueError(f"{name}: .npy has no type for {g.format or kind}; .safetensors has")
        parts.append((name, array, kind, list(array.shape)))
    _narrow.save_file(_path(path), parts, list(said.items()))
