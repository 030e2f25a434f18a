"""Which modules change the bits of a row with the number of rows beside it."""

from __future__ import annotations

from typing import Any, Sequence

import torch

from .._records import Record, Records
from ._bits import fetch, is_plain, row_views, tensors_in
from ._compare import Keys, Pair, compare
from ._recorder import check_model, counted, named
from ._trace import Tracer, trace, traced


class BatchInvariance:
    """invariant: every result of every size has the bits of the whole batch, row by row. modules: what changes a row
    though its inputs are equal: module, operation, sizes, changed_rows (of each size), max_ulp (of the kept sample),
    plans (of each size, where known), mixes (a result without rows). deterministic: two runs of the whole batch have
    the same bits; what differs between them is in no list. notes: what could not be told."""

    def __init__(
        self, sizes: list[int], modules: Records, output: set[int], compared: int, differs: str, notes: list[str]
    ) -> None:
        self.sizes, self.modules, self.notes = sizes, modules, notes
        self.output_changes = sorted(output)
        self.compared = compared
        self.deterministic = not differs
        self.invariant = compared > 0 and not modules and not output and not differs
        if differs:
            notes.append(f"two runs of the whole batch: {differs[:1].lower()}{differs[1:].rstrip('.')}")

    def _headline(self) -> str:
        sizes = ", ".join(map(str, self.sizes[:-1]))
        if not self.compared:
            return "No result could be compared row by row."
        if not self.deterministic and not self.modules:
            return "Two runs of the whole batch differ already: whether rows depend on its size cannot be told."
        if self.invariant:
            compared = counted(self.compared, "result")
            return f"Rows of batches of {sizes} have the same bits as in the batch of {self.sizes[-1]}, in {compared}."
        ends = (
            f"the output changes at {_listed(self.output_changes)}"
            if self.output_changes
            else "the rows of the output keep their bits"
        )
        if not self.deterministic:
            ends = "two runs of the whole batch differ already"
        if not self.modules:
            return f"Not batch invariant: {ends}, and no operation was seen to make the change of equal inputs."
        change = "1 operation changes the bits of a row or mixes rows" if len(self.modules) == 1 else (
            f"{len(self.modules)} operations change the bits of a row or mix rows")  # fmt: skip
        return f"Not batch invariant: {change}, and {ends}."

    def __str__(self) -> str:
        lines = [self._headline()]
        for m in self.modules:
            rows = [f"{m.changed_rows[n]} of {n}" for n in m.sizes if m.changed_rows[n] is not None]
            how = "its result has no rows and changes" if m.mixes else f"rows changed {', '.join(rows) or 'not known'}"
            ulp = "" if m.max_ulp is None or m.mixes else f", by {m.max_ulp} ulp at most in the sample"
            lines.append(f"  {_name(m)}: {how} with {_listed(m.sizes)}{ulp}")
            lines += [f"    batch of {n}: {plan}" for n, plan in m.plans.items()]
        return "\n".join(lines + [f"  {note}." for note in self.notes])

    def __repr__(self) -> str:
        return f"<narrow.torch.BatchInvariance: {self._headline()}>"


def _listed(sizes: list[int]) -> str:
    return f"{'a batch' if len(sizes) == 1 else 'batches'} of {', '.join(map(str, sizes))}"


def _name(m: Record) -> str:
    return f"{m.operation} {named(m)}" if m.kind == "operation" else f"{m.module or 'the model'} ({m.operation})"


def _cut(batch: Any, n: int) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch[:n].clone()
    if isinstance(batch, dict):
        return {key: _cut(x, n) for key, x in batch.items()}
    return type(batch)(_cut(x, n) for x in batch) if type(batch) in (tuple, list) else batch


class _Rows(Tracer):
    """Keeps all results of the whole batch; or puts their rows in place of a smaller one's, once those are recorded.

    So each operation of a smaller batch gets the inputs of the whole one, and a change is seen where it is made, also
    behind others."""

    def __init__(self, model: torch.nn.Module, keep: Any, rows: int, whole: _Rows | None) -> None:
        super().__init__(model, keep, rows)
        self.whole = whole
        self._own = {p.untyped_storage()._cdata for p in [*model.parameters(), *model.buffers()] if is_plain(p)}
        self.kept_results: dict[tuple, tuple[list[dict], list[torch.Tensor]]] = {}
        self._keys = Keys()

    def add(self, kind, where, operation, inputs, outputs, *more, **named):
        super().add(kind, where, operation, inputs, outputs, *more, **named)
        key = self._keys.of(self.records[-1])
        if self.whole is None:
            self.kept_results[key] = inputs, [x.clone() for x in outputs]
            return
        fetch(self.numbers, self.rows)
        self.numbers.clear()
        before, theirs = self.whole.kept_results.get(key, (None, []))
        if before is not None and Pair(self.whole.rows, self.rows).all_same(before, inputs):
            for x, result in zip(outputs, theirs):
                # Not the model itself, and no indices: those of a whole batch lead beyond a smaller one.
                if is_plain(x) and x.is_floating_point() and x.untyped_storage()._cdata not in self._own:
                    _put(x, result, self.rows, self.whole.rows)


def _put(x: torch.Tensor, whole: torch.Tensor, rows: int | None, total: int | None) -> None:
    """Copies the rows of the whole result, lying where they are nearest to what is there."""
    if x.shape == whole.shape:
        x.copy_(whole)
        return
    here, there = (row_views(t, n, every=True) for t, n in ((x, rows), (whole, total)))  # type: ignore[arg-type]
    fitting = [
        (here[key], there[key][:rows]) for key in here if key in there and here[key].shape == there[key][:rows].shape
    ]
    if fitting and x.dtype == whole.dtype:
        distances = [float((p.double() - q.double()).nan_to_num().abs().sum()) for p, q in fitting]
        p, q = fitting[distances.index(min(distances))]
        p.copy_(q)


def batch_invariance(
    model: torch.nn.Module, batch: Any, sizes: Sequence[int] | None = None, *, plans: int = 8
) -> BatchInvariance:
    """Runs the model on the first rows of a batch, for several sizes, and compares every operation's rows with the
    whole batch.

    batch: a tensor, a tuple of arguments or a dict of named ones; every tensor has the batch in front. sizes: 1, 2, 3,
    half and all unless given. The model runs in eval mode without gradients, and gets its modes back. plans: of how
    many products the plans are named, by narrow.validate() on kept operands. Rows are found in the first two dimensions
    of a result. So that changes are found behind other changes, too, results of the whole batch are kept and put into a
    second run of each smaller one.

    >>> import torch
    >>> narrow.torch.batch_invariance(torch.nn.ReLU(), torch.ones(4, 2)).invariant
    True
    """
    check_model(model)
    tensors = list(tensors_in(batch))
    counts = {x.shape[0] if x.ndim else 0 for x in tensors}
    if len(counts) != 1 or min(counts) < 2:
        raise ValueError(
            f"batch: tensors with the same first dimension, at least 2, are needed, not {sorted(counts) or 'no tensor'}"
        )
    total = counts.pop()
    wanted = sorted({int(n) for n in sizes} if sizes is not None else {n for n in (1, 2, 3, total // 2) if n <= total})
    if not wanted or wanted[0] < 1 or wanted[-1] > total:
        raise ValueError(f"sizes: {list(sizes or [])}; right are sizes from 1 to {total}, the rows of the batch")
    wanted = [n for n in wanted if n < total] or [1]
    modes = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            keeper = _Rows(model, "sample", total, None)
            whole, again = traced(keeper, batch), trace(model, batch, rows=total, keep=False)
            runs = {n: compare(whole, trace(model, _cut(batch, n), rows=n, keep=False)) for n in wanted}
            repaired = {
                n: traced(_Rows(model, "sample", n, keeper), _cut(batch, n)) for n, c in runs.items() if not c.equal
            }
    finally:
        for module, mode in modes:
            module.training = mode
    notes = list(whole.notes)
    twice = compare(whole, again)
    random = {(row.kind, row.module, row.operation) for row in twice.rows if row.status == "made here"}
    differs = "" if twice.equal else repr(twice).partition(": ")[2].rstrip(">")
    found: dict[int, Record] = {}  # by the place in the run of the whole batch
    output: set[int] = set()
    compared = 0
    for n, c in runs.items():
        compared += sum(row.status != "unknown" for row in c.rows)
        if unknown := sum(row.status == "unknown" for row in c.rows):
            what = f"{counted(unknown, 'result')} could not be compared: shapes that differ by more than the batch"
            notes.append(f"a batch of {n}: {what}")
        if root := next((row for row in c.rows if row.kind == "module" and row.module == ""), None):
            output |= {n} if root.status not in ("equal", "unknown") else set()
        if n not in repaired:
            continue
        t = repaired[n]
        c = compare(whole, t)
        for row in c.rows:
            if row.status != "made here" or (row.kind, row.module, row.operation) in random:
                continue
            amount = c._amount(row)
            place = {key: row[key] for key in ("kind", "phase", "module", "call", "node", "operation")}
            m = found.setdefault(row.a, Record(**place, sizes=[], changed_rows={}, max_ulp=None, plans={}))
            shapes = [[x["shape"] for x in some.records[i].outputs] for some, i in ((whole, row.a), (t, row.b))]
            m["mixes"] = shapes[0] == shapes[1]
            m.sizes.append(n)
            m.changed_rows[n] = amount["changed_rows"]
            m["max_ulp"] = max((u for u in (m.max_ulp, amount["max_ulp"]) if u is not None), default=None)
            if len([x for x in found.values() if x.plans]) < plans or m.plans:
                both = (row.plans if "plans" in row else c._plans(row)["plans"]) or (None, None)
                m.plans.update({size: str(plan) for size, plan in ((n, both[1]), (total, both[0])) if plan})
    modules = Records(m for _, m in sorted(found.items()))
    for m in modules:
        m["plans"] = dict(sorted(m.plans.items()))
    return BatchInvariance([*wanted, total], modules, output, compared, differs, notes)
