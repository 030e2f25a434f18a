"""Operations of ATen that a backward pass, clipping and an optimiser ask for, with the bits of PyTorch 2.11 on an H200.

Handlers as those of _predict: of the operation's own arguments, an answer or Resists.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import Tensor

from .._operations import adamw_step, grad_norm
from . import _predict as forward
from ._predict import FORMATS, PASSED, Prediction, Resists

KERNEL = "predicted: torch's kernel"

# -- backward -----------------------------------------------------------------------------------------------------------------


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
