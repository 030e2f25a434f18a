"""Number formats of machine learning, bit for bit: FP32, TF32, FP16, BF16, FP8, FP6, FP4 and any other.

>>> import narrow, numpy as np
>>> x = np.float32([0.1, 465, 1e-9])
>>> narrow.round(x, "fp16")
array([9.9975586e-02, 4.6500000e+02, 0.0000000e+00], dtype=float32)
>>> narrow.encode(x, "e4m3", cast="torch")
array([ 29, 127,   0], dtype=uint8)
"""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Any, Mapping, Sequence

import numpy as np

from . import _kernels, _narrow
from ._arrays import (DTYPE_OF, DTYPES, F32, F64, UINT, bit_count, check_codes, check_out, dtype_name, floats, given, in_order,
                      number, plan, seed_word, stored, target, wrap)  # fmt: skip
from ._device import on_device
from ._histogram import Histogram, histogram
from ._operations import OperationValidation, op, validate_op
from ._products import Validation, dot, explain, matmul, models, validate
from ._quantized import Quantized, quantize
from ._records import Record, Records
from ._tensors import Tensor, Tensors, load, save
from . import testing  # noqa: E402

__version__ = _narrow.version().replace("-", "")  # as Python writes it: 1.0.0rc1
__all__ = [
    "Format", "Histogram", "OperationValidation", "Quantized", "Record", "Records", "Scaler", "Tensor", "Tensors", "Validation",
    "decode", "dot", "encode", "explain", "format", "formats", "histogram", "load", "matmul", "models", "op", "quantize", "round",
    "save", "scale_trace", "scaler", "show", "statistics", "testing", "validate", "validate_op",
]  # fmt: skip

Scaler = _narrow.Scaler


def __getattr__(name: str) -> Any:
    """narrow.torch is read when it is asked for: torch takes seconds."""
    if name == "torch":
        import importlib

        return importlib.import_module("narrow.torch")
    raise AttributeError(f"module 'narrow' has no attribute {name!r}")


def _command(*words: str) -> Any:
    """The JSON that the program prints."""
    _, out, _ = _narrow.run_command([*words, "--json"])
    if not out.startswith(("[", "{")):
        raise ValueError(f"{words[0]}: {words[1]!r} asks for help, not for an answer")
    return json.loads(out)


@dataclasses.dataclass(frozen=True)
class Format:
    """What the codes of a format mean. str() is its name; functions take either."""

    name: str
    bits: int
    exponent_bits: int
    mantissa_bits: int
    bias: int
    max: float
    min_normal: float
    min_subnormal: float | None
    epsilon: float | None
    has_inf: bool
    has_nan: bool
    source: str = ""

    def __str__(self) -> str:
        return self.name


def _as_format(row: Mapping[str, Any]) -> Format:
    return Format(**{f.name: row[f.name] for f in dataclasses.fields(Format)})


@functools.lru_cache(maxsize=None)
def _all_formats() -> tuple[Format, ...]:
    return tuple(_as_format(row) for row in _command("formats"))


def formats() -> list[Format]:
    """Every format of the table.

    >>> [f.name for f in narrow.formats()][:5]
    ['fp64', 'fp32', 'tf32', 'fp16', 'bf16']
    """
    return list(_all_formats())


@functools.lru_cache(maxsize=4096)
def format(name: str) -> Format:
    """A format by name, alias or layout ("e4m3", "half", "e5m3").

    >>> narrow.format("e4m3").max
    448.0
    """
    return _as_format(_command("formats", plan(str(name)).name)[0])


def round(x, format, *, cast=None, rounding=None, overflow=None, subnormals=None, seed=0, random_bits=None, out=None):
    """Each number rounded to a format, as a number.

    cast: as a system does it ("torch", "cuda", "ml_dtypes", "onnx"); or rounding: nearest_even (default), nearest_away,
    nearest_to_zero, toward_zero, up, down, to_odd, stochastic (by seed and index in C order); overflow: to_special
    (default), saturate; subnormals: keep (default), flush_results, flush_inputs. out may be x. The result has the dtype
    of x where that holds every value of the format, else float32; of integers and Python's numbers float64.

    >>> narrow.round(0.1, "bf16")
    0.10009765625
    """
    p = plan(format, cast, rounding, overflow, subnormals, random_bits if random_bits is None else bit_count(random_bits))
    if type(seed) is not int or not 0 <= seed < 1 << 64:
        seed = seed_word(seed)
    if type(x) is np.ndarray and (x.dtype is F32 or x.dtype is F64):
        if out is None:
            result = np.empty_like(x)
            if _narrow.round(p, x, result, seed):
                return result
        elif out is x and x.flags.writeable and _narrow.round(p, x, x, seed):
            return x
    if (d := on_device(x)) is not None and (done := _kernels.round(p, d, seed, out)) is not None:
        return done
    g = given(x)
    values = floats(g)
    kept = not g.format or g.format in ("fp32", "fp64") or p.fits(plan(g.format))
    name = values.dtype.name if not kept or g.format in ("", "fp32", "fp64") else DTYPE_OF[g.format]
    wanted = values.dtype if name == values.dtype.name else UINT[g.array.itemsize]
    result = np.empty_like(values, dtype=wanted) if out is None else target(out, values.shape, {name: wanted})
    if name == values.dtype.name:
        in_order(_narrow.round, (p,), values, result, seed)
    else:
        in_order(_narrow.round, (p,), values, values, seed)
        in_order(_narrow.encode, (plan(g.format),), values, result, 0)
    return wrap(result, g.library, name) if out is None else stored(out, result, name)


def encode(x, format, *, cast=None, rounding=None, overflow=None, subnormals=None, seed=0, random_bits=None, out=None):
    """The code of each number in a format, as the smallest unsigned integer that holds it. Arguments as in round().

    >>> narrow.encode([0.1, 448.0, 465.0], "e4m3")
    array([ 29, 126, 127], dtype=uint8)
    """
    p = plan(format, cast, rounding, overflow, subnormals, random_bits if random_bits is None else bit_count(random_bits))
    if type(seed) is not int or not 0 <= seed < 1 << 64:
        seed = seed_word(seed)
    if out is None and type(x) is np.ndarray and (x.dtype is F32 or x.dtype is F64):
        result = np.empty_like(x, dtype=_code_type(p.bits))
        if _narrow.encode(p, x, result, seed):
            return result
    if (d := on_device(x)) is not None and (done := _kernels.encode(p, d, seed, out)) is not None:
        return done
    g = given(x)
    code = _code_type(p.bits)
    if out is None:
        result = np.empty_like(g.array, dtype=code, subok=False)
    else:
        kinds = {u.name: u for size, u in UINT.items() if 8 * size >= p.bits}
        if p.name in DTYPE_OF:
            kinds[DTYPE_OF[p.name]] = code
        result = target(out, g.array.shape, kinds)
    if g.format in ("", "fp32", "fp64"):
        in_order(_narrow.encode, (p,), floats(g), result, seed)
    else:
        in_order(_narrow.convert, (plan(g.format), p), g.array, result, seed)
    return wrap(result, g.library) if out is None else stored(out, result, dtype_name(out.dtype))


@functools.lru_cache(maxsize=None)
def _code_type(bits: int) -> np.dtype:
    return next(u for size, u in UINT.items() if 8 * size >= bits)


def decode(codes, format, dtype=None, *, out=None):
    """The number that each code stands for, exactly: float32 where that holds the format, else float64; or as dtype.

    >>> narrow.decode([126, 127], "e4m3")
    array([448.,  nan], dtype=float32)
    """
    p = plan(format)
    if dtype is None and out is None and type(codes) is np.ndarray and codes.dtype.kind == "u" and codes.dtype.isnative:
        result = np.empty_like(codes, dtype=_value_type(p))
        check_codes(codes, p)
        if 8 * codes.itemsize >= p.bits and _narrow.decode(p, codes, result):
            return result
    if out is not None:
        check_out(out)
    plain = isinstance(codes, (list, tuple, int))  # Python's integers have no width
    if plain:
        array = np.asarray(codes)
        if array.dtype.kind == "f" and array.size and all(isinstance(code, int) for code in np.asarray(codes, object).flat):
            array = np.asarray(codes, object)  # numpy makes doubles of integers above and below 2^63
            array = array if array.min() < 0 or array.max() >= 2**64 else array.astype(np.uint64)
        if array.size and (array.dtype.kind not in "iu" or array.min() < 0 or int(array.max()).bit_length() > p.bits):
            raise ValueError(f"decode: codes of {p.name} are integers from 0 to {2**p.bits - 1:#x}")
        codes = array.astype(_code_type(p.bits))[()] if isinstance(codes, int) else array.astype(_code_type(p.bits))
    name = dtype_name(out.dtype if dtype is None and out is not None else _value_type(p) if dtype is None else dtype)
    if name not in DTYPES or not p.fits(plan(DTYPES[name][0])):
        raise ValueError(f"decode: {name} does not hold every value of {p.name}")
    if (d := on_device(codes)) is not None and (done := _kernels.decode(p, d, name, out)) is not None:
        return done
    g = given(codes)
    words = g.array
    if g.format in ("fp32", "fp64") and g.format == p.name:
        words = words.view(UINT[words.itemsize])
    elif g.format and g.format != p.name:
        raise TypeError(f"decode: codes are integers, and this array holds {g.format}")
    if words.dtype.kind == "i":
        words = words.view(UINT[words.itemsize])
    if words.dtype.kind != "u":
        raise TypeError(f"decode: codes are integers, and this array holds {words.dtype}")
    if words.dtype.itemsize * 8 < p.bits:
        raise ValueError(f"decode: codes of {p.name} have {p.bits} bits and the array's elements {words.itemsize * 8}")
    check_codes(words, p)
    wide = name in ("float32", "float64")
    kind = np.dtype(name) if wide else _code_type(plan(DTYPES[name][0]).bits)
    result = np.empty_like(words, dtype=kind, subok=False) if out is None else target(out, words.shape, {name: kind})
    if wide:
        in_order(_narrow.decode, (p,), words, result)
    else:
        in_order(_narrow.convert, (p, plan(DTYPES[name][0])), words, result, 0)
    return wrap(result, "scalar" if plain and not words.ndim else g.library, name) if out is None else stored(out, result, name)


@functools.lru_cache(maxsize=None)
def _value_type(p: _narrow.Plan) -> np.dtype:
    return F32 if p.fits(plan("fp32")) else F64


def show(value, formats: Sequence[str] | None = None, *, from_format=None, cast=None, rounding=None, overflow=None,
         subnormals=None, random=None, random_bits=None) -> Records:  # fmt: skip
    """A number in formats: code, exact value, error, class, neighbours; the records of `narrow show --json`.

    value: a number, or text (read exactly: "0.1", "0x1.8p-3"); with from_format a code of that format.

    >>> narrow.show(465, ["e4m3"], cast="torch")[0].code
    '0x7F'
    """
    is_float = isinstance(value, (float, np.floating)) and np.isfinite(value)
    text = float(value).hex() if is_float else str(value)
    words = ["show", text]
    names = [formats] if isinstance(formats, (str, Format)) else formats
    flags = {"formats": ",".join(map(str, names)) if names else None, "from": from_format, "cast": cast,
             "rounding": rounding, "overflow": overflow, "subnormals": subnormals, "random": random,
             "random-bits": random_bits}  # fmt: skip
    for name, word in flags.items():
        words += [] if word is None else [f"--{name}", str(word)]
    rows = Records(Record(row) for row in _command(*words))
    for row in rows:
        row["input"] = str(value)
    return rows


def statistics(x, formats: Sequence[str] = ("fp16", "bf16", "e4m3", "e5m2"), scale: float = 1.0, *, cast=None, rounding=None,
               overflow=None, subnormals=None, random_bits=None, seed: int = 0, name: str = "x") -> Records:  # fmt: skip
    """What formats (block formats too) do to data times scale: records with the keys of `narrow stats --json`.

    >>> narrow.statistics(np.float32([1e-9, 1.0]), ["fp16"])[0].underflow
    1
    """
    if formats is None or not isinstance(name, str):
        raise TypeError("formats: names are needed" if formats is None else f"name: a text is needed, not {name!r}")
    names = [str(formats)] if isinstance(formats, (str, Format)) else [str(f) for f in formats]
    scale, seed = number(scale, "scale"), seed_word(seed)
    random_bits = bit_count(random_bits)
    if scale == 1 and (d := on_device(x)) is not None and not any(map(_narrow.is_block_format, names)):
        plans = [plan(f, cast, rounding, overflow, subnormals, random_bits) for f in names]
        if (rows := _kernels.statistics(d, name, plans)) is not None:
            return Records(map(Record, rows))
    g = given(x)
    array, type = (g.array, g.type) if g.format else (floats(g), "F64")
    if not type:
        array, type = floats(g), "F32"
    if cast or rounding or overflow or subnormals or random_bits:
        if block := next(filter(_narrow.is_block_format, names), None):
            raise ValueError(f"{block}: its rule says how elements are rounded; cast and rounding are for formats without blocks")
        plan("fp32", None, rounding, overflow, subnormals, random_bits)  # says what is wrong with the words
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    return Records(
        Record(row)
        for row in _narrow.statistics(
            array, type, name, names, scale, cast, rounding, overflow, subnormals, random_bits, seed
        )
    )


def scaler(policy: str, **parameters: float) -> Scaler:
    """A loss scaler or tensor recipe ("torch", "apex", ...; `narrow list-scaling`) with its state.

    >>> s = narrow.scaler("torch", init=2.0**16)
    >>> s.step(found_inf=True), s.scale
    ('backed_off', 32768.0)
    """
    if not isinstance(policy, str):
        raise TypeError(f"policy: a name is needed, not {policy!r}")
    return Scaler(policy, {name.replace("_", "-"): number(value, name) for name, value in parameters.items()})


def _flag(value: Any) -> int:
    if value not in (0, 1):
        raise ValueError(f"found_inf: {value!r}; right are 0 and 1")
    return int(value)


def scale_trace(events, policies: Sequence[str] | str = ("torch",)) -> dict[str, Records]:
    """The scale before every step, under policies, for gradients that were recorded.

    events: the largest unscaled gradient of each step; or columns {"amax": .., "found_inf": .., "scale": ..}.

    >>> narrow.scale_trace([1.0, 2.0], ["torch:init=2^16"])["torch:init=2^16"][0].skipped
    True
    """
    columns = dict(events) if isinstance(events, Mapping) else {"amax": events}
    if unknown := set(columns) - {"step", "amax", "found_inf", "scale"}:
        raise ValueError(f"events: unknown columns {sorted(unknown)}; taken are step, amax, found_inf, scale")
    size = max((len(column) for column in columns.values()), default=0)
    steps = [int(n) for n in columns.get("step", range(size))]
    if "found_inf" in columns and not {"amax", "scale"} & set(columns):
        raise ValueError("events: found_inf tells of an overflow at the scale of its step; give scale (or amax) beside it")
    names = [policies] if isinstance(policies, str) else list(policies)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"policies: names are needed, not {names!r}")
    read = lambda name, kind: [kind(v) for v in columns.get(name, ())]
    traces = _narrow.scale_trace(steps, read("amax", float), read("found_inf", _flag), read("scale", float), names)
    return {name: Records(Record(row) for row in rows) for name, rows in traces.items()}
