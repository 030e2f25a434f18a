"""Dot products and matrix products as machines compute them, and which machine computed one."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import numpy as np

from . import _kernels, _narrow
from ._arrays import DTYPE_OF, F32, INTEGERS, UINT, Given, check_codes, decoded, dense, floats, given, in_order, number, plan, wrap
from ._device import on_device
from ._records import Record, Records


@functools.lru_cache(maxsize=None)
def _models() -> str:
    return _narrow.run_command(["models", "--json"])[1]


def models() -> Records:
    """The tensor-core models and the sums in software: name, parameters, evidence, source.

    >>> [m.name for m in narrow.models() if m.generation == "hopper"][0]
    'hopper.mma.f32.f16.f16.k16'
    """
    return Records(Record(row) for row in json.loads(_models()))


_INTEGERS: dict[str, np.dtype[Any]] = {
    "s8": np.dtype(np.int8), "int8": np.dtype(np.int8), "u8": np.dtype(np.uint8), "uint8": np.dtype(np.uint8),
    "s32": np.dtype(np.int32),
}  # fmt: skip


def _are_codes(g: Given) -> bool:
    return not g.format and g.array.dtype.kind == "u"


def _integers(g: Given, format: str) -> np.ndarray:
    """Operands of a model that adds integers."""
    values, kind = floats(g), _INTEGERS[format]
    limits = np.iinfo(kind)
    with np.errstate(invalid="ignore"):
        if not ((values == np.trunc(values)) & (values >= limits.min) & (values <= limits.max)).all():
            raise ValueError(f"{format} takes integers from {limits.min} to {limits.max}")
    return values.astype(kind)


def _codes(g: Given, format: str) -> np.ndarray:
    """Codes of a format: unsigned integers are codes already, numbers are rounded to nearest even."""
    if _are_codes(g):
        if format not in ("tf32", *_INTEGERS):  # operands of those are whole words
            check_codes(g.array, plan(format))
        return g.array
    if format in _INTEGERS:
        return _integers(g, format).view(UINT[_INTEGERS[format].itemsize])
    p = plan(format)
    values = floats(g)
    codes = np.empty_like(values, dtype=UINT[next(size for size in UINT if 8 * size >= p.bits)], subok=False)
    in_order(_narrow.encode, (p,), values, codes, 0)
    return codes


def dot(a, b, c=0.0, *, model: str):
    """One dot product a . b + c. Numbers are rounded to the model's operands; unsigned integers are codes of them.

    Returns a float; the code of the accumulator where a and b are codes.

    >>> narrow.dot([1.0, 2.0], [3.0, 4.0], model="hopper.wgmma.f32.f16.f16")
    11.0
    """
    of_a, of_b, of_sum = _narrow.model_formats(_word(model, "model"))
    x, y, z = given(a), given(b), given(c)
    if z.array.size != 1:
        raise ValueError(f"c: one number is needed, and it has {z.array.size}")
    code = _narrow.dot(model, _codes(x, of_a).ravel().tolist(), _codes(y, of_b).ravel().tolist(),
                       int(_codes(z, of_sum).ravel()[0]))  # fmt: skip
    if _are_codes(x) and _are_codes(y):
        return code
    if of_sum == "s32":
        return float(np.uint32(code & 0xFFFFFFFF).astype(np.int32))
    return float(decoded(plan(of_sum), np.array([code], np.uint64), np.dtype(np.float64))[0])


def _word(x: Any, name: str) -> str:
    if not isinstance(x, str):
        raise TypeError(f"{name}: a name is needed, not {x!r}")
    return x


def _check_held(values: np.ndarray, codes: np.ndarray, format: str) -> None:
    """A product that is said to be of a format is not rounded to it: its bits are what is asked about."""
    held = decoded(plan(format), codes, values.dtype)
    other = (held != values) & ~(np.isnan(held) & np.isnan(values))
    if other.any():
        at = tuple(int(i) for i in np.argwhere(other)[0])
        raise ValueError(f"d: {values[at]!r} at {at} is no number of {format}")


class _Request:
    """Operands in memory and the flags of the program that name them."""

    def __init__(self) -> None:
        self.operands: list[tuple[str, np.ndarray, str]] = []
        self.words: dict[str, str] = {}
        self.library, self.uses_ml_dtypes, self.is_batch = "numpy", False, False

    def add(self, name: str, x: Any, format: str | None) -> None:
        if x is None:
            return
        g = given(x)
        if name in ("a", "x", "q"):
            self.library = g.library
        self.uses_ml_dtypes |= g.library == "ml_dtypes"
        self.is_batch |= g.array.ndim == 3
        array, type = g.array, g.type
        if format in _INTEGERS and not _are_codes(g):
            array = _integers(g, str(format))
            format, type = None, INTEGERS[array.dtype.name]
        elif g.format and (format is not None or not type):  # numbers, told what they are; or a type that files lack
            wanted = format or g.format
            array = _codes(g, wanted) if wanted != g.format else array.view(UINT[array.itemsize])
            if name == "d" and wanted != g.format:
                _check_held(floats(g), array, wanted)
            format, type = wanted, f"U{8 * array.itemsize}"
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            array = dense(array)
        self.operands.append((f"<{name}>", array, type))
        self.words[name] = f"<{name}>"
        if format is not None:
            self.words[f"{name}_format"] = str(format)

    def scales(self, name: str, x: Any) -> None:
        if x is None:
            return
        if isinstance(x, (int, float)):
            self.words[name] = number(x, name).hex()
            return
        g = given(x)
        array = dense(g.array) if g.array.dtype == np.uint8 else floats(g)
        if array.dtype == np.float64:
            with np.errstate(over="ignore"):
                array, wide = dense(array, F32), array
            if not np.array_equal(np.isfinite(array), np.isfinite(wide)):
                raise ValueError(f"{name}: a scale is larger than any FP32 number")
        array = dense(array)
        self.operands.append((f"<{name}>", array, "U8" if array.dtype == np.uint8 else "F32"))
        self.words[name] = f"<{name}>"

    def numbers(self, **values: float | None) -> None:
        self.words.update({name: number(value, name).hex() for name, value in values.items() if value is not None})

    def options(self, **words: str | None) -> None:
        self.words.update({name: str(word) for name, word in words.items() if word is not None})


def _request(a, b, c, bias, a_format, b_format, c_format, alpha, beta, scale_a, scale_b) -> _Request:
    if c is not None and bias is not None:
        raise ValueError("give c or bias, not both: a bias is a c of one row")
    if a is None or b is None:
        raise TypeError(f"{'a' if a is None else 'b'}: the operand is missing")
    request = _Request()
    request.numbers(alpha=alpha, beta=beta)
    request.add("a", a, a_format)
    request.add("b", b, b_format)
    of_a, of_b = (operand[1].shape for operand in request.operands)
    if len(of_a) > 1 < len(of_b) and of_a[-1] != of_b[-2]:
        raise ValueError(f"a and b are matrices whose K agrees, not of shapes {of_a} and {of_b}")
    request.add("c", bias if c is None else c, c_format)
    request.scales("scale_a", scale_a)
    request.scales("scale_b", scale_b)
    return request


def _asked(call: Any, *arguments: Any) -> Any:
    """Calls the program, whose sentences name files and flags, with the names of Python in them."""
    try:
        return call(*arguments)
    except ValueError as error:
        text = re.sub(r"'?<(\w+)>'?", r"\1", str(error)).replace("d_format", "out_format")
        raise ValueError(text) from None


def matmul(a, b, c=None, *, model: str, plan: str | None = "chain", a_format=None, b_format=None, c_format=None, out_format=None,
           bias=None, alpha=None, beta=None, scale_a=None, scale_b=None, epilogue: str | None = None):  # fmt: skip
    """alpha * a @ b + beta * c as a machine computes it, every bit; a third dimension in front is a batch.

    epilogue: what follows the sum, as `narrow gemm --epilogue`: "bias+gelu" in FP32, "round+silu" of the rounded sum.

    Numbers are rounded to the model's operands (to nearest even); integers are codes of a_format and b_format. Scales:
    a number, one for each row (column of b), 1x128 or 128x128 blocks; uint8 codes for block-scaled models. The result has
    the dtype of out_format (the accumulator's when not given) where the library of a has one, else float32.

    >>> ones = np.ones((2, 4), np.float16)
    >>> narrow.matmul(ones, ones.T, model="hopper.wgmma.f32.f16.f16")
    array([[4., 4.],
           [4., 4.]], dtype=float32)
    """
    plain = all(o is None for o in (bias, alpha, beta, scale_a, scale_b, c_format, epilogue))
    if plain and on_device(a) is not None:
        done = _kernels.matmul(a, b, c, _word(model, "model"), plan or "chain", a_format, b_format, out_format)
        if done is not None:
            return done
    of_a, of_b, _ = _narrow.model_formats(_word(model, "model"))
    a_format = of_a if a_format is None and of_a in _INTEGERS else a_format
    b_format = of_b if b_format is None and of_b in _INTEGERS else b_format
    request = _request(a, b, c, bias, a_format, b_format, c_format, alpha, beta, scale_a, scale_b)
    request.options(model=model, plan=plan, output=out_format, epilogue=epilogue)
    codes, name = _asked(_narrow.matmul, request.operands, request.words, True)
    if codes.ndim == 2 and request.is_batch:
        codes = codes[None]
    return _as_numbers(codes, name, request)


def _as_numbers(codes: np.ndarray, format: str, request: _Request) -> Any:
    library = "numpy" if request.library in ("scalar", "numpy scalar", "ml_dtypes") else request.library
    is_torch = library.startswith("torch")
    if format in ("fp32", "fp64", "s32"):
        return wrap(codes.view({"fp32": np.float32, "fp64": np.float64, "s32": np.int32}[format]), library)
    dtype = DTYPE_OF.get(format, "")
    if dtype and (is_torch or request.uses_ml_dtypes or dtype == "float16"):
        if not is_torch or dtype in ("float16", "bfloat16") or dtype.startswith("float8"):
            return wrap(codes, library, dtype)
    return wrap(decoded(_format_plan(format), codes, F32), library)


_format_plan = plan  # matmul's own plan is another


class Validation:
    """Which models and plans produced a product. exact: every bit; then candidates are all that give these bits."""

    def __init__(self, record: dict, text: str) -> None:
        self.record, self._text = Record(record), text
        for key in ("exact", "model", "plan", "equal_count", "total", "max_ulp", "suspicions", "relation"):
            setattr(self, key, record[key])
        self.candidates = Records(Record(row) for row in record["candidates"])
        self.suspicion = record["suspicions"][0] if record["suspicions"] else ""

    exact: bool
    model: str
    plan: str
    equal_count: int
    total: int
    max_ulp: int
    suspicions: list[str]
    relation: str | None

    def report(self) -> str:
        """What `narrow validate` prints."""
        return self._text

    def __repr__(self) -> str:
        return f"<narrow.Validation: {self._text.splitlines()[0]}>"


def validate(a, b, d, c=None, *, model=None, plan=None, a_format=None, b_format=None, c_format=None, out_format=None, bias=None,
             alpha=None, beta=None, scale_a=None, scale_b=None, gpu=None, epilogue: str | None = None) -> Validation:  # fmt: skip
    """Which models and plans turn a and b into this d, bit for bit; else what d is, and where it differs.

    out_format: what d holds, where its dtype does not say ("bf16" in a float32 array). epilogue: what was applied to the sum, as in
    matmul(). gpu: whose arithmetic is tried, others only where that fails (of arrays on a
    CUDA device: that one's).

    >>> x = np.ones((4, 64), np.float16)
    >>> narrow.validate(x, x.T, narrow.matmul(x, x.T, model="ampere.mma.f32.f16.f16.k16")).exact
    True
    """
    request = _request(a, b, c, bias, a_format, b_format, c_format, alpha, beta, scale_a, scale_b)
    if gpu is None and (there := on_device(d)) is not None and _narrow.knows_gpu(there.gpu):
        gpu = there.gpu
    request.options(model=model, plan=plan, gpu=gpu, epilogue=epilogue)
    if d is None:
        raise TypeError("d: the product is missing")
    request.add("d", d, out_format)
    return Validation(*_asked(_narrow.validate, request.operands, request.words))


_UNITS = {"fma": "a chain of FMAs", "muladd": "multiplications and additions in order", "pairwise": "a pairwise sum",
          "kahan": "a compensated sum"}  # fmt: skip


def _machine(model: str) -> str:
    generation, unit, *_ = model.split(".")
    if generation == "software":
        return "Software, " + _UNITS.get(unit, unit)
    names = {"rtx-blackwell": "RTX Blackwell"}
    return f"{names.get(generation, generation.upper() if generation.startswith('cdna') else generation.capitalize())} {unit}"


def _plan_words(plan: str) -> str:
    kind, _, rest = plan.partition(":")
    size, _, more = rest.partition(",")
    words = {"chain": "one chain over K", "split": f"K split at {size}", "slice": f"K in {size} slices", "even": f"K in {size} even parts",
             "promote": f"partial sums promoted every {size}", "streamk": f"stream-K over {size} processors"}  # fmt: skip
    first = kind.partition(",")
    if first[0] not in words:
        return f"plan {plan}"
    return words[first[0]] + (f" ({first[2] or more})" if first[2] or more else "")


def explain(a, b, d, c=None, **options) -> str:
    """In one sentence: which arithmetic made this product, all bits or how many. Options as in validate().

    >>> x = np.ones((4, 64), np.float16)
    >>> narrow.explain(x, x.T, narrow.matmul(x, x.T, model="hopper.wgmma.f32.f16.f16") + 1)[:28]
    'No arithmetic known here mak'
    """
    v = validate(a, b, d, c, **options)
    best = v.candidates[0]
    if v.exact and given(a).format in ("fp32", "fp64"):  # what CPUs do in software first
        best = next((m for m in v.candidates if m.model.startswith("software.")), best)
    software = best.model.startswith("software.")
    named = _machine(best.model) + ("" if software and best.plan == "chain" else f", {_plan_words(best.plan)}")
    if not v.exact:
        why = f" {v.suspicion[:1].upper()}{v.suspicion[1:]}" if v.suspicion else ""
        why += "" if not why or why.endswith((".", "?", "!")) else "."
        return (f"No arithmetic known here makes these bits; the nearest is {named}, "
                f"with {v.equal_count} of {v.total} outputs equal.{why}")  # fmt: skip
    others = len({(m.model, m.plan) for m in v.candidates}) - 1
    same = "another gives" if others == 1 else f"{others} other models and plans give"
    return f"{named}, every bit" + (f"; {same} the same bits on this data" if others else "")
