"""Scores of attention, which torch.nn.functional.scaled_dot_product_attention keeps to itself.

While someone looks, that function is replaced by one that shows its operands first. A mode of torch would see calls by
any name, but torch.compile would trace it into what is compiled in that time.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator

import torch
from torch.nn import functional as F

QUERIES = 1024  # of which scores are computed at most

_looking: list[Callable[[torch.Tensor, torch.Tensor, Any], None]] = []
_original = F.scaled_dot_product_attention


def _shown(*arguments: Any, **words: Any) -> Any:
    if not torch.compiler.is_compiling():
        given = dict(zip(("query", "key", "value"), arguments)) | words
        for look in tuple(_looking):
            look(given["query"], given["key"], given.get("scale"))
    return _original(*arguments, **words)


def show_attention(look: Callable[[torch.Tensor, torch.Tensor, Any], None], shows: bool) -> None:
    """Calls look(query, key, scale) before attention is computed, until it is called with False."""
    global _original
    if shows and look not in _looking:
        _looking.append(look)
    elif not shows and look in _looking:
        _looking.remove(look)
    if _looking and F.scaled_dot_product_attention is not _shown:
        _original, F.scaled_dot_product_attention = F.scaled_dot_product_attention, _shown
    elif not _looking and F.scaled_dot_product_attention is _shown:
        F.scaled_dot_product_attention = _original


def scores(query: torch.Tensor, key: torch.Tensor, scale: float | None) -> Iterator[tuple[str, torch.Tensor]]:
    """Those of the first head of the first row, computed again in FP32, before a mask; and which they are."""
    if not (query.numel() and key.numel()):
        return
    which = " scores" + {2: "", 3: " of row 0"}.get(query.dim(), " of head 0 of row 0")
    with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
        while query.dim() > 2:
            query, key = query[0], key[0]
        if len(query) > QUERIES:
            which, query = f"{which}, last {QUERIES} queries", query[-QUERIES:]
        yield which, query.float() @ key.float().T * (query.shape[-1] ** -0.5 if scale is None else scale)
