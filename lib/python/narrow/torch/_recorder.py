"""Sees every operation of a model with the module that called it; takes its hooks back when it ends.

Modules are followed by hooks common to all modules, which stock layers do not look at: hooks of a module's own would
turn off the fast path of nn.TransformerEncoder and change its bits. An operation of the backward pass gets the module
of the forward operation whose autograd node it runs for, by the node's sequence number; where two threads used one
number, none. The sum of two gradients that meet is counted to the node that brought the second.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import torch
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.utils._python_dispatch import TorchDispatchMode

from ._bits import tensors_in

_WRITERS = {f"aten.{name}_" for name in ("copy", "fill", "zero", "normal", "uniform", "bernoulli", "random",
                                         "exponential", "geometric", "log_normal", "cauchy")}  # fmt: skip
_NODES = 1 << 17  # of the latest forward operations, whose backward can be named


class Where(NamedTuple):
    """phase: forward, backward, recompute (of a checkpoint, during backward) or optimizer. module: '' is the model,
    None outside. call: which call of the module, -1 where the module of a backward operation is not known."""

    phase: str
    module: str | None
    call: int
    node: str  # the autograd node that is run, in the backward pass


class _Frame(NamedTuple):
    module: Any
    where: Where
    inputs: Any


def named(where: Any) -> str:
    """Where an operation stands, in words."""
    module = where.module
    place = "outside the model" if module is None else f"in {module}" if module else "in the model itself"
    if where.phase == "backward":
        of = module or "the model itself"
        if module is None:
            of = "an operation of an unknown module" if where.call < 0 else "an operation outside the model"
        return f"in the backward pass of {of}" + (f" ({where.node})" if where.node else "")
    if where.phase == "optimizer":
        return "in the optimizer's step"
    return place + (", recomputed for the backward pass" if where.phase == "recompute" else "")


@functools.lru_cache(maxsize=None)
def operation_name(func: Any) -> str:
    return func._schema.name.replace("::", ".")


@functools.lru_cache(maxsize=None)
def _is_view(func: Any) -> bool:
    """Views move no bits."""
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


@functools.lru_cache(maxsize=None)
def is_allocation(func: Any) -> bool:
    """Memory that nobody wrote yet."""
    return any(word in operation_name(func) for word in (".empty", ".new_empty", ".resize_", "._empty"))


@functools.lru_cache(maxsize=None)
def writes(func: Any) -> tuple[int, ...]:
    """Positions of arguments that are written."""
    return tuple(i for i, a in enumerate(func._schema.arguments) if a.alias_info is not None and a.alias_info.is_write)


def read_arguments(func: Any, args: tuple, kwargs: dict) -> list[tuple[str, torch.Tensor]]:
    """The tensors an operation reads, by the names of its arguments; not those that it only writes."""
    of = func._schema.arguments
    found = []
    for i, (name, x) in enumerate([*((of[i].name, x) for i, x in enumerate(args)), *kwargs.items()]):
        if (i == 0 and operation_name(func) in _WRITERS) or (i >= len(args) and name == "out"):
            continue
        several = list(tensors_in(x))
        found += [(name if len(several) == 1 else f"{name}[{j}]", t) for j, t in enumerate(several)]
    return found


def results(func: Any, out: Any) -> list[torch.Tensor]:
    """The results whose bits mean something: attention and cuDNN return work space beside them, which nobody wrote."""
    found = list(tensors_in(out))
    name = operation_name(func)
    if "attention" in name and "backward" not in name:
        return found[:1]
    floats = [t for t in found if t.is_floating_point()]
    return [t for t in found if t.dtype is not torch.uint8] if floats and len(found) > 1 else found


def is_compiled(model: torch.nn.Module) -> bool:
    return any(
        type(m).__name__ == "OptimizedModule" or getattr(m, "_compiled_call_impl", None) is not None
        for m in model.modules()
    )


def shown(name: str) -> str:
    """A name as sentences hold it: control characters in it are inert."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def inert(*_: Any, **__: Any) -> None:
    """What a hook is in a copy of its module."""


class Hook:
    """A hook of a module that neither copy.deepcopy() nor pickle takes along: in a copy it is inert, or the copy is
    refused with a sentence."""

    def __init__(self, function: Any, *first: Any, refused: str = "") -> None:
        self._function, self._refused = functools.partial(function, *first), refused

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__reduce__()[1][0]

    def __reduce__(self) -> tuple[Any, tuple]:
        if self._refused:
            raise TypeError(self._refused)
        return functools.partial, (inert,)


def counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: a torch.nn.Module is needed, not {type(model).__name__}")


class Recorder(TorchDispatchMode):
    """before() and after() get every operation that is no view, entered() and left() every call of a module.

    What they compute is seen by no recorder and no autograd; the operation itself runs as it would without.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model
        self.names = {id(m): shown(name.replace("_orig_mod.", "")) for name, m in model.named_modules()}
        self.parameters = {id(p): shown(name) for name, p in model.named_parameters()}
        self.is_busy, self._is_optimizing = False, False
        self._stacks: dict[int, list[_Frame]] = defaultdict(list)
        self._calls: Counter[str] = Counter()
        self._nodes: dict[int, tuple[int, str | None, int]] = {}  # sequence number -> thread, module, call
        self._handles: list[Any] = []

    def before(self, where: Where, func: Any, args: tuple, kwargs: dict) -> Any:
        """What it returns is given to after()."""

    def after(self, where: Where, func: Any, args: tuple, kwargs: dict, out: Any, seen: Any) -> None:
        """An operation that ended with a result."""

    def entered(self, where: Where, module: Any, args: tuple) -> Any:
        """What it returns is given to left()."""

    def left(self, where: Where, module: Any, kwargs: dict, output: Any, inputs: Any) -> None:
        """A call that ended with a result."""

    def __enter__(self):
        self._first, self._thread = torch.autograd._get_sequence_nr(), threading.get_ident()
        self._handles = [modules.register_module_forward_pre_hook(self._before),
                         modules.register_module_forward_hook(self._after, with_kwargs=True, always_call=True),
                         optimizers.register_optimizer_step_pre_hook(lambda *_: self._optimize(True)),
                         optimizers.register_optimizer_step_post_hook(lambda *_: self._optimize(False))]  # fmt: skip
        try:
            return super().__enter__()
        except BaseException:
            self._remove()
            raise

    def __exit__(self, *error):
        try:
            return super().__exit__(*error)
        finally:
            self._remove()

    def _remove(self) -> None:
        for handle in self._handles:
            handle.remove()
            modules._global_forward_hooks_with_kwargs.pop(handle.id, None)  # which remove() leaves behind

    def _optimize(self, begins: bool) -> None:
        self._is_optimizing = begins

    def _before(self, module, args):
        if self.is_busy:
            return
        path = self.names.get(id(module), f"({type(module).__name__})")
        self._calls[path] += 1
        stack = self._stacks[threading.get_ident()]
        is_backward = torch._C._current_autograd_node() is not None
        where = Where("recompute" if is_backward else "forward", path, self._calls[path], "")
        stack.append(_Frame(module, where, self._quietly(self.entered, where, module, args)))

    def _after(self, module, args, *rest):
        kwargs, output = rest if len(rest) == 2 else ({}, None)  # after an exception torch gives no kwargs
        stack = self._stacks[threading.get_ident()]
        if self.is_busy or not any(frame.module is module for frame in stack):
            return
        while (frame := stack.pop()).module is not module:  # calls that an exception ended
            pass
        if output is not None:
            self._quietly(self.left, frame.where, module, kwargs, output, frame.inputs)

    def _quietly(self, method: Any, *arguments: Any) -> Any:
        self.is_busy = True
        try:
            with torch.no_grad():
                return method(*arguments)
        finally:
            self.is_busy = False

    def _where(self) -> Where:
        thread = threading.get_ident()
        stack = self._stacks[thread]
        node = torch._C._current_autograd_node()
        if stack and (node is None or stack[-1].where.phase == "recompute"):
            where = stack[-1].where
        elif node is None:
            where = Where("optimizer" if self._is_optimizing else "forward", None, 0, "")
        elif hasattr(node, "variable"):
            name = self.parameters.get(id(node.variable))
            module = None if name is None else name.rpartition(".")[0]
            where = Where("backward", module, 0, f"gradient of {name or 'a leaf'}")
        else:
            _, module, number = self._nodes.get(node._sequence_nr(), (0, None, -1))
            where = Where("backward", module, number, node.name())
        # Autograd has made this operation's node already, if it needs one; a later one without finds the place taken.
        made = torch.autograd._get_sequence_nr() - 1
        if made >= self._first or thread != self._thread:
            known = self._nodes.setdefault(made, (thread, where.module, where.call))
            if known[0] != thread and known[1] != where.module:
                self._nodes[made] = (thread, None, -1)
            if len(self._nodes) > _NODES:
                del self._nodes[next(iter(self._nodes))]
        return where

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.is_busy:
            return func(*args, **kwargs)
        where = self._where()
        if _is_view(func):
            return func(*args, **kwargs)
        seen = self._quietly(self.before, where, func, args, kwargs)
        out = func(*args, **kwargs)
        self._quietly(self.after, where, func, args, kwargs, out, seen)
        return out
