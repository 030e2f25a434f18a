"""Assertions for tests of kernels: tolerances with a reason.

A product of K terms summed in FP32 is not one number: every order of the additions has its own rounding errors. What a
test may ask is that the result is bit for bit one of the known ones, or else lies within what rounding can explain.

The bound, for an output with products p_1 .. p_K, sum S, accumulator precision u = 2^-24 (FP32):

    rigorous      K u / (1 - K u) * sum |p_k|                                      any order, certain
    statistical   each addition errs by at most u |S_k|, independently, S_k the partial sums:
                  u / sqrt(3) * sqrt(2 L sum (k/K)^2 S^2 + (L / pi)^2 K^2 var(p)), L = ln(2 outputs / 1e-9)

The second takes rounding errors to be independent, and partial sums to walk from 0 to S like a bridge of exchangeable
steps (the tail of its integrated square falls as exp(-pi^2 x / 2), whence L / pi). Where that is not so it is wider: for
data ordered along K, sums at sixteenths of K are computed and count when they are larger; where products take only D < K
values (quantised operands, constant ones) their errors repeat, and the bound grows by sqrt(K / D). It never exceeds the
certain one. Under these assumptions the outputs of one assertion fail by chance with probability 1e-9.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Sequence

import numpy as np

from . import _narrow
from ._arrays import UINT, floats, given, plan
from ._products import models, validate

FAILURE = 1e-9  # probability that one assertion fails though only rounding was at work
_PARTS = 16  # partial sums along K that are computed

# Precision and the absolute error of a sum that is subnormal, for sums rounded to nearest.
_ACCUMULATORS = {"fp64": (2.0**-53, 2.0**-1075), "fp32": (2.0**-24, 2.0**-150), "fp16": (2.0**-11, 2.0**-25)}


def _numbers(x: Any) -> np.ndarray:
    return np.asarray(floats(given(x)), np.float64)


def _model_row(name: str) -> dict | None:
    if name in _ACCUMULATORS:
        return None
    row = next((m for m in models() if m.name == name), None)
    if row is None:
        raise ValueError(
            f"accumulate: {name!r} is neither 'fp32', 'fp16', 'fp64' nor a model; narrow.models() lists them"
        )
    return row


def bound(
    a, b, c=None, *, accumulate: str = "fp32", out_format: str | None = None, rigorous: bool = False
) -> np.ndarray:
    """How far each output of a @ b + c may lie from the exact sum, as float64.

    accumulate: "fp32" for any order of FP32 sums of exact products, "fp16", "fp64", or a model's name for its steps.

    >>> x = np.ones((2, 64))
    >>> bool((narrow.testing.bound(x, x.T) <= narrow.testing.bound(x, x.T, rigorous=True)).all())
    True
    """
    x, y = _numbers(a), _numbers(b)
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-2]:
        raise ValueError(f"a and b are matrices whose K agrees, not of shapes {x.shape} and {y.shape}")
    z = np.zeros(()) if c is None else _numbers(c)
    k = x.shape[-1] + (c is not None)
    with np.errstate(invalid="ignore", over="ignore"):
        total = x @ y + z
        if k == 0:
            return np.zeros(total.shape)
        magnitude = np.abs(x) @ np.abs(y) + np.abs(z)
        row = _model_row(accumulate)
        if row is None:
            u, tiny = _ACCUMULATORS[accumulate]
            steps, terms = k, 1
        else:
            terms = max(1, int(row["products_per_step"]))
            steps = -(-k // terms)
            fraction = int(row["fraction_bits"] or 23)
            u, tiny = 2.0 ** -min(fraction, 23), 2.0**-149
        n = steps if row is None else steps * (terms + 2)
        error = np.full(total.shape, np.inf) if n * u >= 1 else n * u / (1 - n * u) * magnitude
        if not rigorous:
            walk = _walk(x, y, z, total, k, steps, terms, row is not None)
            error = np.minimum(error, u * walk * np.sqrt(k / _distinct(x, y, k)))
        error = error + (k + 1) * tiny + k * 2.0**-52 * magnitude  # the last: of the float64 reference itself
        if out_format is not None:
            to = plan(out_format)
            digits = int(_narrow.format_numbers(to)[0])
            error = error + 2.0 ** -(digits + 1) * (np.abs(total) + error) + _narrow.format_numbers(to)[1] / 2
        return error


def _distinct(x: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """How many magnitudes the products of each output take, at most K; of batches, of all together."""

    def count(lines: np.ndarray) -> np.ndarray:
        ordered = np.sort(np.abs(lines), axis=-1)
        return 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(axis=-1)

    rows, columns = count(x), count(np.swapaxes(y, -1, -2))
    return np.minimum(rows[..., :, None] * columns[..., None, :], k)


def _walk(x, y, z, total, k: int, steps: int, terms: int, truncated: bool) -> np.ndarray:
    """What the errors of all additions come to, in units of u."""
    squares = (x * x) @ (y * y) + z * z
    chance = math.log(2 * max(1, total.size) / FAILURE)
    variance = np.maximum(squares / k - (total / k) ** 2, 0)
    level = total**2 * (k / 3 + 0.5)  # sum of (k/K)^2 S^2
    bridge = k * (k + 1) * variance
    if k >= 2 * _PARTS:  # sums along K as they stand in memory
        seen, partial = 0.0, np.zeros(())
        for piece in np.array_split(np.arange(x.shape[-1]), _PARTS):
            partial = partial + x[..., piece] @ y[..., piece, :]
            seen = seen + partial**2 * (k / _PARTS)
        level = np.maximum(level, seen)
    if not truncated:
        return np.sqrt((2 * chance * level + (chance / math.pi) ** 2 * bridge) / 3)
    # Cut toward zero: each step takes up to a unit from the sum, always inwards; and from each of its terms, either way.
    typical = np.sqrt((level + bridge) / k) + np.sqrt(squares)
    return 2 * steps * typical + np.sqrt(2 * chance * steps * (terms + 1)) * typical


def _largest(format: str) -> float:
    from . import format as find

    return find(format).max


def assert_matmul(d, a, b, c=None, *, accumulate: str = "fp32", out_format: str | None = None, rigorous: bool = False,
                  **options) -> None:  # fmt: skip
    """Passes when d is bit for bit what some model and plan gives, or lies within bound(); fails with the report.

    >>> x = np.ones((4, 64), np.float32)
    >>> narrow.testing.assert_matmul(x @ x.T, x, x.T)
    """
    limit = bound(a, b, c, accumulate=accumulate, out_format=out_format, rigorous=rigorous)
    found = _numbers(d)
    if found.shape != limit.shape:
        raise AssertionError(f"the product has the shape {limit.shape} and d has {found.shape}")
    with np.errstate(invalid="ignore", over="ignore"):
        exact = _numbers(a) @ _numbers(b) + (0 if c is None else _numbers(c))
    largest = min(_largest(accumulate if accumulate in _ACCUMULATORS else "fp32"), _largest(out_format or "fp64"))
    with np.errstate(invalid="ignore"):
        right = (
            (np.isfinite(limit) & (np.abs(found - exact) <= limit))
            | (np.isnan(found) & np.isnan(exact))
            | (found == exact)
        )
        # What overflows becomes Inf, the largest value, or NaN where there is no Inf.
        beyond = np.isfinite(exact) & (np.abs(exact) + limit >= largest)
        right |= (
            beyond
            & (~np.isfinite(found) | (np.abs(found) == largest))
            & ((np.sign(found) == np.sign(exact)) | np.isnan(found))
        )
        wrong = ~right
    if not wrong.any():
        return
    try:
        known = validate(a, b, d, c, out_format=out_format, **options)
        if known.exact and any(_accumulates(m.model, accumulate) for m in known.candidates):
            return
        report = known.report()
    except ValueError as error:
        report = str(error)
    worst = np.unravel_index(
        np.argmax(np.where(wrong, np.nan_to_num(np.abs(found - exact) / limit, nan=np.inf), -1)), wrong.shape
    )
    place = ", ".join(str(int(i)) for i in worst)
    raise AssertionError(
        f"{int(wrong.sum())} of {wrong.size} outputs lie beyond what {accumulate} sums of {np.shape(a)[-1]} products explain "
        f"({'certain' if rigorous else f'by chance with probability {FAILURE:g}'}).\n"
        f"Worst: d[{place}] = {found[worst]:.9g}, exact {exact[worst]:.9g}, "
        f"off by {abs(found[worst] - exact[worst]):.3g}, bound {limit[worst]:.3g}\n\n{report}"
    )


def _accumulates(model: str, accumulate: str) -> bool:
    """Whether a model's accumulator is the one asked for: a product summed in FP16 does not pass for one of FP32."""
    if accumulate not in _ACCUMULATORS:
        return model == accumulate
    return _narrow.model_formats(model)[2] == accumulate


def assert_batch_invariant(fn: Callable[[Any, Any], Any], a, b, sizes: Sequence[int] | None = None) -> None:
    """Runs fn(a[:n], b) for sizes n of the batch: the first rows must have the same bits for all. Names the plans.

    >>> x = np.ones((8, 64), np.float16)
    >>> fn = lambda p, q: narrow.matmul(p, q, model="hopper.wgmma.f32.f16.f16")
    >>> narrow.testing.assert_batch_invariant(fn, x, x.T, [1, 4, 8])
    """
    rows = len(a)
    wanted = sorted(
        {min(int(n), rows) for n in sizes}
        if sizes is not None
        else {2**i for i in range(rows.bit_length()) if 2**i <= rows} | {rows}
    )
    if not wanted or wanted[0] < 1:
        raise ValueError("sizes: at least one size of at least 1 is needed")
    results = [np.array(given(fn(a[:n], b)).array) for n in wanted]  # copies: a kernel may use one buffer for all
    for n, result in zip(wanted, results):
        if result.ndim == 0 or len(result) != n:
            raise AssertionError(f"fn returned the shape {result.shape} for {n} rows")
    differs = [i for i in range(1, len(wanted)) if not _same_bits(results[i][: wanted[i - 1]], results[i - 1])]
    if not differs:
        return
    first, before = wanted[differs[0]], wanted[differs[0] - 1]

    def plan_of(n: int) -> str:
        try:
            v = validate(a[:n], b, fn(a[:n], b))
        except ValueError as error:
            return f"unknown: {error}"
        return (
            f"{v.model}, {v.plan}"
            if v.exact
            else f"no plan known here ({v.equal_count} of {v.total} outputs of {v.model}, {v.plan})"
        )

    lines = "\n".join(f"  {n:>6} rows: {plan_of(n)}" for n in wanted)
    some = "the first row differs" if before == 1 else f"rows among the first {before} differ"
    raise AssertionError(f"{some} from a batch of {first} rows on\n{lines}")


def _same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    return x.shape == y.shape and np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


def assert_cast(
    fn: Callable[[np.ndarray], Any], format: str, cast: str | None = None, *, inputs: str = "bf16", **options
) -> None:
    """Holds a kernel from float32 to codes (or to numbers of the format's dtype) against encode(), over all inputs.

    inputs: "bf16" or "fp16" for the 2^16 floats of that format, "fp32" for all 2^32, in pieces of 2^24. NaN is compared by code
    where cast names a system, else as NaN.

    >>> narrow.testing.assert_cast(lambda x: narrow.encode(x, "e4m3", cast="torch"), "e4m3", "torch")
    """
    from . import decode, encode

    p = plan(format, cast, **{name: word for name, word in options.items() if name != "seed"})
    count = {"bf16": 1 << 16, "fp16": 1 << 16, "fp32": 1 << 32}.get(inputs)
    if count is None:
        raise ValueError(f"inputs: {inputs!r}; right are bf16, fp16, fp32")
    for start in range(0, count, 1 << 24):
        words = np.arange(start, min(count, start + (1 << 24)), dtype=np.uint32)
        x = words.view(np.float32) if inputs == "fp32" else decode(words.astype(np.uint16), inputs)
        expected = encode(x, format, cast=cast, **options)
        g = given(fn(x.copy()))
        if g.format in ("fp32", "fp64"):
            codes = encode(g.array, format)
            values = decode(codes, format).astype(g.array.dtype)
            loose = ~((values == g.array) | (np.isnan(values) & np.isnan(g.array)))
            if g.array.shape == x.shape and loose.any():
                i = int(np.argmax(loose))
                raise AssertionError(f"the kernel returned {g.array[i]!r} for {x[i]!r}, which is no number of {p.name}")
        elif g.format in ("", p.name):
            codes = g.array
        else:
            raise AssertionError(f"the kernel returned {g.format}, not {p.name}")
        codes = codes.view(UINT[codes.itemsize])
        if codes.shape != x.shape:
            raise AssertionError(f"the kernel returned the shape {codes.shape} for {x.shape}")
        wrong = codes.astype(np.uint64) != expected.astype(np.uint64)
        if cast is None or g.format in ("fp32", "fp64"):
            wrong &= ~(np.isnan(decode(codes, format)) & np.isnan(decode(expected, format)))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise AssertionError(
                f"{int(wrong.sum())} of {x.size} inputs differ; first {x[i]!r} ({int(x.view(np.uint32)[i]):#010x}): "
                f"found {int(codes[i]):#x}, expected {int(expected[i]):#x} ({decode(int(expected[i]), format)})"
            )
