"""Arrays in block formats: elements that share a scale."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from . import _narrow
from ._arrays import F32, dense, floats, given, wrap


@dataclasses.dataclass(eq=False)
class Quantized:
    """An array in a block format. A value is code * (scale * tensor_scale), but for roundings that dequantize() knows."""

    codes: Any  # uint8, one element each, the shape of the array
    scales: Any  # float32, one for each block
    scale_codes: Any  # uint8 codes of the scales; None where the scales are FP32
    tensor_scale: Any  # NVFP4's factor of the whole tensor, or (te_nvfp4_row) an array of those of its rows; else 1
    format: str
    axis: int
    _kept: np.ndarray  # what the rule keeps of the tensor or of each row: its amax, or the factor
    _library: str = "numpy"

    def dequantize(self):
        """The numbers that codes and scales stand for, as float32."""
        codes = np.moveaxis(given(self.codes).array, self.axis, -1)
        flat = dense(codes).reshape(-1, codes.shape[-1]) if codes.size else codes.reshape(0, codes.shape[-1])
        out = np.empty(flat.shape, F32)
        _narrow.dequantise(flat, dense(given(self.scales).array, F32).ravel(), self._kept, self.format, out)
        return wrap(np.ascontiguousarray(np.moveaxis(out.reshape(codes.shape), -1, self.axis)), self._library)


def quantize(x, format: str, rule: str | None = None, axis: int = -1) -> Quantized:
    """An array in a block format ("mxfp8_e4m3", "nvfp4", ...), blocks along axis; rule: how scales are chosen.

    The rules compute in FP32: float64 is rounded to it first.

    >>> narrow.quantize(np.ones((2, 32), np.float32), "mxfp4").scales.shape
    (2, 1)
    """
    g = given(x)
    values = floats(g)
    if values.ndim == 0:
        raise ValueError("quantize: a number has no blocks; give an array of one dimension or more")
    if not isinstance(axis, (int, np.integer)) or not -values.ndim <= axis < values.ndim:
        raise ValueError(f"axis: {axis!r}; right are integers from {-values.ndim} to {values.ndim - 1}")
    moved = np.moveaxis(values, axis, -1)
    with np.errstate(over="ignore"):
        matrix = dense(moved, F32).reshape(-1, moved.shape[-1]) if moved.size else np.empty((0, moved.shape[-1]), F32)
    codes, scales, scale_codes, factor, kept, name = _narrow.quantise(matrix, f"{format}:{rule}" if rule else str(format))
    codes = np.ascontiguousarray(np.moveaxis(codes.reshape(moved.shape), -1, axis))
    if scales.shape[0] == matrix.shape[0]:  # blocks are pieces of rows: they keep the other dimensions
        grid = moved.shape[:-1] + (scales.shape[1],)
        scales = scales.reshape(grid)
        scale_codes = None if scale_codes is None else scale_codes.reshape(grid)
    library = g.library
    kept = np.atleast_1d(np.asarray(kept, F32))
    if isinstance(factor, np.ndarray):
        factor = wrap(factor.reshape(moved.shape[:-1]) if moved.size else factor, library)
    return Quantized(wrap(codes, library), wrap(scales, library), None if scale_codes is None else wrap(scale_codes, library),
                     factor, name, axis, kept, library)  # fmt: skip
