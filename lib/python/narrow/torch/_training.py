"""Steps of a training run on the CPU with the bits of PyTorch 2.11, eager, on an H200: forward, backward, clipping, optimiser.

What autograd and an optimiser ask for are operations of ATen like any other, so the same mode sees them; _backward has those that
a forward does not need. Attention and RMSNorm are functions of autograd here, because the CPU takes them apart.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode

from .._operations import attention_backward
from . import _predict as forward
from ._backward import BACKWARD, KERNEL, LISTS, MOVED, SCALERS
from ._predict import PASSED, Account, Operations, Prediction, Resists

# autocast's lists for CUDA, as far as their functions are known here. What is in neither keeps its dtype, but where a function is
# made of others, torch casts inside of it: what then arrives in the wrong dtype is refused below.
LOWER = {"linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "scaled_dot_product_attention"}
WIDE = {"layer_norm", "nll_loss", "exp", "log", "pow", "reciprocal", "rsqrt"}
WIDE_RESULT = {"softmax", "log_softmax", "sum", "prod", "cumsum"}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot"}
WIDE_OPERATIONS = {"native_layer_norm", "nll_loss_forward", "exp", "log", "pow", "reciprocal", "rsqrt", "_softmax", "_log_softmax"}


class TrainingPrediction(Prediction):
    """What narrow.torch.predicting() hands out: autocast, and an account of what was computed how."""

    def __init__(self, module: torch.nn.Module, plans: Any, attention: str | None, allow_other: bool) -> None:
        super().__init__(module, plans, attention, {}, allow_other)
        self.lower: torch.dtype | None = None
        self.casts_inside = True  # False in cross_entropy, whose logarithms keep the dtype of the logits
        self._casts: dict[int, tuple[Tensor, Tensor]] = {}  # weights, and what they were cast to

    @property
    def account(self) -> Account:
        return self.told()

    @contextlib.contextmanager
    def autocast(self, dtype: torch.dtype = torch.bfloat16) -> Iterator[None]:
        """As torch.autocast("cuda", dtype), which does nothing where there is no GPU. Weights are cast once in it."""
        if dtype not in (torch.bfloat16, torch.float16):
            raise ValueError(f"autocast: {dtype}; right are torch.bfloat16 and torch.float16")
        before, self.lower = self.lower, dtype
        try:
            yield
        finally:
            self.lower = before
            if before is None:
                self._casts.clear()

    def lowered(self, x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(map(self.lowered, x))
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dtype in (self.lower, torch.float64):
            return x
        if not (x.dtype is torch.float32 and x.requires_grad and x.is_leaf):
            return x.to(self.lower)
        if id(x) not in self._casts:
            self._casts[id(x)] = (x, x.to(self.lower))
        return self._casts[id(x)][1]


def _widened(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16) else x


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


def _refuse_second_order() -> None:
    if _in_backward() and torch.is_grad_enabled():
        raise NotImplementedError("predicting: create_graph=True: gradients of gradients are not known")


# -- functions of autograd ---------------------------------------------------------------------------------------------------


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: TrainingPrediction, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> Tensor:
        ctx.prediction, ctx.causal, ctx.scale = p, causal, scale
        ctx.variant = p.attention or forward._enabled_attention()
        ctx.save_for_backward(q, k, v)
        with p.quietly():
            return forward._attention(p, q, k, v, None, 0.0, causal, scale, q.shape[1] != k.shape[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        p: TrainingPrediction = ctx.prediction
        with p.quietly():
            try:
                gradients = attention_backward(*(t.detach().contiguous() for t in (*ctx.saved_tensors, g)), causal=ctx.causal,
                                               scale=ctx.scale, variant=ctx.variant)  # fmt: skip
            except ValueError as error:
                raise NotImplementedError(f"predicting: the backward pass of attention: {error}") from None
        p.count("scaled_dot_product_attention_backward", f"predicted: {ctx.variant}, deterministic")
        return None, *gradients, None, None


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: TrainingPrediction, x: Tensor, shape: Any, w: Tensor | None, eps: float | None) -> Tensor:
        ctx.prediction, ctx.eps, ctx.cols = p, eps, math.prod(shape)
        ctx.save_for_backward(x, w)
        with p.quietly():
            return forward._norm(p, "rms_norm", x, shape, w, None, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        p: TrainingPrediction = ctx.prediction
        x, w = ctx.saved_tensors
        with p.quietly():
            rows, dy = (forward._rows(t.contiguous(), ctx.cols) for t in (x, g))
            flat = None if w is None else w.detach().reshape(ctx.cols)
            dx = p.op("rms_norm_backward", rows, w=flat, g=dy, eps=ctx.eps).reshape(x.shape)
            dw = None if w is None else p.op("rms_norm_backward_w", rows, g=dy, eps=ctx.eps).reshape(w.shape)
        p.count("rms_norm_backward", KERNEL)
        return None, dx, None, dw, None


def _attention(p: TrainingPrediction, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
               is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Any:  # fmt: skip
    if attn_mask is not None or dropout_p:
        raise Resists("a mask or dropout")
    if query.shape[1] != key.shape[1] and not enable_gqa:
        return NotImplemented  # torch says what is wrong
    return _Attention.apply(p, query, key, value, bool(is_causal), scale)


def _rms_norm(p: TrainingPrediction, input: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    if weight is not None and weight.dtype != input.dtype:
        raise Resists("a weight of another dtype than the input")
    if p.lower is not None and input.dtype is not torch.float32:
        raise Resists("16 bits within autocast")
    return _RmsNorm.apply(p, input, tuple(normalized_shape), weight, eps)


def _cross_entropy(p: TrainingPrediction, input: Tensor, target: Tensor, weight: Any = None, size_average: Any = None,
                   ignore_index: int = -100, reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:  # fmt: skip
    """Autocast leaves the logits as they are, and their logarithms are widened for the sum."""
    if weight is not None or size_average is not None or reduce is not None or label_smoothing or target.is_floating_point():
        raise Resists("what is known is a class each, without weights and smoothing")
    if p.lower is None:
        return NotImplemented
    p.casts_inside = False
    try:
        logarithms = torch.log_softmax(input, 1, dtype=input.dtype)
    finally:
        p.casts_inside = True
    return F.nll_loss(_widened(logarithms), target, ignore_index=ignore_index, reduction=reduction)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **forward.RECURRENT, "scaled_dot_product_attention": _attention, "rms_norm": _rms_norm, "cross_entropy": _cross_entropy,
    "softmax": forward._wide_softmax, "log_softmax": forward._wide_softmax,
}  # fmt: skip


class Calls(TorchFunctionMode):
    """Sees functions before torch takes them apart: casts as autocast does, and calls those of autograd above."""

    def __init__(self, prediction: TrainingPrediction) -> None:
        super().__init__()
        self.prediction = prediction

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        p, kwargs, name = self.prediction, kwargs or {}, getattr(func, "__name__", "")
        if p.is_busy:
            return func(*args, **kwargs)
        forward._check_autocast()
        if name in ("multi_head_attention_forward", "native_layer_norm"):
            raise NotImplementedError(f"predicting: {name} is not known here; scaled_dot_product_attention and layer_norm are")
        if p.lower is not None and name in LOWER:
            args, kwargs = p.lowered(args), {key: p.lowered(value) for key, value in kwargs.items()}
        elif p.lower is not None and name in WIDE:
            args, kwargs = tuple(map(_widened, args)), {key: _widened(value) for key, value in kwargs.items()}
        elif p.lower is not None and name in WIDE_RESULT and not any(isinstance(a, torch.dtype) for a in args):
            x = args[0] if args else kwargs.get("input")
            if kwargs.get("dtype") is None and isinstance(x, Tensor) and x.dtype in (torch.float16, torch.bfloat16):
                kwargs = {**kwargs, "dtype": torch.float32}
        handler = FUNCTIONS.get(name)
        if handler is None:
            return func(*args, **kwargs)
        try:
            result = handler(p, *args, **kwargs)
        except Resists as error:
            result = p.resist(name, str(error), func, args, kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result


# -- operations of ATen -------------------------------------------------------------------------------------------------------


class Steps(Operations):
    table = {**forward.ATEN, **BACKWARD}

    def check(self, name: str, args: tuple) -> None:
        """What answers otherwise on the GPU without being an operation that is unknown."""
        p: Any = self.prediction
        _refuse_second_order()
        floats = [a.dtype for a in args if isinstance(a, Tensor) and a.is_floating_point()]
        if p.lower is None or _in_backward() or not floats:
            return
        if (name in PRODUCTS and torch.float32 in floats) or (name in WIDE_OPERATIONS and p.casts_inside and floats[0] is not torch.float32):
            raise NotImplementedError(f"predicting: {name} on {floats[0]} within autocast, from a function in which torch casts and that is "
                                      "not known here; matmul, linear, softmax and the like are")  # fmt: skip

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        p, full = self.prediction, func._schema.name.partition("::")[2]
        name = full.rstrip("_")
        if func.namespace == "profiler":  # an optimiser names its steps
            return func(*args, **(kwargs or {}))
        if not p.is_busy:
            self.check(name, args)
            if name in MOVED:
                p.count(name, PASSED)
                return func(*args, **(kwargs or {}))
        if p.is_busy or (name not in LISTS and name not in SCALERS):
            return super().__torch_dispatch__(func, types, args, kwargs)
        if name in SCALERS:
            p.count(name, PASSED)
            with p.quietly():
                return func(*args, **(kwargs or {}))
        handler = LISTS[name]
        call = lambda q, *a, **k: handler(q, name, full.endswith("_"), *a, **k)
        return p.attempt(name, call, func, args, kwargs or {})


def _refuse_recomputation(module: Any, _: Any) -> None:
    if _in_backward():
        raise NotImplementedError("predicting: a forward within a backward pass (gradient checkpointing) is not known")


@contextlib.contextmanager
def _own_autocast(p: TrainingPrediction) -> Iterator[None]:
    """torch.autocast in a model would switch off, or on, what it does not know of."""
    enter = torch.autocast.__enter__

    def refuse(self: Any) -> Any:
        if p.lower is not None or self._enabled:
            raise NotImplementedError("predicting: torch.autocast within a model or a step; p.autocast(dtype) takes its place, around what is cast")
        return enter(self)

    torch.autocast.__enter__ = refuse  # type: ignore[method-assign]
    hook = modules.register_module_forward_pre_hook(_refuse_recomputation)
    try:
        yield
    finally:
        torch.autocast.__enter__ = enter  # type: ignore[method-assign]
        hook.remove()


@contextlib.contextmanager
def predicting(module: torch.nn.Module, *, plans: Any = None, attention: str | None = None,
               allow_other: bool = False) -> Iterator[TrainingPrediction]:  # fmt: skip
    """Training steps of module, written as for a GPU, with the bits of PyTorch 2.11 on an H200, computed on the CPU: every bit, where the plans of
    its products are right.

    In this context a forward, backward(), clip_grad_norm_ and the step of an optimiser give what they would give on the GPU with
    torch.use_deterministic_algorithms(True). plans, attention and allow_other are those of predict(); plans of products in a
    backward pass go by (m, n, k). What it hands out has autocast(dtype) in place of torch.autocast("cuda", dtype), and an
    account. The optimiser is AdamW, with fused=True or foreach=True as on the GPU (there foreach is what torch takes by itself);
    loss scales are those of torch.amp.GradScaler("cpu"), with unscale_ before the step. The backward pass of attention is known
    for "flash2". An operation whose bits are not known is an error that names it, and so are checkpoints, create_graph and torch.autocast.

    >>> import torch
    >>> model = torch.nn.Linear(8, 4)
    >>> with narrow.torch.predicting(model) as p:
    ...     with p.autocast(torch.bfloat16):
    ...         loss = torch.nn.functional.cross_entropy(model(torch.ones(16, 8)), torch.zeros(16, dtype=torch.long))
    ...     loss.backward()
    >>> model.weight.grad.shape
    torch.Size([4, 8])
    """
    forward._check(module, (), {} if plans is None else plans, attention, {})
    forward._check_autocast()
    p = TrainingPrediction(module, {} if plans is None else plans, attention, allow_other)
    with forward._followed(p), forward._without_autocast(), _own_autocast(p), Steps(p), Calls(p):
        yield p
