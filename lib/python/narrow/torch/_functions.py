"""Which operation of a recipe a function of torch is, and what takes its place while an emulated model runs."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from . import _operations as ops
from ._precision import Delayed, Policy

if TYPE_CHECKING:
    from ._emulate import Emulation

ACTIVATIONS = ("relu", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "softplus", "hardswish", "hardtanh", "relu6")

# What is an operation of recipes, and computed as torch does all the same: said once, where the recipe rounds it.
NOT_EMULATED = {
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "bilinear",
                     "tensordot", "mv", "addmv", "dot", "vdot", "inner", "addbmm", "chain_matmul", "multi_dot", "_scaled_mm",
                     "scaled_mm", "scaled_grouped_mm", "_scaled_grouped_mm", "flex_attention", "addmm_", "baddbmm_", "addbmm_",
                     "addmv_"), "linear"),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc"), "convolution"),
    **dict.fromkeys(("group_norm", "instance_norm", "local_response_norm"), "norm"),
    **dict.fromkeys(("log_softmax", "softmin", "gumbel_softmax"), "softmax"),
}  # fmt: skip


class Mode(TorchFunctionMode):
    """Takes the place of torch's functions while a model runs."""

    def __init__(self, emulation: Emulation) -> None:
        super().__init__()
        self.emulation = emulation

    def __torch_function__(self, func: Any, types_: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "multi_head_attention_forward":
            with self:
                return _unasked(func)(*args, **kwargs)
        handler = HANDLERS.get(name)
        if name in NOT_EMULATED:
            self.emulation.leave(name, NOT_EMULATED[name])
        result = NotImplemented if handler is None else handler(self.emulation, *args, **kwargs)
        if result is not NotImplemented:
            return result
        if self.emulation.narrow and (handler is not None or name in NOT_EMULATED):
            args, kwargs = _of_one_dtype((args, kwargs))
        return func(*args, **kwargs)


def _of_one_dtype(arguments: Any) -> Any:
    """Where dtypes are narrow an operation of torch's own may get 16 bits and parameters of 32: it takes the widest."""
    found = {t.dtype for t in tree_leaves(arguments) if _is_float(t)}
    if len(found) < 2:
        return arguments
    widest = functools.reduce(torch.promote_types, found)
    return tree_map(lambda t: t.to(widest) if _is_float(t) else t, arguments)


def _unasked(func: Any) -> Any:
    """A function of torch.nn.functional without its question for overrides: its parts are taken over one by one."""
    names = {**func.__globals__, "has_torch_function": lambda _: False}
    copy = types.FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


def _is_float(*tensors: Any) -> bool:
    return all(isinstance(t, Tensor) and t.is_floating_point() for t in tensors)


def _parameter(e: Emulation, t: Tensor) -> Tensor | None:
    """The parameter that t is, or is a view of (w.t(), experts[i])."""
    base = t if t._base is None else t._base
    return base if id(base) in e._names else None


def _linear(e: Emulation, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    site = e.site("linear", _parameter(e, weight))
    return NotImplemented if site is None or not _is_float(input) else ops.linear(site, input, weight, bias)


def _addmm(e: Emulation, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Any = None) -> Any:
    """Conv1D of transformers: bias + x w with a parameter w of inputs x outputs."""
    if beta != 1 or alpha != 1 or out is not None or not _is_float(input, mat1, mat2):
        return NotImplemented
    if (weight := _parameter(e, mat2)) is not None and input.ndim == 1:
        site = e.site("linear", weight)
        return NotImplemented if site is None else ops.linear(site, mat1, mat2.t(), input)
    product = _matmul(e, mat1, mat2)
    return NotImplemented if product is NotImplemented else input + product


def _matmul(e: Emulation, input: Tensor, other: Tensor, **rest: Any) -> Any:
    if rest.get("out") is not None or not _is_float(input, other):
        return NotImplemented
    if (weight := _parameter(e, other)) is not None and other.ndim == 2:  # x @ w
        site = e.site("linear", weight)
        return NotImplemented if site is None else ops.linear(site, input, other.t())
    site = _pair_site(e)
    return NotImplemented if site is None else ops.matmul(site, input, other)


def _grouped_mm(e: Emulation, input: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Any = None, **rest: Any) -> Any:
    """Rows in groups, each with a matrix of its own (experts): a linear each."""
    weight = _parameter(e, mat2)
    first = e.site("linear", weight)
    if first is None:
        return NotImplemented
    if offs is None or bias is not None or input.ndim != 2 or mat2.ndim != 3 or not _is_float(input, mat2):
        e.leave("grouped_mm", "linear")
        return NotImplemented
    ends = offs.tolist()
    parts = [ops.linear(e.site("linear", weight) or first, input[start:end], w.t()) for start, end, w in zip([0, *ends], ends, mat2)]
    rest_of_it = input.new_zeros(len(input) - (ends[-1] if ends else 0), mat2.shape[2])
    return torch.cat([*parts, rest_of_it.to(parts[0].dtype) if parts else rest_of_it])


def _pair_site(e: Emulation) -> Any:
    """A product of two activations: the scores until the module has taken a softmax, then the context."""
    path = e._path[-1] if e._path else ""
    return e.site("context" if path in e._after_softmax else "scores")


def _baddbmm(e: Emulation, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, out: Any = None) -> Any:
    product = _matmul(e, batch1, batch2, out=out)
    return NotImplemented if product is NotImplemented else beta * input + alpha * product


def _einsum(e: Emulation, equation: Any, *operands: Any) -> Any:
    operands = tuple(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    site = _pair_site(e)
    if site is None or not isinstance(equation, str) or not _is_float(*operands):
        return NotImplemented
    words = equation.replace(" ", "")
    inputs, _, result = words.partition("->")
    parts = inputs.split(",")
    if len(parts) != 2 or "->" not in words or "." in words or any(len(set(p)) != len(p) for p in (*parts, result)):
        raise NotImplementedError(f"einsum {equation!r}: a product of two tensors with every index named once in each is emulated; "
                                  "give the layer no recipe by layers={...}")  # fmt: skip
    a, b = parts
    batch = [c for c in a if c in b and c in result]
    summed = [c for c in a if c in b and c not in result]
    rows, cols = [c for c in a if c not in b], [c for c in b if c not in a]
    if not summed or any(c not in result for c in rows + cols):
        return NotImplemented
    size = {**dict(zip(a, operands[0].shape)), **dict(zip(b, operands[1].shape))}
    count = lambda letters: torch.Size([size[c] for c in letters]).numel()
    left = operands[0].permute([a.index(c) for c in batch + rows + summed]).reshape(count(batch), count(rows), count(summed))
    right = operands[1].permute([b.index(c) for c in batch + summed + cols]).reshape(count(batch), count(summed), count(cols))
    y = ops.matmul(site, left, right).reshape([size[c] for c in batch + rows + cols])
    return y.permute([(batch + rows + cols).index(c) for c in result])


def _convolution(e: Emulation, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> Any:  # fmt: skip
    site = e.site("convolution", weight)
    return NotImplemented if site is None else ops.convolution(site, input, weight, bias, stride, padding, dilation, groups)


def _attention(e: Emulation, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
               is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Any:  # fmt: skip
    sites = [e.site(o) for o in ("scores", "scale", "softmax", "context")]
    if all(site is None for site in sites):
        return NotImplemented
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (t.repeat_interleave(times, -3) for t in (key, value))
    policy = e.policy_of(e._path[-1] if e._path else "")
    full = [e_site or _exact(o, policy, e) for e_site, o in zip(sites, ("scores", "scale", "softmax", "context"))]
    format = full[0].policy.activations.format
    same = all(s.policy.roles[r].is_plain and s.policy.roles[r].format == format
               for s in (full[0], full[3]) for r in ("activations", "gradients", "output", "input_gradients"))  # fmt: skip
    native = all(p["accumulation"] == "native" for s in (full[0], full[3]) for p in s.policy.products.values())
    fused = query.is_cuda and same and native and full[2].policy.is_exact
    if e._attention == "fused" and not (same and native and full[2].policy.is_exact):
        raise ValueError(f"attention: fused is torch's own kernel in FP16 or BF16, and {e.recipe.name} wants another arithmetic")
    if e._attention == "fused" or (e._attention is None and fused):
        dtype = torch.bfloat16 if format == "bf16" else torch.float16
        take = lambda t, name: ops.rounded(t, full[0], "activations", "input_gradients", name).to(dtype)
        mask = attn_mask if attn_mask is None or attn_mask.dtype is torch.bool else attn_mask.to(dtype)
        q, k, v = take(query, ".queries"), take(key, ".keys"), take(value, ".values")
        y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal, scale=scale)
        return y if e.narrow else y.to(query.dtype)
    return ops.attention(full[0], full[1], full[2], full[3], query, key, value, attn_mask, dropout_p, is_causal, scale)


def _exact(operation: str, policy: Policy | None, e: Emulation) -> ops.Site:
    assert policy is not None
    return ops.Site("", operation, policy.operations[operation], lambda _: 0, lambda *_: Delayed({}, 1.0), None, e.narrow)


def _softmax(e: Emulation, input: Tensor, dim: int | None = None, *_: Any, dtype: Any = None, **rest: Any) -> Any:
    if e._path:
        e._after_softmax.add(e._path[-1])
    site = e.site("softmax")
    if site is None or dim is None or not _is_float(input):
        return NotImplemented
    return ops.softmax(site, input if dtype is None else input.to(dtype), dim)


def _layer_norm(e: Emulation, input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    site = e.site("norm", weight)
    if site is None:
        return NotImplemented
    dims = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    return ops.norm(site, input, weight, bias, eps, dims, True)


def _rms_norm(e: Emulation, input: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    site = e.site("norm", weight)
    if site is None:
        return NotImplemented
    dims = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    return ops.norm(site, input, weight, None, torch.finfo(input.dtype).eps if eps is None else eps, dims, False)


def _batch_norm(e: Emulation, input: Tensor, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
                training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:  # fmt: skip
    site = e.site("batch_norm", weight)
    if site is None:
        return NotImplemented
    take = lambda t, name: None if t is None else ops.rounded(t, site, "weights", "weight_gradients", name)
    weight, bias = take(weight, ""), take(bias, ".bias")
    plain = lambda x: F.batch_norm(x, running_mean, running_var, weight, bias, training, momentum, eps)
    return ops.element_by_element(site, ops.inside_rounded(site, plain), input)


def _embedding(e: Emulation, input: Tensor, weight: Tensor, *rest: Any, **named: Any) -> Any:
    site = e.site("embedding", weight)
    if site is None:
        return NotImplemented
    y = F.embedding(input, ops.rounded(weight, site, "weights", "weight_gradients"), *rest, **named)
    return ops.rounded(y, site, "output", "gradients")


def _activation(name: str) -> Callable[..., Any]:
    function = getattr(F, name)

    def handler(e: Emulation, input: Tensor, *rest: Any, **named: Any) -> Any:
        site = e.site("activation")
        if site is None or not _is_float(input):
            return NotImplemented
        named.pop("inplace", None)
        return ops.element_by_element(site, ops.inside_rounded(site, lambda x: function(x, *rest, **named)), input)

    return handler


def _add(e: Emulation, input: Any, other: Any, *rest: Any, alpha: float = 1, out: Any = None) -> Any:
    """A sum of two activations of one shape is the residual stream."""
    if rest or alpha != 1 or out is not None or not _is_float(input, other) or input.shape != other.shape or input.ndim < 2:
        return NotImplemented
    if id(input) in e._names or id(other) in e._names:
        return NotImplemented
    site = e.site("residual")
    if site is None:
        return NotImplemented
    x, f = (ops.rounded(t, site, "activations", "input_gradients", name) for t, name in ((input, ""), (other, ".branch")))
    inside = ops.inside_rounded(site, lambda t: t)
    return ops.rounded(inside(x + f), site, "output", "gradients")


def _add_in_place(e: Emulation, input: Any, *rest: Any, **named: Any) -> Any:
    """x += f(x): what a sum is, written where x was."""
    result = _add(e, input, *rest, **named)
    return result if result is NotImplemented else input.copy_(result)


def _cross_entropy(e: Emulation, input: Tensor, target: Tensor, *rest: Any, **named: Any) -> Any:
    site = e.site("loss")
    if site is None:
        return NotImplemented
    x = ops.rounded(input, site, "activations", "input_gradients")
    plain = ops.inside_rounded(site, lambda t: F.cross_entropy(t, target, *rest, **named))
    return ops.rounded(plain(x), site, "output", "gradients")


HANDLERS: dict[str, Callable[..., Any]] = {
    "linear": _linear, "addmm": _addmm, "baddbmm": _baddbmm, "einsum": _einsum, "embedding": _embedding,
    "scaled_dot_product_attention": _attention, "softmax": _softmax, "layer_norm": _layer_norm, "rms_norm": _rms_norm,
    "batch_norm": _batch_norm, "cross_entropy": _cross_entropy, "grouped_mm": _grouped_mm, "_grouped_mm": _grouped_mm,
    **{name: _convolution for name in ("conv1d", "conv2d", "conv3d")},
    **{name: _matmul for name in ("matmul", "__matmul__", "mm", "bmm")},
    **{name: _add for name in ("add", "__add__", "__radd__")},
    **{name: _add_in_place for name in ("add_", "__iadd__")},
    **{name: _activation(name) for name in ACTIVATIONS},
}  # fmt: skip
