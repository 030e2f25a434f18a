"""The functions on arrays of a CUDA device. Each returns None where no kernel does it: then the host does."""

from __future__ import annotations

import functools
from typing import Any, Callable

from . import _narrow
from ._arrays import DTYPE_OF, DTYPES, UINT, check_out, is_one_place, plan
from ._device import KERNELS, DeviceArray, on_device


@functools.lru_cache(maxsize=None)
def _code_dtypes(p: _narrow.Plan) -> list[str]:
    """What holds its codes, the smallest first."""
    names = [u.name for size, u in UINT.items() if 8 * size >= p.bits and size <= 4]
    return names + ([DTYPE_OF[p.name]] if p.name in DTYPE_OF else [])


def _format(x: DeviceArray) -> str:
    return DTYPES[x.dtype][0] if x.dtype in DTYPES else ""


def _has_kernel(x: DeviceArray, p: _narrow.Plan) -> bool:
    """Numbers of up to 32 bits, and codes of up to 32."""
    return x.itemsize <= 4 and _format(x) != "" and p.bits <= 32


def _target(out: Any, x: DeviceArray, names: list[str]) -> DeviceArray | None:
    if out is None:
        return None
    check_out(out)
    to = on_device(out)
    if to is None or to.place != x.place:
        raise ValueError(f"out: it is not where the array is ({x.place})")
    if to.dtype not in names:
        raise ValueError(f"out: it holds {to.dtype}; right here: {', '.join(names)}")
    if to.shape != x.shape:
        raise ValueError(f"out: its shape is {to.shape}, and that of the array {x.shape}")
    if is_one_place(to.strides, to.shape, 1):
        raise ValueError("out: several of its elements are one place in memory")
    return to


def _apart(x: DeviceArray, y: DeviceArray) -> bool:
    if x.address == y.address and x.itemsize == y.itemsize:
        return True
    return x.address + x.size * x.itemsize <= y.address or y.address + y.size * y.itemsize <= x.address


def _map(kernel: Callable[[DeviceArray, DeviceArray], None], x: DeviceArray, dtype: str, out: Any, names: list[str],
         in_order: bool = False) -> Any:  # fmt: skip
    """kernel(from, to) over memory without gaps, to a new array or to out."""
    wanted = _target(out, x, names)
    x = x.without_gaps(in_order)
    if wanted is None:
        to = x.empty(dtype)
        kernel(x, to)
        return to.x
    to = wanted if wanted.strides == x.strides and _apart(x, wanted) else x.empty(wanted.dtype)
    kernel(x, to)
    if to is not wanted:
        wanted.assign(to.x)
    return out


def _decode(p: _narrow.Plan, x: DeviceArray, to: DeviceArray) -> None:
    KERNELS.decode(p, x.address, x.itemsize, to.address, x.size, *x.where)


def _encode(p: _narrow.Plan, x: DeviceArray, to: DeviceArray, seed: int = 0) -> None:
    KERNELS.encode(p, x.address, to.address, to.itemsize, x.size, seed, *x.where)


def _floats(x: DeviceArray) -> DeviceArray:
    """Its numbers as float32, without gaps."""
    if x.dtype == "float32":
        return x
    wide = x.empty("float32")
    _decode(plan(_format(x)), x, wide)
    return wide


def round(p: _narrow.Plan, x: DeviceArray, seed: int, out: Any) -> Any:
    if not _has_kernel(x, p):
        return None
    dtype = x.dtype if x.dtype == "float32" or p.fits(plan(_format(x))) else "float32"

    def kernel(x: DeviceArray, to: DeviceArray) -> None:
        values = _floats(x)
        result = to if to.dtype == "float32" else values
        KERNELS.round(p, values.address, result.address, x.size, seed, *x.where)
        if result is not to:
            _encode(plan(_format(to)), result, to)

    return _map(kernel, x, dtype, out, [dtype], p.is_stochastic)


def encode(p: _narrow.Plan, x: DeviceArray, seed: int, out: Any) -> Any:
    if not _has_kernel(x, p):
        return None
    names = _code_dtypes(p)
    return _map(lambda x, to: _encode(p, _floats(x), to, seed), x, names[0], out, names, p.is_stochastic)


def decode(p: _narrow.Plan, x: DeviceArray, dtype: str, out: Any) -> Any:
    """dtype: one that holds the format, as the caller has checked."""
    is_code = x.dtype.startswith(("uint", "int")) or _format(x) == p.name
    if not is_code or x.itemsize > 4 or 8 * x.itemsize < p.bits or dtype == "float64" or not hasattr(x.library, dtype):
        return None

    def kernel(x: DeviceArray, to: DeviceArray) -> None:
        values = to if to.dtype == "float32" else x.empty("float32")
        _decode(p, x, values)
        if values is not to:
            _encode(plan(_format(to)), values, to)

    return _map(kernel, x, dtype, out, [dtype])


def statistics(x: DeviceArray, name: str, plans: list[_narrow.Plan]) -> Any:
    if x.itemsize > 4 or not _format(x):
        return None
    values = _floats(x.without_gaps(False))
    return KERNELS.statistics(name, plans, values.address, values.size, *values.where)


def histogram(x: DeviceArray) -> Any:
    if x.itemsize > 4 or not _format(x):
        return None
    values = _floats(x.without_gaps(False))
    return KERNELS.histogram(values.address, values.size, *values.where)


def _operand(x: DeviceArray, format: str | None, wanted: str) -> DeviceArray | None:
    """Codes of the model's operand: those that are there, or numbers rounded to nearest even."""
    held = _format(x)
    if wanted == "tf32":
        return x if held == "fp32" and format is None else None
    p = plan(wanted)
    if not held:
        fits = x.dtype == _code_dtypes(p)[0] and (format is None or plan(format).name == wanted)
        return x if fits else None
    if x.itemsize > 4 or (format is not None and plan(format).name != held):
        return None
    if held == wanted:
        return x
    x = x.without_gaps(False)
    codes = x.empty(_code_dtypes(p)[0])
    _encode(p, _floats(x), codes)
    return codes


def matmul(a: Any, b: Any, c: Any, model: str, words: str, a_format: str | None, b_format: str | None,
           out_format: str | None) -> Any:  # fmt: skip
    x, y, z = on_device(a), on_device(b), on_device(c)
    if x is None or y is None or (c is not None and z is None) or any(o and o.place != x.place for o in (y, z)):
        return None
    of_a, of_b, of_sum = _narrow.model_formats(model)
    if of_sum not in ("fp32", "fp16") or not all(f == "tf32" or f in DTYPE_OF for f in (of_a, of_b)):
        return None
    if len(x.shape) != 2 or len(y.shape) != 2 or x.shape[1] != y.shape[0] or not 0 < x.size * y.size:
        return None
    left, right = _operand(x, a_format, of_a), _operand(y, b_format, of_b)
    shape = (x.shape[0], y.shape[1], x.shape[1])
    if left is None or right is None or max(shape) >= 2**31:
        return None
    if z is not None:
        if z.shape != shape[:2] or _format(z) != of_sum:
            return None
        z = z.without_gaps(True)
    d = x.empty(DTYPE_OF[of_sum], shape[:2])
    steps = [(o.address, o.itemsize, *o.strides[:: 1 if o is left else -1]) for o in (left, right)]
    if not KERNELS.matmul(model, words, shape, *steps, 0 if z is None else z.address, d.address, *d.where):
        return None
    if out_format is None or plan(out_format).name == of_sum:
        return d.x
    p, wide = plan(out_format), _floats(d)
    name = DTYPE_OF.get(p.name, "")
    if p.name == "fp32":
        return wide.x
    if x.is_torch and name.startswith(("float16", "bfloat16", "float8")) or name == "float16":
        result = wide.empty(name)
        _encode(p, wide, result)
        return result.x
    KERNELS.round(p, wide.address, wide.address, wide.size, 0, *wide.where)
    return wide.x
