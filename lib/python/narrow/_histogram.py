"""How often each binade occurs, and what follows from it for any format at any power-of-two scale."""

from __future__ import annotations

import functools

import numpy as np

from . import _kernels, _narrow
from ._arrays import F32, dense, floats, given, number, plan
from ._device import on_device
from ._records import Record


class Histogram:
    """binades: exponents e of [2^e, 2^(e+1)) from the smallest to the largest that occurs; counts: how many of each.

    zero, subnormal (below 2^-126), inf, nan: (negative, positive) counts. Data of other types is read as FP32.
    """

    def __init__(self, x) -> None:
        d = on_device(x)
        found = None if d is None else _kernels.histogram(d)
        if found is None:
            with np.errstate(over="ignore"):
                found = _narrow.histogram(dense(floats(given(x)), F32))
        self._histogram: _narrow.Histogram = found
        self.zero, self.subnormal, self.inf, self.nan = found.zero, found.subnormal, found.inf, found.nan

    @functools.cached_property
    def _binades(self) -> tuple[int, np.ndarray, np.ndarray]:
        """The first exponent, and the counts of each sign: made when asked for, as a watched run keeps many histograms."""
        return self._histogram.binades()

    @property
    def negative(self) -> np.ndarray:
        return self._binades[1]

    @property
    def positive(self) -> np.ndarray:
        return self._binades[2]

    @property
    def binades(self) -> np.ndarray:
        return np.arange(self._binades[0], self._binades[0] + len(self.negative))

    @property
    def counts(self) -> np.ndarray:
        return self.negative + self.positive

    def lost(self, format, scale: float = 1.0, *, cast=None, rounding=None, overflow=None, subnormals=None) -> Record:
        """How many values times scale (a power of two) underflow, become subnormal, overflow: (at least, at most)."""
        return Record(self._histogram.lost(plan(format, cast, rounding, overflow, subnormals), number(scale, "scale")))

    def best_scale(self, format, *, cast=None, rounding=None) -> float | None:
        """The power of two that loses the fewest values to zero while nothing overflows.

        None where all overflow, 1.0 where no value is finite and not zero.
        """
        return self._histogram.best_scale(plan(format, cast, rounding))

    def __repr__(self) -> str:
        span = f"2^{self.binades[0]} to 2^{self.binades[-1] + 1}" if len(self.binades) else "none finite from 2^-126 on"
        total = int(self.counts.sum()) + sum(map(sum, (self.zero, self.subnormal, self.inf, self.nan)))
        return f"<narrow.Histogram of {total} values, {span}>"

    def _repr_svg_(self) -> str:
        width, height, step = 640, 160, 640 / max(1, len(self.binades))
        most = max(1, int(self.counts.max(initial=0)))
        bars = "".join(
            f'<rect x="{i * step:.1f}" y="{height - height * n / most:.1f}" width="{step * 0.9:.1f}" '
            f'height="{height * n / most:.1f}" fill="#3366aa"><title>2^{e}: {n}</title></rect>'
            for i, (e, n) in enumerate(zip(self.binades.tolist(), self.counts.tolist()))
        )
        ends = [(0, "start", self.binades[0]), (width, "end", self.binades[-1])] if len(self.binades) else []
        labels = "".join(
            f'<text x="{x}" y="{height + 16}" text-anchor="{anchor}" font-size="12">2^{e}</text>'
            for x, anchor, e in ends
        )
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 22}">{bars}{labels}</svg>'

    def plot(self, ax=None):
        """Draws it with matplotlib, which must be installed; returns the axes."""
        import matplotlib.pyplot as plt

        ax = ax or plt.gca()
        ax.bar(self.binades, self.counts, width=0.9)
        ax.set_xlabel("exponent e of [2^e, 2^(e+1))")
        ax.set_ylabel("values")
        return ax


def histogram(x) -> Histogram:
    """The binades of an array.

    >>> narrow.histogram([1.0, 1.5, 4.0]).counts
    array([2, 0, 1], dtype=uint64)
    """
    return Histogram(x)
