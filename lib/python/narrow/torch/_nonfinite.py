"""The first NaN or Inf of a run: which operation made it, of what, and where it came in if none did.

NaN is always a finding: at the operation whose result holds it and whose inputs do not, or where it came in. Inf is
one at the operation that makes it of finite inputs, unless an argument that is a number is infinite itself:
masked_fill(-inf), full(-inf) and where(.., -inf) make Inf on purpose. What is computed from that is no finding while no
NaN comes of it. An Inf in a parameter is one at its first use, an Inf in another tensor from outside when the model's
output holds it. log(0) and 1 / 0 are findings even where later operations make them finite; ignore= leaves them out.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter, deque
from typing import Any, Callable, Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .._arrays import DTYPES
from .._records import Record, Records
from ._bits import dtype_of, is_plain, tensors_in
from ._recorder import (Recorder, Where, check_model, counted, is_allocation, is_compiled, named, operation_name,
                        read_arguments, results, shown, writes)  # fmt: skip
from ._trace import gradients_put_back, run

LAST = 21  # records kept before the finding
_CONSTANT = "a single number from outside"  # whose Inf stands for an argument: masked_fill(mask, torch.tensor(-inf))
_PENDING = 256  # operations on a CUDA device between two looks


def _extremes(x: torch.Tensor) -> torch.Tensor | None:
    """Smallest and largest number, NaN where there is one; None where all is finite by type."""
    if not is_plain(x) or not x.numel() or not (x.is_floating_point() or x.is_complex()):
        return None
    x = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return torch.stack(torch.aminmax(x.float() if x.itemsize == 1 else x)).double()


def _state(extremes: list[float] | None) -> str:
    if extremes is None or all(math.isfinite(v) for v in extremes):
        return ""
    return "NaN" if any(math.isnan(v) for v in extremes) else "Inf"


def _amax(extremes: list[float] | None) -> float | None:
    return None if extremes is None else math.nan if math.isnan(extremes[0]) else max(abs(v) for v in extremes)


def _constants(args: tuple, kwargs: dict) -> list[float]:
    """Arguments of an operation that are no tensors and not finite."""
    flat = [y for x in (*args, *kwargs.values()) for y in (x if isinstance(x, (list, tuple)) else [x])]
    return [x for x in flat if isinstance(x, float) and not math.isfinite(x)]


class _Event:
    """One operation until its numbers are looked at: tensors stay only where that is at once."""

    def __init__(self, where: Where, operation: str, index: int) -> None:
        self.record = Record(index=index, **where._asdict(), operation=operation)
        self.names: list[str] = []
        self.sources: list[tuple[int | None, str]] = []  # of each input: what wrote it last, or what it is outside
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[float] = []
        self.widened: Callable[[], str] = lambda: (
            "The result in float64 is not known, since the operands were gone when it was looked at."
        )


class _Checker(Recorder):
    def __init__(
        self, model: torch.nn.Module, at_once: bool, ignore: tuple[str, ...], report: Callable[[Record], None]
    ) -> None:
        super().__init__(model)
        self.at_once, self.ignore, self.report = at_once, ignore, report
        self.is_done = False
        self.count = self.steps = 0
        self.ring: deque[Record] = deque(maxlen=LAST)
        self.origins: dict[int, tuple[str, str]] = {}  # of an operation whose result is not finite and no finding: why
        self.on_purpose: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self._pending: list[_Event] = []
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        held = [("buffer", model.named_buffers()), ("parameter", model.named_parameters())]
        self._outside = {
            p.untyped_storage()._cdata: f"{kind} {shown(name)}" for kind, some in held for name, p in some if is_plain(p)
        }
        self._arguments: dict[int, tuple[StorageWeakRef, str]] = {}

    def _source(self, x: torch.Tensor) -> tuple[int | None, str]:
        if not is_plain(x):
            return None, "a tensor whose memory is not seen"
        key = x.untyped_storage()._cdata
        if (written := self._storages.get(key)) is not None and not written[0].expired():
            return written[1], ""
        if (given := self._arguments.get(key)) is not None and not given[0].expired():
            return None, given[1]
        return None, self._outside.get(key, _CONSTANT if x.numel() == 1 else "a tensor from outside")

    def _written(self, x: torch.Tensor, index: int) -> None:
        if is_plain(x):
            storage = x.untyped_storage()
            self._storages[storage._cdata] = (StorageWeakRef(storage), index)

    def before(self, where, func, args, kwargs):
        if self.is_done:
            return None
        e = _Event(where, operation_name(func), self.count)
        self.count += 1
        read = read_arguments(func, args, kwargs)
        e.names, e.sources = [name for name, _ in read], [self._source(x) for _, x in read]
        # What is written over must be looked at before; the rest after, when there is a reason to.
        overwritten = {id(x) for i in writes(func) if i < len(args) for x in tensors_in(args[i])}
        e.inputs = [_extremes(x) if id(x) in overwritten else None for _, x in read]
        e.constants = _constants(args, kwargs)
        return e, read

    def _now(self, x: torch.Tensor) -> bool:
        return self.at_once or x.device.type == "cpu"

    def after(self, where, func, args, kwargs, out, seen):
        if seen is None or self.is_done:
            return
        e, read = seen
        for x in tensors_in(out):
            self._written(x, e.record.index)
        if is_allocation(func):
            text = f"memory of {e.record.operation} that no recorded operation wrote"
            self.origins[e.record.index] = ("memory", text)
            return
        found = results(func, out)
        if not found:
            return
        e.record.update(shape=list(found[0].shape), dtype=dtype_of(found[0]))
        e.record["result"] = self._outside.get(found[0].untyped_storage()._cdata, "") if is_plain(found[0]) else ""
        e.outputs = [_extremes(x) for x in found]
        self._look(e, all(self._now(x) for x in found), read, lambda: _in_float64(func, args, kwargs, found))

    def _look(self, e: _Event, now: bool, read: list, widened: Callable[[], str]) -> None:
        if now:
            e.outputs = [None if x is None else x.tolist() for x in e.outputs]
        if not now or any(map(_state, e.outputs)):
            e.inputs = [known if known is not None else _extremes(x) for known, (_, x) in zip(e.inputs, read)]
        if now:
            e.inputs = [None if x is None else x.tolist() for x in e.inputs]
            e.widened = widened if any(map(_state, e.outputs)) else e.widened
            if not self._pending:
                self._judge(e)
                return
        self._pending.append(e)
        if len(self._pending) >= _PENDING:
            self.flush()

    def flush(self) -> None:
        """Looks at what waits on devices: one copy for each of them."""
        waiting, self._pending = self._pending, []
        if self.is_done:
            return
        lists = [some for e in waiting for some in (e.inputs, e.outputs)]
        by_device: dict[torch.device, list[tuple[list, int]]] = {}
        for some in lists:
            for i, x in enumerate(some):
                if isinstance(x, torch.Tensor):
                    by_device.setdefault(x.device, []).append((some, i))
        for places in by_device.values():
            for (some, i), values in zip(places, torch.stack([some[i] for some, i in places]).cpu().tolist()):
                some[i] = values
        for e in waiting:
            if not self.is_done:
                self._judge(e)

    def entered(self, where, module, args):
        if module is not self.model:
            return
        self.flush()
        if not self.is_done:
            self.steps += 1
            self._arguments.clear()
            for i, arg in enumerate(args):
                for x in tensors_in(arg):
                    if is_plain(x):
                        storage = x.untyped_storage()
                        self._arguments[storage._cdata] = (StorageWeakRef(storage), f"argument {i} of the model")
            for table in (self._arguments, self._storages):  # nothing grows with the steps
                for key in [key for key, (reference, _) in table.items() if reference.expired()]:
                    del table[key]
            alive = {index for _, index in self._storages.values()}
            self.origins = {index: reason for index, reason in self.origins.items() if index in alive}

    def left(self, where, module, kwargs, output, inputs):
        if module is not self.model or self.is_done:
            return
        for x in tensors_in(output):
            e = _Event(where, "output", self.count)
            e.record.update(shape=list(x.shape), dtype=dtype_of(x), result="")
            e.names, e.sources, e.outputs = ["output"], [self._source(x)], [_extremes(x)]
            e.inputs = list(e.outputs)
            self._look(e, self._now(x), [("output", x)], lambda: "")
            if self.is_done:
                return

    def _reason(self, source: int | None, outside: str) -> tuple[str, str]:
        """Why an input is not finite: a word for the rule, and a sentence."""
        if source is not None:
            return self.origins.get(source, ("unseen", "written by an operation whose result was not looked at"))
        kind = "purpose" if outside == _CONSTANT else "parameter" if outside.startswith("parameter") else "outside"
        return kind, outside

    def _judge(self, e: _Event) -> None:
        r, out = e.record, [_state(x) for x in e.outputs]
        amax = [a for a in map(_amax, e.outputs) if a is not None]
        r["amax"] = math.nan if any(map(math.isnan, amax)) else max(amax, default=None)
        if r.operation != "output":
            self.ring.append(r)
        what = "NaN" if "NaN" in out else "Inf" if "Inf" in out else ""
        if not what:
            return
        states = [_state(x) for x in e.inputs]
        reasons = [self._reason(*source) for source in e.sources]
        came = ""
        if carried := [i for i, state in enumerate(states) if state == what]:
            excuses = ["ignored", *(["purpose"] if what == "Inf" else [])]
            excuses += ["outside"] if what == "Inf" and r.operation != "output" else []
            i = next((i for i in carried if reasons[i][0] not in excuses), None)
            if i is None:
                self.origins[r.index] = reasons[carried[0]]
                return
            came = f"it came in with {reasons[i][1] if r.operation == 'output' else f'{e.names[i]}, {reasons[i][1]}'}"
        elif what == "Inf" and not any(states) and any(map(math.isinf, e.constants)):
            self.origins[r.index] = ("purpose", f"made on purpose by {r.operation} {named(r)}")
            self.on_purpose[f"{r.operation} {named(r)}"] += 1
            return
        elif r.operation in self.ignore:
            self.origins[r.index] = ("ignored", f"made by {r.operation} {named(r)}, which is ignored")
            self.ignored[f"{r.operation} {named(r)}"] += 1
            return
        origins = [
            f"{e.names[i]} holds {state}, {reasons[i][1]}" for i, state in enumerate(states) if state and state != what
        ]
        inputs = Records(Record(name=name, amax=_amax(x), state=_state(x)) for name, x in zip(e.names, e.inputs))
        limit = "" if came or r.operation == "output" else e.widened()
        r.update(
            what=what, came_in=came, step=self.steps, origins=origins, constants=e.constants, inputs=inputs, limit=limit
        )
        r["records"] = Records(self.ring)
        self.is_done = True
        self._pending.clear()
        self.report(r)


def _in_float64(func: Any, args: tuple, kwargs: dict, found: list[torch.Tensor]) -> str:
    """What the same operation gives in float64, and so which format's limit was crossed."""
    if torch.Tag.nondeterministic_seeded in func.tags:
        return "The result in float64 is not known, since the operation draws random numbers."
    if any(x.is_complex() for x in found):
        return "The result in float64 is not known, since it is complex."
    reads = {id(x) for _, x in read_arguments(func, args, kwargs)}
    if any(id(x) in reads for i in writes(func) if i < len(args) for x in tensors_in(args[i])):
        return "The result in float64 is not known, since the operation wrote over an operand."

    def wide(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return x.double() if x.is_floating_point() else x
        if isinstance(x, torch.dtype):
            return torch.float64 if x.is_floating_point else x
        return type(x)(map(wide, x)) if type(x) in (list, tuple) else x

    try:
        again = results(func, func(*map(wide, args), **{key: wide(x) for key, x in kwargs.items()}))
        x, y = next(
            (x, y) for x, y in zip(found, again) if x.is_floating_point() and not bool(x.float().isfinite().all())
        )
        exact = y.double()[~(x.float() if x.itemsize < 4 else x).isfinite()]
    except Exception as error:  # an operation without float64
        return f"The result in float64 is not known ({type(error).__name__})."
    name = DTYPES.get(dtype_of(x), (dtype_of(x),))[0]
    if not bool(exact.isfinite().all()):
        what = "NaN" if bool(exact.isnan().any()) else "Inf"
        return f"In float64 the result is {what}, too: it is not {name} that cannot hold it."
    largest, limit = float(exact.abs().max()), torch.finfo(x.dtype).max
    if largest > limit:
        return f"In float64 the result is {largest:.6g}, which exceeds the largest {name} number, {limit:.6g}."
    return (
        f"In float64 the result is at most {largest:.6g}, which {name} can hold: an intermediate result was not finite."
    )


def _shown(r: Record) -> str:
    amax = "" if r.amax is None else f", amax {r.amax:.4g}"
    return f"  {r.index:>6}  {r.operation} {named(r)}: {r.dtype} {tuple(r.shape)}{amax}"


class FirstNonfinite:
    """What was found; also the context to look in. first: None, or the operation with what ("NaN", "Inf"), module,
    phase, node, step (calls of the model so far), inputs (name, amax, state), came_in, limit and the last records."""

    def __init__(self, model: torch.nn.Module, raise_: bool, at_once: bool, ignore: tuple[str, ...]) -> None:
        self.first: Record | None = None
        self._raise = raise_
        self._checker = _Checker(model, at_once, ignore, self._report)

    def _report(self, r: Record) -> None:
        self.first = r
        if self._raise:
            raise FloatingPointError(str(self))
        warnings.warn(self._headline(), RuntimeWarning, stacklevel=2)

    def __enter__(self) -> FirstNonfinite:
        self._checker.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._checker.__exit__(*error)
        self._checker.flush()

    @property
    def records(self) -> Records:
        """The last 21 operations that were looked at, up to the finding."""
        return self.first.records if self.first is not None else Records(self._checker.ring)

    @property
    def steps(self) -> int:
        return self._checker.steps

    def __bool__(self) -> bool:
        return self.first is not None

    def _headline(self) -> str:
        r, c = self.first, self._checker
        if r is None:
            text = f"No NaN, and no Inf made of finite numbers, in {counted(c.count, 'operation')}."
            words = ("Inf was written on purpose", "Ignored were results that are not finite")
            for counts, said in zip((c.on_purpose, c.ignored), words):
                if counts:
                    text += f" {said}, {counted(sum(counts.values()), 'time')}, first by {next(iter(counts))}."
            return text
        step = f", call {r.step} of the model" if r.step > 1 else ""
        if r.operation == "output":
            return f"The output of the model holds {r.what}{step}: {r.came_in}."
        if r.came_in:
            return f"{r.what} in the result of {r.operation} {named(r)}{step}: {r.came_in}."
        into = f" ({r.result})" if r.result else ""
        return f"{r.operation} {named(r)} made the first {r.what}{into}{step}."

    def __str__(self) -> str:
        lines = [self._headline()]
        if (r := self.first) is None:
            return lines[0]
        if r.limit:
            lines.append(r.limit)
        if r.operation == "output":
            return lines[0] + self._last(r)
        amax = [f"{x.name} {'NaN' if x.state == 'NaN' else f'{x.amax:.6g}'}" for x in r.inputs if x.amax is not None]
        lines.append(
            f"Largest magnitudes of its inputs: {', '.join(amax)}." if amax else "It has no floating-point inputs."
        )
        lines += [f"{text[:1].upper()}{text[1:]}." for text in r.origins]
        lines += [f"One of its arguments is {x}." for x in r.constants[:1]]
        return "\n".join(lines) + self._last(r)

    @staticmethod
    def _last(r: Record) -> str:
        return "\n".join([f"\nThe last records, {len(r.records)}:", *map(_shown, r.records)])

    def __repr__(self) -> str:
        return f"<narrow.torch.FirstNonfinite: {self._headline()}>"


def first_nonfinite(
    model: torch.nn.Module,
    inputs: Any = None,
    *,
    backward: bool | Callable[[Any], torch.Tensor] = False,
    raise_: bool = False,
    at_once: bool = False,
    ignore: Sequence[str] = (),
) -> FirstNonfinite:
    """Finds the operation that makes the first NaN or Inf, in one run of the model or around a training loop.

        with narrow.torch.first_nonfinite(model) as found:
            train()
        print(found)

    inputs, backward: as in trace(); without inputs it is a context. raise_: FloatingPointError at the operation,
    instead of a warning. ignore: operations whose Inf or NaN is no finding, as in ("aten.log",). Every operation costs
    one reduction of its result. On the CPU results are looked at at once. On CUDA the smallest and largest numbers of
    inputs and results wait on the device and are read every 256 operations, without the operands: the float64 result
    that tells which limit was crossed then needs at_once=True (as raise_ does), which waits for the device after each
    operation. A loss scaler that tries larger scales makes Inf in gradients as its way of working: it is reported.

    >>> import torch
    >>> narrow.torch.first_nonfinite(torch.nn.Linear(2, 2), torch.ones(1, 2))
    <narrow.torch.FirstNonfinite: No NaN, and no Inf made of finite numbers, in 1 operation.>
    """
    check_model(model)
    if is_compiled(model):
        raise ValueError(
            "model: it is compiled, and operations inside compiled code are not seen; give the module as it was before"
        )
    if isinstance(ignore, str) or not all(isinstance(name, str) for name in ignore):
        raise TypeError("ignore: names of operations are needed, as in ('aten.log',)")
    found = FirstNonfinite(
        model, raise_, at_once or raise_, tuple(name if "." in name else f"aten.{name}" for name in ignore)
    )
    if inputs is None:
        if backward:
            raise ValueError("backward: it needs inputs; a context sees the backward pass that runs in it")
        return found
    with gradients_put_back(model, inputs), found:
        run(model, inputs, backward)
    return found
