"""Bits of tensors: a hash computed where they lie, how far two results are apart, a sample to keep.

The hash is a sum modulo 2^64 of 32-bit words times odd multipliers that depend on the position, of blocks of such sums
again. A change in one word always changes it: an odd factor has an inverse. Two words that change places, or many that
change, go unseen with probability about 2^-32 and 2^-63. It guards against rounding, not against forgery."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Iterator

import torch

from .._device import plain

_LENGTH = 1 << 14  # words to a multiplier table
_PIECE = 1 << 24  # words at a time: their products take 128 MiB
_GOLDEN, _MIX = -0x61C8864680B583EB, 0x2545F4914F6CDD1D  # odd, bits well mixed
SAMPLE = 32  # rows and columns kept of a result


def tensors_in(x: Any) -> Iterator[torch.Tensor]:
    """The tensors in arguments or results of any nesting."""
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from tensors_in(part)
    elif isinstance(x, Mapping):
        yield from tensors_in(list(x.values()))
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        yield from tensors_in([getattr(x, field.name) for field in dataclasses.fields(x)])


def is_plain(x: torch.Tensor) -> bool:
    """Whether the bits lie in memory: not in a subclass, sparse, quantised or without data."""
    kinds = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
    return type(x) in kinds and x.layout is torch.strided and not (x.is_nested or x.is_quantized or x.is_meta)


@functools.lru_cache(maxsize=None)
def _multipliers(device: torch.device) -> torch.Tensor:
    z = torch.arange(1, _LENGTH + 1, dtype=torch.int64, device=device) * _GOLDEN
    z = (z ^ (z >> 31)) * _MIX
    return (z ^ (z >> 29)) | 1


def _folded(words: torch.Tensor) -> torch.Tensor:
    """A hash of each row of a matrix of integers."""
    table = _multipliers(words.device)
    count, width = words.shape
    while width > 1:
        whole = max(1, _PIECE // (max(1, count) * _LENGTH)) * _LENGTH
        sums = []
        for start in range(0, width, whole):
            piece = words[:, start : start + whole]
            blocks = piece.shape[1] // _LENGTH * _LENGTH
            if blocks:
                sums.append((piece[:, :blocks].unflatten(1, (-1, _LENGTH)) * table).sum(-1))
            if blocks < piece.shape[1]:
                sums.append((piece[:, blocks:] * table[: piece.shape[1] - blocks]).sum(-1, keepdim=True))
        words = torch.cat(sums, 1)
        words = (words ^ ((words >> 32) & 0xFFFFFFFF)) * _MIX  # both steps can be undone
        width = words.shape[1]
    return words[:, 0].to(torch.int64) if width else words.new_zeros(count, dtype=torch.int64)


def hashes(rows: torch.Tensor) -> torch.Tensor:
    """A 64-bit hash of each slice along the first dimension, as int64 on the same device."""
    x = rows.reshape(len(rows), -1).contiguous()
    if x.is_complex():
        x = torch.view_as_real(x).flatten(1)
    if x.storage_offset() * x.itemsize % 4:
        x = x.clone()
    x = x.view(torch.uint8)
    if x.shape[1] % 4:
        x = torch.nn.functional.pad(x, (0, -x.shape[1] % 4))
    return _folded(x.view(torch.int32))


def row_views(x: torch.Tensor, rows: int, every: bool = False) -> dict[str, torch.Tensor]:
    """The ways in which a batch of rows can lie in one of the first two dimensions: outside ("0") or inside ("0i").

    One row lies in one way, which is all of x, unless every is wanted.
    """
    views = {}
    for d in range(min(2, x.ndim)) if rows > 1 or every else ():
        if x.shape[d] and x.shape[d] % rows == 0:
            views[str(d)] = x.unflatten(d, (rows, -1)).movedim(d, 0)
            if x.shape[d] != rows or every:
                views[f"{d}i"] = x.unflatten(d, (-1, rows)).movedim(d + 1, 0)
    return views


def dtype_of(x: torch.Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


class Numbers:
    """What is known of a tensor's bits: int64 on its device, until fetch() brings all of them to the host at once."""

    def __init__(self, x: torch.Tensor, rows: int | None, statistics: bool) -> None:
        self.entry: dict[str, Any] = {"shape": list(x.shape), "dtype": dtype_of(x), "hash": None}
        self.words: torch.Tensor | None = None
        self.keys: list[str] = []
        self.has_statistics = False
        if not is_plain(x):
            return
        x = plain(x)
        parts = [hashes(x[None])]
        if statistics and (x.is_floating_point() or x.is_complex()):
            self.has_statistics = True
            y = torch.view_as_real(x) if x.is_complex() else x.float() if x.itemsize == 1 else x
            nan, inf = y.isnan(), y.isinf()
            amax = y.abs().masked_fill_(nan | inf, 0).amax() if y.numel() else y.new_zeros(())
            parts += [nan.sum()[None], inf.sum()[None], amax.double()[None].view(torch.int64)]
        for key, view in row_views(x, rows).items() if rows else ():
            self.keys.append(key)
            parts.append(hashes(view))
        self.words = torch.cat(parts)

    def finish(self, words: torch.Tensor, rows: int | None) -> dict[str, Any]:
        found = words.tolist()
        self.entry["hash"] = f"{found[0] & (1 << 64) - 1:016x}"
        at = 1
        if self.has_statistics:
            self.entry.update(nan=found[1], inf=found[2], amax=float(words[3:4].view(torch.float64)))
            at = 4
        if rows:
            names = [f"{word & (1 << 64) - 1:016x}" for word in found[at:]]
            self.entry["rows"] = {key: names[i * rows : (i + 1) * rows] for i, key in enumerate(self.keys)}
        return self.entry


def fetch(numbers: list[Numbers], rows: int | None) -> None:
    """Brings what was computed to the host: one copy for each device."""
    there: dict[torch.device, list[Numbers]] = {}
    for n in numbers:
        if n.words is not None:
            there.setdefault(n.words.device, []).append(n)
    for some in there.values():
        sizes = [len(n.words) for n in some]  # type: ignore[arg-type]
        host = torch.cat([n.words for n in some]).cpu()  # type: ignore[misc]
        for n, words in zip(some, host.split(sizes)):
            n.finish(words, rows)
            n.words = None


@functools.lru_cache(maxsize=1024)
def _places_on(count: int, device: torch.device) -> torch.Tensor:
    return torch.tensor(sample_places(count), device=device)


def sample_places(count: int) -> list[int]:
    """Half of the sample from the start, which other batch sizes have, too; the rest spread to the end."""
    if count <= SAMPLE:
        return list(range(count))
    half = SAMPLE // 2
    return [*range(half), *(half + i * (count - 1 - half) // (half - 1) for i in range(half))]


def as_matrix(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x.reshape(-1, 1)


def sample(x: torch.Tensor, rows: bool = True, columns: bool = True) -> torch.Tensor:
    """Some rows and columns of a matrix, a copy."""
    if rows:
        x = x.index_select(0, _places_on(x.shape[0], x.device))
    if columns:
        x = x.index_select(1, _places_on(x.shape[1], x.device))
    return x


def words_of(x: torch.Tensor) -> torch.Tensor:
    """The bits of each number as a signed integer."""
    x = x.contiguous()
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.itemsize]).to(torch.int64)


def distance(x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    """How many numbers differ, by how much at most, and by how many steps of the format.

    The amounts are None where one that differs is not finite or not a float.
    """
    if x.is_complex():
        x, y = (torch.view_as_real(t.resolve_conj()) for t in (x, y))
    a, b = words_of(x), words_of(y)
    differs = a != b
    count = int(differs.sum())
    p, q = (t.double()[differs] for t in (x, y))
    found = {"count": count, "total": a.numel(), "max_abs": None, "max_ulp": None}
    if not x.is_floating_point() or not bool((p.isfinite() & q.isfinite()).all()):
        return found
    top = 8 * x.itemsize - 1
    # Distances from zero with a sign, so that neighbours are one apart. Of FP64 their difference can exceed 64 bits.
    a, b = (torch.where((t >> top) & 1 == 1, -(t & ((1 << top) - 1)), t & ((1 << top) - 1))[differs] for t in (a, b))
    steps = (
        (abs(i - j) for i, j in zip(a.tolist(), b.tolist()))
        if top == 63
        else [int((a - b).abs().max())]
        if count
        else []
    )
    return {**found, "max_abs": float((p - q).abs().max()) if count else 0.0, "max_ulp": max(steps, default=0)}
