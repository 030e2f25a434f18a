"""A record of every operation of a model: where it stands, a hash of its bits, their statistics."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Callable, Iterator

import torch

from .._arrays import DTYPE_OF, wrap
from .._records import Record, Records
from .._tensors import load, save
from ._bits import Numbers, as_matrix, fetch, is_plain, sample, tensors_in
from ._recorder import (Recorder, Where, check_model, counted, is_allocation, is_compiled, operation_name,
                        read_arguments, results, shown)  # fmt: skip

_KEEP = (False, "sample", "all")
_NOTED = (bool, int, float, complex, str, torch.dtype, type(None))


def product_of(name: str, args: tuple, kwargs: dict) -> dict[str, Any] | None:
    """The operands of a matrix product, of a batch those of its first matrix; None for another operation."""
    if name in ("aten.mm", "aten.bmm") and len(args) >= 2:
        a, b, c = args[0], args[1], None
    elif name in ("aten.addmm", "aten.baddbmm") and len(args) >= 3:
        c, a, b = args[:3]
    else:
        return None
    if not all(is_plain(t) and t.numel() and t.is_floating_point() for t in (a, b)):
        return None
    if a.ndim == 3:
        a, b, c = a[0], b[0], c if c is None else c.expand(len(a), a.shape[1], b.shape[2])[0]
    kept = {"a": sample(a, columns=False), "b": sample(b, rows=False)}
    if c is not None:
        factors = {key: float(kwargs.get(key, 1)) for key in ("alpha", "beta")}
        is_bias = c.ndim < 2 or c.shape[0] == 1
        kept["c"] = sample(c.expand(a.shape[0], b.shape[1]))[: 1 if is_bias else None].contiguous()
        kept.update({key: torch.tensor(value) for key, value in factors.items() if value != 1})
    return kept


class Trace:
    """The records of one run, in order; compare() holds two of them side by side.

    records: index, kind ("operation", the result of a "module", or the "gradient" of a parameter), phase, module (''
    the model, None outside; of a gradient: the parameter), call, operation, node, arguments, device, random, inputs and
    outputs (shape, dtype, hash, nan, inf, amax). kept: of a record's index, the sample of its first result, and the
    operands of products. notes: what was not seen, and why."""

    def __init__(self, said: dict[str, Any], kept: dict[int, dict[str, torch.Tensor]]) -> None:
        self.records = Records(Record(row) for row in said["records"])
        self.model: str = said["model"]
        self.torch: str = said["torch"]
        self.rows: int | None = said["rows"]
        self.parameters: dict[str, str | None] = said["parameters"]
        self.notes: list[str] = said["notes"]
        self.kept = kept

    def save(self, path: str | os.PathLike) -> None:
        """Writes a .safetensors file, whole or not at all."""
        said = {key: getattr(self, key) for key in ("model", "torch", "rows", "parameters", "notes")}
        tensors = {f"{index}.{key}": x for index, some in self.kept.items() for key, x in some.items()}
        save(
            path, tensors or {"empty": torch.zeros(1)}, {"narrow.trace": json.dumps({**said, "records": self.records})}
        )

    @classmethod
    def load(cls, path: str | os.PathLike) -> Trace:
        """Reads what save() wrote."""
        file = load(path)
        if "narrow.trace" not in file.metadata:
            raise ValueError(f"path: {os.fsdecode(path)} is no trace; Trace.save() writes one")
        kept: dict[int, dict[str, torch.Tensor]] = {}
        for name, t in file.items():
            index, _, key = name.partition(".")
            if key:
                kept.setdefault(int(index), {})[key] = _as_tensor(t)
        return cls(json.loads(file.metadata["narrow.trace"]), kept)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        count = sum(r.kind == "operation" for r in self.records)
        bad = next((r for r in self.records if r.nan or r.inf), None)
        what = "" if bad is None else f", {'NaN' if bad.nan else 'Inf'} first in record {bad.index}"
        notes = "".join(f"; {note}" for note in self.notes)
        return f"<narrow.torch.Trace of {self.model}: {counted(count, 'operation')}{what}{notes}>"

    def to_pandas(self):
        """The records as a DataFrame; pandas must be installed."""
        return self.records.to_pandas()


def _as_tensor(t: Any) -> torch.Tensor:
    if t.type in ("F64", "F32") or not t.format:
        return torch.from_numpy(t.numpy().copy())
    return wrap(t.codes().copy().reshape(t.shape), "torch", DTYPE_OF[t.format])


class Tracer(Recorder):
    def __init__(self, model: torch.nn.Module, keep: Any, rows: int | None) -> None:
        super().__init__(model)
        self.keep, self.rows = keep, rows
        self.records: list[dict[str, Any]] = []
        self.numbers: list[Numbers] = []
        self.kept: dict[int, dict[str, torch.Tensor]] = {}

    def numbered(self, tensors: Any, statistics: bool = False) -> list[dict[str, Any]]:
        """Entries that are filled in by fetch()."""
        some = [Numbers(t, self.rows, statistics) for t in tensors]
        self.numbers += some
        return [n.entry for n in some]

    def add(self, kind: str, where: Where, operation: str, inputs: list, outputs: list[torch.Tensor],
            arguments: str = "", random: bool = False, kept: dict | None = None) -> None:  # fmt: skip
        index = len(self.records)
        first = outputs[0] if outputs else None
        if self.keep and first is not None and is_plain(first) and first.numel():
            some = dict(kept or {})
            some["d"] = sample(as_matrix(first[0] if kept and first.ndim == 3 else first).detach())
            if self.keep == "all":
                some["out"] = first.detach().clone(memory_format=torch.contiguous_format)
            self.kept[index] = some
        device = outputs[0].device if outputs else torch.device("cpu")
        gpu = "sm_{}{}".format(*torch.cuda.get_device_capability(device)) if device.type == "cuda" else ""
        self.records.append({"index": index, "kind": kind, **where._asdict(), "operation": operation,
                             "arguments": arguments, "device": gpu or device.type, "random": random, "inputs": inputs,
                             "outputs": self.numbered(outputs, True)})  # fmt: skip

    def before(self, where, func, args, kwargs):
        if is_allocation(func):
            return None
        inputs = self.numbered(t for _, t in read_arguments(func, args, kwargs))
        return inputs, product_of(operation_name(func), args, kwargs) if self.keep else None

    def after(self, where, func, args, kwargs, out, seen):
        found = results(func, out)
        if seen is None or not found:
            return
        inputs, kept = seen
        noted = [x for x in args if _is_noted(x)] + [f"{key}={x}" for key, x in kwargs.items() if _is_noted(x)]
        random = torch.Tag.nondeterministic_seeded in func.tags
        self.add("operation", where, operation_name(func), inputs, found, ", ".join(map(str, noted)), random, kept)

    def entered(self, where, module, args):
        return self.numbered(tensors_in(args))

    def left(self, where, module, kwargs, output, inputs):
        inputs = inputs + self.numbered(tensors_in(kwargs))
        self.add("module", where, type(module).__name__, inputs, list(tensors_in(output)))

    def finish(self) -> list[dict[str, Any]]:
        fetch(self.numbers, self.rows)
        for r in self.records:
            known = [entry for entry in r["outputs"] if "amax" in entry]
            r["amax"] = max((entry["amax"] for entry in known), default=None)
            r.update({key: sum(entry[key] for entry in known) for key in ("nan", "inf")})
        self.kept = {index: {key: x.cpu() for key, x in some.items()} for index, some in self.kept.items()}
        return self.records


def _is_noted(x: Any) -> bool:
    return isinstance(x, _NOTED) or (isinstance(x, (list, tuple)) and all(isinstance(word, _NOTED) for word in x))


@contextlib.contextmanager
def gradients_put_back(model: torch.nn.Module, inputs: Any) -> Iterator[None]:
    """Parameters and inputs without gradients inside; afterwards with those from before."""
    kept = [(p, p.grad) for p in [*model.parameters(), *tensors_in(inputs)] if p.is_leaf and p.requires_grad]
    try:
        for p, _ in kept:
            p.grad = None
        yield
    finally:
        for p, gradient in kept:
            p.grad = gradient


def run(model: torch.nn.Module, inputs: Any, backward: Any) -> Any:
    """Calls the model with one input, a tuple of arguments or a dict of named ones; then the backward pass of a
    loss."""
    out = (
        model(*inputs)
        if isinstance(inputs, (tuple, list))
        else model(**inputs)
        if isinstance(inputs, dict)
        else model(inputs)
    )
    if backward is True:
        floats = [t for t in tensors_in(out) if t.is_floating_point() and t.requires_grad]
        if not floats:
            raise ValueError("backward: no output of the model requires a gradient; call it without torch.no_grad()")
        torch.stack([t.float().sum() for t in floats]).sum().backward()
    elif backward:
        backward(out).backward()
    return out


def traced(t: Tracer, inputs: Any, backward: Any = False) -> Trace:
    """What a tracer sees of one run."""
    model = t.model
    parameters = {shown(name): t.numbered([p])[0] for name, p in [*model.named_parameters(), *model.named_buffers()]}
    compiled = is_compiled(model)
    with gradients_put_back(model, inputs) if backward else contextlib.nullcontext():
        if compiled:
            here = Where("forward", "", 1, "")
            seen = t.entered(here, model, tuple(tensors_in(inputs)))
            out = run(model, inputs, backward)
            t.left(here, getattr(model, "_orig_mod", model), {}, out, seen)
        else:
            with t:
                run(model, inputs, backward)
        for name, p in model.named_parameters() if backward else ():
            if p.grad is not None:
                t.add("gradient", Where("backward", shown(name.replace("_orig_mod.", "")), 0, ""), "gradient", [], [p.grad])
    records = t.finish()
    notes = ["the model is compiled: only its outputs and gradients are seen"] if compiled else []
    hashes = {name.replace("_orig_mod.", ""): entry["hash"] for name, entry in parameters.items()}
    said = {"records": records, "model": type(getattr(model, "_orig_mod", model)).__name__, "torch": torch.__version__,
            "rows": t.rows, "parameters": hashes, "notes": notes}  # fmt: skip
    return Trace(said, t.kept)


def trace(model: torch.nn.Module, inputs: Any, *, backward: bool | Callable[[Any], torch.Tensor] = False,
          keep: Any = "sample", rows: int | None = None) -> Trace:  # fmt: skip
    """Runs the model once and records every operation: module, shapes, a hash of the bits, amax, NaN and Inf.

    inputs: a tensor, a tuple of arguments or a dict of named ones. backward: True for the gradient of the sum of the
    outputs, or a function from the output to a loss; gradients are put back as they were. keep: "sample" keeps up to 32
    x 32 numbers of each result and those rows and columns of products' operands, from which compare() tells amounts and
    plans; "all" keeps whole results, too; False nothing. rows: the batch size, for comparing two of them row by row.

    Hashes and statistics are computed on the device of each tensor and read once at the end. Views are left out. A
    compiled model is run as it is, so that only its outputs and gradients are seen: operations inside cannot be
    recorded without turning compilation off. A forward in train mode moves buffers and random numbers as any other.

    >>> import torch
    >>> narrow.torch.trace(torch.nn.Linear(2, 2), torch.ones(1, 2))
    <narrow.torch.Trace of Linear: 1 operation>
    """
    check_model(model)
    if backward and not callable(backward) and backward is not True:
        raise TypeError(f"backward: True or a function from the output to a loss is needed, not {backward!r}")
    if keep not in _KEEP:
        raise ValueError(f"keep: {keep!r}; right are False, 'sample' and 'all'")
    if rows is not None and (not isinstance(rows, int) or rows < 1):
        raise ValueError(f"rows: {rows!r}; right is the size of the batch, at least 1")
    return traced(Tracer(model, keep, rows), inputs, backward)
