"""Steps of a training run on the CPU with the bits of PyTorch 2.11, eager, on an H200: forward, backward, clipping, optimiser.

What autograd and an optimiser ask for are operations of ATen like any other, so the same mode sees them; the tables below are
what a forward does not need. Attention and RMSNorm are functions of autograd here, because the CPU takes them apart.
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

from .._operations import adamw_step, attention_backward, grad_norm
from . import _predict as forward
from ._predict import FORMATS, PASSED, Account, Operations, Prediction, Resists

KERNEL = "predicted: torch's kernel"

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


# -- operations of ATen: backward --------------------------------------------------------------------------------------------


def _layer_norm(p: Prediction, x: Tensor, shape: Any, w: Tensor | None, b: Tensor | None, eps: float) -> Any:
    """mean and rstd are for the backward pass, which computes them again and only wants eps (as FP32, as the kernel has it)."""
    y = forward._norm(p, "layer_norm", x, shape, w, b, eps)
    saved = torch.full([*x.shape[: x.ndim - len(shape)], *([1] * len(shape))], eps, dtype=torch.float32)
    return y, saved, saved.clone()


def _layer_norm_backward(p: Prediction, g: Tensor, x: Tensor, shape: Any, mean: Tensor, rstd: Tensor, w: Tensor | None,
                         b: Tensor | None, mask: list[bool]) -> Any:  # fmt: skip
    cols, eps = math.prod(shape), float(rstd.flatten()[0])
    rows, dy = forward._rows(x.contiguous(), cols), forward._rows(g.contiguous(), cols)
    flat = None if w is None else w.detach().reshape(cols)
    dx = p.op("layer_norm_backward", rows, w=flat, g=dy, eps=eps).reshape(x.shape) if mask[0] else None
    dw = p.op("layer_norm_backward_w", rows, g=dy, eps=eps).reshape(w.shape) if mask[1] and w is not None else None
    db = p.op("layer_norm_backward_b", g=dy).reshape(b.shape) if mask[2] and b is not None else None
    p.count("native_layer_norm_backward", KERNEL)
    return dx, dw, db


def _activation_backward(name: str) -> Callable[..., Any]:
    def handler(p: Prediction, g: Tensor, x: Tensor, *, approximate: str = "none") -> Any:
        which = "gelu_tanh_backward" if approximate == "tanh" else f"{name}_backward"
        if x.stride() != g.stride() and not (x.is_contiguous() and g.is_contiguous()):
            raise Resists("a tensor and its gradient that lie otherwise in memory")
        cols = x.shape[-1] if x.ndim else 1
        dx = p.op(which, forward._rows(x.contiguous(), cols, aligned=False), g=forward._rows(g.contiguous(), cols, aligned=False))
        p.count(which, KERNEL)
        return torch.empty_like(x).copy_(dx.reshape(x.shape))  # with the strides of x

    return handler


def _softmax_backward(name: str) -> Callable[..., Any]:
    def handler(p: Prediction, g: Tensor, y: Tensor, dim: int, dtype: torch.dtype) -> Any:
        if dtype is not y.dtype or g.dtype is not y.dtype or math.prod(y.shape[dim % y.ndim + 1 :]) != 1:
            raise Resists("along the last dimension and in one dtype it is known")
        cols = y.shape[dim]
        dx = p.op(name, forward._rows(y.contiguous(), cols), g=forward._rows(g.contiguous(), cols))
        p.count(name, KERNEL)
        return dx.reshape(y.shape)

    return handler


def _counted(x: Tensor, target: Tensor, ignore: int) -> Tensor:
    """Which rows count."""
    counts = target != ignore
    if bool((counts & ((target < 0) | (target >= x.shape[1]))).any()):
        raise IndexError(f"a target that is no column of {x.shape[1]}")
    return counts


def _nll_loss(p: Prediction, x: Tensor, target: Tensor, weight: Any, reduction: int, ignore: int) -> Any:
    """The mean of one block: T threads take rows in turn, a tree adds them, and the sum is divided by the count."""
    if weight is not None or x.ndim != 2 or x.dtype is not torch.float32 or reduction not in (0, 1):
        raise Resists("rows of FP32, without weights, each by itself or as a mean")
    counts = _counted(x, target, ignore)
    picked = torch.where(counts, -x.gather(1, target.clamp_min(0)[:, None])[:, 0], 0.0)
    if reduction == 0:
        p.count("nll_loss", PASSED)
        return picked, x.new_zeros(())
    rows = len(target)
    threads = min(max(1 << round(math.log2(max(rows // 16, 1))), 32), 1024)
    sums = x.new_zeros(threads)
    for first in range(0, rows, threads):
        part = picked[first : first + threads]
        sums[: len(part)] += part
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    count = counts.sum().float()
    p.count("nll_loss", KERNEL)
    return sums[0] / count, count


def _nll_loss_backward(p: Prediction, g: Tensor, x: Tensor, target: Tensor, weight: Any, reduction: int, ignore: int, total: Tensor) -> Any:
    if weight is not None or x.ndim != 2 or x.dtype is not torch.float32 or reduction not in (0, 1):
        raise Resists("rows of FP32, without weights, each by itself or as a mean")
    each = -(g / total) if reduction == 1 else -g
    dx = torch.zeros_like(x)
    counts = _counted(x, target, ignore)
    dx.scatter_(1, target.clamp_min(0)[:, None], torch.where(counts, each, 0.0)[:, None])
    p.count("nll_loss_backward", KERNEL)
    return dx


def _embedding_backward(p: Prediction, g: Tensor, indices: Tensor, words: int, padding: int, by_frequency: bool) -> Any:
    if padding >= 0 or by_frequency:
        raise Resists("padding_idx or scale_grad_by_freq")
    cols = g.shape[-1]
    dw = p.op("embedding_backward", g=forward._rows(g.contiguous(), cols), target=indices.flatten(), words=int(words))
    p.count("embedding_dense_backward", KERNEL + ", deterministic")
    return dw


def _sum(p: Prediction, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Over the first dimensions: what a bias gets."""
    if not forward._is_float(x):
        return NotImplemented
    dims = sorted(d % max(x.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim or []))
    if not dims or dims != list(range(len(dims))) or len(dims) == x.ndim:
        return forward.ATEN["sum"](p, x, dim, keepdim, dtype=dtype)
    if not x.is_contiguous() or dtype not in (None, x.dtype):
        raise Resists("over the first dimensions of a contiguous tensor, in its own dtype, it is known")
    y = p.op("sum_rows", forward._rows(x, math.prod(x.shape[len(dims) :])))
    p.count("sum over rows", KERNEL)
    return y.reshape([*([1] * len(dims) if keepdim else []), *x.shape[len(dims) :]])


def _norm(p: Prediction, x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if ord != 2 or dim not in (None, [0]) or keepdim or dtype is not None or x.ndim != 1 or x.dtype not in FORMATS:
        raise Resists("the 2-norm of a vector of FP32, FP16 or BF16 is known")
    if x.numel() == 0 or not x.is_contiguous() or x.storage_offset() * x.element_size() % 16 != 0:
        raise Resists("an empty vector, or one that does not begin on 16 bytes and go on without gaps")
    p.count("linalg_vector_norm", KERNEL)
    return grad_norm(list(x.detach().unbind()))


def _double_reciprocal(p: Prediction, x: Tensor) -> Any:
    if x.dtype is not torch.float64:
        return forward.ATEN["reciprocal"](p, x)
    p.count("reciprocal", "predicted: FP64")
    return x.reciprocal()


BACKWARD: dict[str, Callable[..., Any]] = {
    "native_layer_norm": _layer_norm, "native_layer_norm_backward": _layer_norm_backward,
    "gelu_backward": _activation_backward("gelu"), "silu_backward": _activation_backward("silu"),
    "_softmax_backward_data": _softmax_backward("softmax_backward"),
    "_log_softmax_backward_data": _softmax_backward("log_softmax_backward"),
    "nll_loss_forward": _nll_loss, "nll_loss_backward": _nll_loss_backward, "embedding_dense_backward": _embedding_backward,
    "sum": _sum, "linalg_vector_norm": _norm, "reciprocal": _double_reciprocal,
}  # fmt: skip


# -- lists of tensors: clipping and optimisers, each result of FP32 rounded once -----------------------------------------------


def _fma(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """fma of FP32 by way of FP64: the product is exact, and the sum is rounded to odd, so that FP32's rounding is the only one."""
    x, z = a.double() * b.double(), c.double()
    s = x + z
    t = s - x
    rest = (x - (s - t)) + (z - t)
    bits = s.view(torch.int64)
    step = torch.where((rest > 0) == (s > 0), 1, -1)
    inexact = (rest != 0) & s.isfinite() & (bits & 1 == 0)
    return torch.where(inexact, bits + step, bits).view(torch.float64).float()


def _of(value: Any, like: Tensor) -> Tensor:
    """A number of the host or a tensor of one, as the kernel has it in FP32."""
    return torch.as_tensor(value, dtype=torch.float64).to(torch.float32).expand(like.shape)


def _each(compute: Callable[..., Tensor]) -> Callable[..., Any]:
    """compute(tensor, operand..) for every tensor of the first list; what is no list is the same for all."""

    def handler(p: Prediction, name: str, in_place: bool, tensors: list[Tensor], *operands: Any, **words: Any) -> Any:
        if any(t.dtype not in FORMATS for t in tensors) or words.get("alpha", 1) != 1:
            raise Resists("FP32, FP16 and BF16 are known, and alpha=1")
        if any(isinstance(o, Tensor) and o.ndim for o in operands):
            raise Resists("numbers in a tensor")
        value = [words["value"]] if "value" in words else []
        results = []
        for i, t in enumerate(tensors):
            mine = [o[i] if isinstance(o, (list, tuple)) else o for o in [*operands, *value]]
            wide = [o.float() if isinstance(o, Tensor) and o.ndim else _of(o, t) for o in mine]
            results.append(compute(t.float(), *wide).to(t.dtype))
        p.count(name, forward.ARITHMETIC)
        if not in_place:
            return results
        for t, result in zip(tensors, results):
            t.copy_(result)
        return None

    return handler


def _root(x: Tensor) -> Tensor:
    """torch's own square root of FP32 on the CPU is not always the nearest; that of FP64, rounded again, is."""
    return x.double().sqrt().float()


def _lerp(x: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    distance = end - x
    return torch.where(weight < 0.5, _fma(weight, distance, x), _fma(-distance, 1 - weight, end))


def _each_norm(p: Prediction, name: str, in_place: bool, tensors: list[Tensor], ord: Any = 2, dtype: Any = None) -> Any:
    if ord != 2 or dtype is not None or any(t.numel() == 0 or t.dtype not in FORMATS for t in tensors):
        raise Resists("2-norms of FP32, FP16 and BF16 are known, and of nothing that is empty")
    p.count(name, KERNEL)
    return [grad_norm([t.detach().flatten()]) for t in tensors]


def _fused_adamw(p: Prediction, name: str, in_place: bool, parameters: list[Tensor], gradients: list[Tensor], m: list[Tensor],
                 v: list[Tensor], most: list[Tensor], steps: list[Tensor], **words: Any) -> None:  # fmt: skip
    if words.get("amsgrad") or words.get("maximize") or words.get("grad_scale") is not None:
        raise Resists("amsgrad, maximize, and a scale within the kernel (call scaler.unscale_(optimiser) before the step)")
    if any(t.dtype != parameters[0].dtype for t in (*parameters, *gradients, *m, *v)):
        raise Resists("parameters, gradients and moments of several dtypes")
    found = words.get("found_inf")
    if found is not None and float(found.item()) != 0:  # the kernel leaves everything as it is
        return p.count(name, PASSED)
    numbers = {key: float(words[key]) for key in ("lr", "beta1", "beta2", "weight_decay", "eps")}
    for i, parameter in enumerate(parameters):
        adamw_step(parameter, gradients[i], m[i], v[i], step=int(steps[i].item()), fused=True, **numbers)
    p.count(name, KERNEL)


LISTS: dict[str, Callable[..., Any]] = {
    "_foreach_add": _each(lambda x, y: x + y), "_foreach_sub": _each(lambda x, y: x - y), "_foreach_mul": _each(lambda x, y: x * y), "_foreach_div": _each(lambda x, y: x / y),
    "_foreach_sqrt": _each(_root), "_foreach_lerp": _each(_lerp),
    "_foreach_addcmul": _each(lambda x, y, z, value=torch.ones(()): _fma(value.expand(x.shape), y * z, x)),
    "_foreach_addcdiv": _each(lambda x, y, z, value=torch.ones(()): _fma(value.expand(x.shape), y / z, x)),
    "_foreach_norm": _each_norm, "_fused_adamw": _fused_adamw,
}  # fmt: skip
# One product or one comparison an element: the same on both machines.
SCALERS = {"_amp_foreach_non_finite_check_and_unscale", "_amp_update_scale"}


# Bits that are moved, on the way back.
MOVED = {"select_backward", "slice_backward"}


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
