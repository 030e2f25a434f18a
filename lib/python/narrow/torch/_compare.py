"""Two traces side by side: the first operation that makes a difference out of equal inputs."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Iterator

import torch

from .._records import Record, Records
from ._bits import distance, sample_places, words_of
from ._plans import plan_of
from ._recorder import counted, named
from ._trace import Trace


class Keys:
    """Names of records that are the same in two runs: the occurrence of an operation in its module."""

    def __init__(self) -> None:
        self._seen: Counter[tuple] = Counter()

    def of(self, r: Any) -> tuple:
        key = (r["kind"], r["phase"], r["module"], r["operation"] if r["kind"] == "operation" else "")
        self._seen[key] += 1
        return (*key, self._seen[key])


def _keyed(trace: Trace) -> dict[tuple, Record]:
    keys = Keys()
    return {keys.of(r): r for r in trace.records}


class Pair:
    """Which bits of two tensors are held against each other: all, or the first rows of two batches."""

    def __init__(self, a: int | None, b: int | None) -> None:
        self.a, self.b = a, b
        self.is_rows = self.a is not None and self.b is not None and self.a != self.b
        self.rows = min(self.a or 0, self.b or 0)

    def heads(self, x: dict, y: dict) -> list[tuple[str, list, list]]:
        """The first rows of both, for each way in which their shapes can hold a batch."""
        if not self.is_rows or len(x["shape"]) != len(y["shape"]):
            return []
        found = []
        for d, (m, n) in enumerate(zip(x["shape"], y["shape"])):
            others = [s == t for i, (s, t) in enumerate(zip(x["shape"], y["shape"])) if i != d]
            if d > 1 or m == n or m * self.b != n * self.a or not all(others):
                continue
            for key in (str(d), f"{d}i"):
                p, q = ([t["hash"]] if rows == 1 else t["rows"].get(key) for t, rows in ((x, self.a), (y, self.b)))
                if p and q:
                    found.append((key, p[: self.rows], q[: self.rows]))
        return found

    def same(self, x: dict, y: dict) -> bool | None:
        """None where it cannot be told: bits that were not seen, shapes without a common batch."""
        if x["dtype"] != y["dtype"]:
            return False
        if x["hash"] is None or y["hash"] is None:
            return None
        if x["shape"] == y["shape"]:
            return x["hash"] == y["hash"]
        if not self.is_rows:
            return False
        heads = self.heads(x, y)
        return any(p == q for _, p, q in heads) if heads else None

    def changed_rows(self, x: dict, y: dict) -> int | None:
        """How many of the common rows differ, by the way of lying that has fewest."""
        return min((sum(s != t for s, t in zip(p, q)) for _, p, q in self.heads(x, y)), default=None)

    def all_same(self, some: list[dict], others: list[dict]) -> bool | None:
        if len(some) != len(others):
            return False
        found = [self.same(x, y) for x, y in zip(some, others)]
        return False if False in found else None if None in found else True


class Comparison:
    """equal: every result that both traces hold has the same bits. first: the first that is made of equal inputs and
    differs, or None. rows: the results of both, in a's order: status "equal", "made here" (equal inputs), "carried"
    (other inputs), "other arguments", or "unknown". notes: what else the traces say."""

    def __init__(self, a: Trace, b: Trace) -> None:
        self._a, self._b = a, b
        self._pair = Pair(a.rows, b.rows)
        mine, theirs = _keyed(a), _keyed(b)
        self.rows = Records(self._row(r, theirs[key]) for key, r in mine.items() if key in theirs)
        self._alone = [
            [r for key, r in some.items() if key not in other and r.kind == "operation"]
            for some, other in ((mine, theirs), (theirs, mine))
        ]
        differing = [row for row in self.rows if row.status != "equal"]
        self.equal = bool(self.rows) and not differing
        self.first: Record | None = next(
            (row for row in self.rows if row.status in ("made here", "other arguments")), None
        )
        if self.first is not None:
            self.first.update(self._amount(self.first))
            self.first.update(self._plans(self.first))
        self.notes = list(self._noted())

    def _row(self, x: Record, y: Record) -> Record:
        same, inputs = self._pair.all_same(x.outputs, y.outputs), self._pair.all_same(x.inputs, y.inputs)
        if x.kind == "module" and inputs and self._other_parameters(x.module):
            inputs = False
        if same is None or (inputs is None and not same):
            status = "unknown"
        elif same:
            status = "equal"
        elif not inputs or x.kind == "gradient":
            status = "carried"
        else:
            status = "made here" if x.arguments == y.arguments or self._pair.is_rows else "other arguments"
        place = {key: x[key] for key in ("kind", "phase", "module", "call", "node", "operation")}
        return Record(**place, a=x.index, b=y.index, same_inputs=inputs, status=status)

    def _other_parameters(self, module: str | None = "") -> list[str]:
        """Parameters and buffers of a module whose bits differ at the start."""
        names = [*self._a.parameters, *(name for name in self._b.parameters if name not in self._a.parameters)]
        return [name for name in names if (not module or name.startswith(f"{module}."))
                and self._a.parameters.get(name, "none") != self._b.parameters.get(name, "none")]  # fmt: skip

    def _samples(self, row: Record, whole: bool) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The same numbers of both sides, where they were kept; whole results if wanted and there."""
        x, y = (t.kept.get(i, {}) for t, i in ((self._a, row.a), (self._b, row.b)))
        if whole and "out" in x and "out" in y and x["out"].shape == y["out"].shape:
            return x["out"], y["out"]
        if "d" not in x or "d" not in y or x["d"].dtype != y["d"].dtype:
            return None
        shapes = [t.records[i].outputs[0]["shape"] for t, i in ((self._a, row.a), (self._b, row.b))]
        if shapes[0] == shapes[1]:
            return x["d"], y["d"]
        heads = self._pair.heads(*(t.records[i].outputs[0] for t, i in ((self._a, row.a), (self._b, row.b))))
        if "0" not in [key for key, *_ in heads] or x["d"].shape[1] != y["d"].shape[1]:
            return None
        # Rows of the smaller batch that both samples hold; of a batch of products the first, which the sample is of.
        counts = [
            torch.Size(s[-2:-1] if "a" in t and len(s) == 3 else s[:-1] or s).numel() for s, t in zip(shapes, (x, y))
        ]
        places = [sample_places(count) for count in counts]
        common = [p for p in places[0] if p in places[1] and p < min(counts)]
        return x["d"][[places[0].index(p) for p in common]], y["d"][[places[1].index(p) for p in common]]

    def _amount(self, row: Record) -> dict[str, Any]:
        both = self._samples(row, True)
        found = distance(*both) if both is not None else dict.fromkeys(("count", "total", "max_abs", "max_ulp"))
        outputs = [t.records[i].outputs for t, i in ((self._a, row.a), (self._b, row.b))]
        found["whole"] = torch.Size(outputs[0][0]["shape"]).numel() if outputs[0] else 0
        changed = [self._pair.changed_rows(x, y) for x, y in zip(*outputs)]
        found["changed_rows"] = max((n for n in changed if n is not None), default=None)
        return found

    def _plans(self, row: Record) -> dict[str, Any]:
        """The plans of both sides: of a product, or of a module that is one product on at least one side."""
        product = [self._product(t, i) for t, i in ((self._a, row.a), (self._b, row.b))]
        both = self._samples(row, False)
        if both is None or not any(product):
            return {"plans": None}
        plans: list[Any] = []
        words = [words_of(t) for t in both]
        for trace, index, known, other in zip((self._a, self._b), (row.a, row.b), product, product[::-1]):
            # The inputs are equal: the operands of the other side are those of this one, unless its batch is another.
            operands = known or (None if self._pair.is_rows else other)
            d, like = trace.kept[index]["d"], plans[0].model if plans and plans[0] else ""
            differs = (words[0] != words[1]) if words[0].shape == d.shape else None
            device = trace.records[index].device
            plans.append(plan_of(operands, d, device, differs=differs, like=like) if operands else None)
        return {"plans": plans}

    @staticmethod
    def _product(trace: Trace, index: int) -> dict[str, torch.Tensor] | None:
        """The operands of a record that is a product, or of a module whose result is that of its only product."""
        r = trace.records[index]
        if r.kind == "operation":
            kept = trace.kept.get(index, {})
            return kept if "a" in kept else None
        products = [trace.records[i] for i, some in trace.kept.items() if "a" in some and i < index]
        here = (r.module, r.call, r.phase)
        inside = [x.index for x in products if (x.module, x.call, x.phase) == here]
        if len(inside) != 1:
            return None
        is_result = trace.records[inside[0]].outputs[0]["hash"] == r.outputs[0]["hash"]
        return trace.kept[inside[0]] if is_result and index in trace.kept else None

    def _noted(self) -> Iterator[str]:
        a, b = self._a, self._b
        yield from (f"{name}: {note}" for name, t in (("a", a), ("b", b)) for note in t.notes)
        if a.torch != b.torch:
            yield f"torch {a.torch} and {b.torch}"
        devices = [sorted({r.device for r in t.records}) for t in (a, b)]
        if devices[0] != devices[1]:
            yield f"devices {', '.join(devices[0])} and {', '.join(devices[1])}"
        if other := self._other_parameters():
            more = f" and {len(other) - 1} more" if len(other) > 1 else ""
            yield f"parameters or buffers differ before the run: {other[0]}{more}"
        root = next(
            (row for row in self.rows if row.kind == "module" and row.module == "" and row.phase == "forward"), None
        )
        if root is not None and self._pair.all_same(a.records[root.a].inputs, b.records[root.b].inputs) is False:
            shapes = [
                ", ".join(str(tuple(x["shape"])) for x in t.records[i].inputs) or "none"
                for t, i in ((a, root.a), (b, root.b))
            ]
            text = "the inputs of the model differ"
            if shapes[0] != shapes[1]:
                text += f": shapes {shapes[0]} and {shapes[1]}"
            if shapes[0] != shapes[1] and not self._pair.is_rows:
                text += "; for two sizes of a batch give both traces rows=, or use batch_invariance()"
            yield text
        if self._alone[0] or self._alone[1]:
            some = [*self._alone[0], *self._alone[1]][0]
            count = f"{counted(len(self._alone[0]), 'operation')} of a and {len(self._alone[1])} of b"
            yield f"{count} without a counterpart, first {some.operation} {named(some)}"
        if unknown := sum(row.status == "unknown" for row in self.rows):
            yield f"{counted(unknown, 'result')} could not be compared"

    def _headline(self) -> str:
        of = f"the first {self._pair.rows} rows of " if self._pair.is_rows else ""
        if not self.rows:
            return "Nothing to compare: no operation, module or gradient is in both."
        if self.equal:
            all_ = "the one result in both has" if len(self.rows) == 1 else f"all {len(self.rows)} results in both have"
            return f"No difference: {of}{all_} the same bits."
        if self.first is not None:
            return f"First difference: {self._said(self.first)}"
        first = next((row for row in self.rows if row.status == "carried"), None)
        if first is None:
            same = counted(sum(row.status == "equal" for row in self.rows), "result")
            return f"No difference seen: {same} with the same bits, and others that could not be compared."
        why = "whose inputs differ, too; no operation in both makes a difference of equal inputs"
        return f"The results differ from {self._name(first)} on, {why}."

    def _name(self, row: Record) -> str:
        what = {
            "module": f"the result of {row.module or 'the model'} ({row.operation})",
            "gradient": f"the gradient of {row.module}",
        }
        call = f", call {row.call}" if row.call > 1 else ""
        return what.get(row.kind, f"{row.operation} {named(row)}") + call

    def _said(self, row: Record) -> str:
        x, y = self._a.records[row.a], self._b.records[row.b]
        text = f"{self._name(row)} (record {row.a} of a, {row.b} of b): equal inputs, "
        if row.status == "other arguments":
            return f"{text}other arguments, ({x.arguments}) and ({y.arguments}), and another result."
        shapes = [[entry["shape"] for entry in r.outputs] for r in (x, y)]
        types = [[entry["dtype"] for entry in r.outputs] for r in (x, y)]
        if len(types[0]) != len(types[1]):
            return f"{text}and {counted(len(types[0]), 'result')} against {len(types[1])}."
        if types[0] != types[1]:
            return f"{text}and results of other types, {', '.join(types[0])} and {', '.join(types[1])}."
        if not self._pair.is_rows and shapes[0] != shapes[1]:
            return f"{text}and results of other shapes, {shapes[0]} and {shapes[1]}."
        text += "another result"
        if row.changed_rows is not None:
            text += f" in {row.changed_rows} of the first {self._pair.rows} rows"
        if row.total is None:
            text += "; by how much is not known, since only hashes were kept"
        elif not row.count:
            text += f"; the {row.total} numbers that were kept of the first result are equal"
        else:
            of = "" if row.total == row.whole else f" kept of {row.whole}"
            text += f": {row.count} of {row.total} numbers{of} differ"
            text += (
                ", NaN or Inf among them"
                if row.max_ulp is None
                else f", by {row.max_ulp} ulp or {row.max_abs:.3g} at most"
            )
        return text + "." + (" It draws random numbers." if x.random or y.random else "")

    def __str__(self) -> str:
        lines = [self._headline()]
        if self.first is not None:
            if self.first.kind == "module":
                for name, t, i in (("a", self._a, self.first.a), ("b", self._b, self.first.b)):
                    here = (self.first.module, t.records[i].call, self.first.phase)
                    own = [
                        r.operation
                        for r in t.records[:i]
                        if r.kind == "operation" and (r.module, r.call, r.phase) == here
                    ]
                    more = f" and {len(own) - 6} more" if len(own) > 6 else ""
                    lines += [f"  operations of {name}: {', '.join(own[:6])}{more}"] if own else []
            for name, plan in zip("ab", self.first.plans or []):
                lines.append(f"  {name}: {plan or 'no product whose operands were kept'}")
            made, carried = (sum(row.status == status for row in self.rows) for status in ("made here", "carried"))
            lines.append(f"  Results in both that differ: {made} with equal inputs, {carried} more.")
        return "\n".join(lines + [f"  {note}." for note in self.notes])

    def __repr__(self) -> str:
        return f"<narrow.torch.Comparison: {self._headline()}>"


def compare(a: Trace | str | os.PathLike, b: Trace | str | os.PathLike) -> Comparison:
    """Names the first operation of two traces (or files of them) whose inputs are equal and whose result differs.

    Operations are paired by phase, module, name and occurrence. Only a pair with equal inputs and arguments is called a
    difference of its own, so that a pair that does not belong together is not. Where two sides compute a module by
    other operations, its inputs, parameters and result are compared. Traces of two batch sizes, both with rows=, are
    compared row by row. Plans of products come from narrow.validate() on the kept samples.

    >>> import torch
    >>> layer = torch.nn.Linear(2, 2)
    >>> t = narrow.torch.trace(layer, torch.ones(1, 2))
    >>> narrow.torch.compare(t, t)
    <narrow.torch.Comparison: No difference: all 2 results in both have the same bits.>
    """
    given = []
    for name, t in (("a", a), ("b", b)):
        if not isinstance(t, (Trace, str, os.PathLike)):
            raise TypeError(f"{name}: a Trace or the path of one is needed, not {type(t).__name__}")
        given.append(t if isinstance(t, Trace) else Trace.load(t))
    return Comparison(*given)
