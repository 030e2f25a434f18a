"""Which plan made a product of a trace, in words."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from .. import _narrow
from .._products import _machine, _plan_words, validate
from .._records import Record

_ROWS, _OUTPUTS = 8, 128  # of the sample: enough to tell plans apart, few enough for a search of seconds


def _most(differs: torch.Tensor, count: int) -> torch.Tensor:
    """Places with most differences first, in order of place."""
    return differs.sum(-1).argsort(descending=True, stable=True)[:count].sort().values


class Plan(Record):
    """text: the plan in words; model and plan: its names, '' where none known here makes these bits."""

    def __str__(self) -> str:
        return self["text"]


def plan_of(
    kept: dict[str, torch.Tensor], d: torch.Tensor, device: str, *, differs: torch.Tensor | None = None, like: str = ""
) -> Plan:
    """The plan that makes d of the operands in kept. like: a model to prefer where several give these bits."""
    if differs is None:
        differs = torch.zeros(d.shape, dtype=torch.bool)
    rows = _most(differs, _ROWS)
    columns = _most(differs.T, _OUTPUTS // max(1, len(rows)))
    options: dict[str, Any] = {key: float(kept[key]) for key in ("alpha", "beta") if key in kept}
    with contextlib.suppress(AttributeError, ValueError):
        if device.startswith("sm_") and _narrow.knows_gpu(device):
            options["gpu"] = device
    c = kept.get("c")
    # A bias is added to the sum, or the sum starts from it.
    ways: list[dict[str, Any]] = [{}] if c is None else [{"c": (c.expand(len(d), -1)[rows])[:, columns].contiguous()}]
    if c is not None and len(c) == 1:
        ways.insert(0, {"bias": c[0][columns]})
    try:
        found = [
            validate(kept["a"][rows], kept["b"][:, columns], d[rows][:, columns], **options, **way) for way in ways
        ]
    except (ValueError, TypeError) as error:
        return Plan(text=f"not known ({error})", model="", plan="")
    v = next((v for v in found if v.exact), found[0])
    if not v.exact:
        return Plan(
            text=f"no arithmetic known here ({v.equal_count} of {v.total} outputs of the nearest, {v.model}, {v.plan})",
            model="",
            plan="",
        )
    fitting = [m for m in v.candidates if m.model == like] or (
        [m for m in v.candidates if m.model.startswith("software.")] if device == "cpu" else []
    )
    if device == "cpu" and not fitting:  # a tensor core gives these bits, and it was none
        return Plan(text="a sum that no model of a CPU here makes", model="", plan="")
    best = next((m for m in fitting if m.plan == "chain"), (fitting or v.candidates)[0])
    others = len({(m.model, m.plan) for m in v.candidates}) - 1
    same = "another gives" if others == 1 else f"{others} other models and plans give"
    more = f" ({same} the same bits of this sample)" if others else ""
    words = "" if best.plan == "chain" and best.model.startswith("software.") else f", {_plan_words(best.plan)}"
    words += ", started from the bias" if v is not found[0] else ""
    return Plan(text=f"{_machine(best.model)}{words}{more}", model=best.model, plan=best.plan)
