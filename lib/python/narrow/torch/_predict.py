"""A module's forward on the CPU with the bits of PyTorch 2.11, eager, on an H200; and an account of what was predicted.

Two modes of torch look at every call. Functions that torch takes apart differently on a CPU are seen whole (linear, norms,
attention, cross entropy); everything else is seen as the operations of ATen that remain. An operation is in one of the
tables below or it resists: nothing is left to the CPU in silence.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections import Counter
from typing import Any, Callable, Iterator

import torch
from torch import Tensor
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from .._operations import op
from .._products import matmul
from .._records import Record, Records
from ._functions import _unasked
from ._recorder import _is_view, check_model, is_compiled, shown

FORMATS = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32"}
OPERANDS = {torch.float16: "f16", torch.bfloat16: "bf16"}
PASSED, FED, LEFT = "passed through", "fed", "left to the CPU"


class Account(Records):
    """What became of every operation: records of operation, count and how. str() is a table."""

    @property
    def left(self) -> list[str]:
        """Operations that the CPU computed: with one of them the answer is no prediction."""
        return [r.operation for r in self if r.how.startswith(LEFT)]

    def __str__(self) -> str:
        width = max([len(r.operation) for r in self], default=9)
        lines = [f"{'operation':{width}}  count  how"]
        return "\n".join(lines + [f"{r.operation:{width}}  {r.count:5}  {r.how}" for r in self])


class Resists(Exception):
    """An operation, or these arguments of one, whose bits are not known."""


class Prediction:
    """One run: what was asked, where the forward stands, what has been counted."""

    def __init__(self, module: torch.nn.Module, plans: Any, attention: str | None, feed: Any, allow_other: bool) -> None:
        self.names = {id(m): name for name, m in module.named_modules()}
        self.plans, self.attention, self.allow_other = plans, attention, allow_other
        self.feed = feed
        self.is_busy = False  # what a handler computes is not looked at
        self.path: list[Any] = []
        self.rows: Counter[tuple[str, str]] = Counter()
        self.functions = Functions(self)

    def told(self) -> Account:
        return Account(Record(operation=name, count=n, how=how) for (name, how), n in self.rows.items())

    def count(self, operation: str, how: str) -> None:
        self.rows[operation, how] += 1

    @property
    def place(self) -> str:
        return shown(self.names.get(id(self.path[-1]), "")) if self.path else ""

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        before, self.is_busy = self.is_busy, True
        try:
            yield
        finally:
            self.is_busy = before

    def attempt(self, name: str, handler: Callable[..., Any], func: Any, args: tuple, kwargs: dict) -> Any:
        """The handler's answer; NotImplemented where it leaves the operation to what comes after it."""
        try:
            with self.quietly():
                return handler(self, *args, **kwargs)
        except Resists as error:
            why = str(error)
        return self.resist(name, why, func, args, kwargs)

    def resist(self, name: str, why: str, func: Any, args: tuple, kwargs: dict) -> Any:
        if not self.allow_other:
            place = f"in {self.place}" if self.place else "in the module itself"
            raise NotImplementedError(f"predict: {name} {place}: {why}; feed={{name: tensor}} gives what a module returned on the "
                                      "GPU, allow_other=True leaves such operations to the CPU and says so")  # fmt: skip
        self.count(name, f"{LEFT}: {why}")
        with self.quietly():
            return func(*args, **kwargs)

    def op(self, name: str, x: Any = None, **operands: Any) -> Tensor:
        """narrow.op, whose refusals are told as an operation that resists."""
        try:
            return op(name, x, **operands)
        except ValueError as error:
            raise Resists(str(error)) from None

    # -- products -----------------------------------------------------------------------------------------------------

    def arithmetic(self, dtype: torch.dtype, m: int, n: int, k: int) -> tuple[str, str]:
        """Model and plan of a product."""
        if dtype in OPERANDS:
            model, plan = f"hopper.wgmma.f32.{OPERANDS[dtype]}.{OPERANDS[dtype]}", "chain"
        elif dtype is torch.float32:
            model, plan = ("hopper.wgmma.f32.tf32.tf32", "chain,rne") if _uses_tf32() else ("software.fma.f32.f32.f32", "chain")
        else:
            raise Resists(f"products of {dtype} are not known")
        self.assumes_plan = False
        if isinstance(self.plans, str):
            return model, self.plans
        given = self.plans.get(self.place, self.plans.get((m, n, k)))
        self.assumes_plan = given is None
        return model, given or plan

    def product(self, name: str, a: Tensor, b: Tensor, *, bias: Tensor | None = None, c: Tensor | None = None,
                alpha: float = 1, beta: float = 1) -> Tensor:  # fmt: skip
        """alpha a b + beta c, one rounding: a bias or C is added in FP32 to the finished sum (cuBLAS' epilogue)."""
        if a.dtype != b.dtype or any(t is not None and t.dtype != a.dtype for t in (bias, c)):
            raise Resists("operands of one dtype are needed")
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        model, plan = self.arithmetic(a.dtype, m, n, k)
        if 0 in (*a.shape, n):
            if bias is not None or c is not None:
                raise Resists("an empty product with a bias")
            self.count(name, PASSED)
            return a.new_zeros(*a.shape[:-1], n)
        if c is not None and plan.split(",")[0] == "chain" and "c=" not in plan:
            plan += ",c=last"
        factors: dict[str, Any] = {key: float(f) for key, f in (("alpha", alpha), ("beta", beta)) if f != 1}
        try:
            y = matmul(a.detach(), b.detach(), None if c is None else c.detach(), model=model, plan=plan,
                       bias=None if bias is None else bias.detach(), out_format=FORMATS[a.dtype], **factors)  # fmt: skip
        except ValueError as error:
            if not self.assumes_plan:
                raise ValueError(f"plans: {error}") from None
            raise Resists(str(error)) from None
        self.count(name, f"predicted: {model}, {plan}" + (" (plan assumed)" if self.assumes_plan else ""))
        return y


def _uses_tf32() -> bool:
    of = torch.backends.cuda.matmul
    try:
        return bool(of.allow_tf32)
    except RuntimeError:  # asked by torch's newer name
        return of.fp32_precision == "tf32"


def _is_float(*tensors: Any) -> bool:
    return all(isinstance(t, Tensor) and t.is_floating_point() for t in tensors)


def _rows(x: Tensor, cols: int, *, aligned: bool = True) -> Tensor:
    """x as rows. Sums of rows that do not begin on 16 bytes begin with a head of their own; op's rows begin in memory of its own."""
    if x.numel() == 0:
        raise Resists("of an empty tensor nothing is known")
    if aligned and x.is_contiguous() and x.storage_offset() * x.element_size() % 16 != 0:
        raise Resists("a tensor that begins within 16 bytes of its memory is not known")
    return x.detach().reshape(-1, cols)


# -- functions that are seen whole ------------------------------------------------------------------------------------------


def _linear(p: Prediction, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """As Linear.cpp: the bias joins the product where the rows lie one behind the other, else it is added to what was rounded."""
    if not _is_float(input, weight) or weight.ndim != 2 or (input.ndim == 1 and bias is None):
        return NotImplemented
    fused = input.ndim == 2 or (input.is_contiguous() and bias is not None and bias.is_contiguous())
    rows = input.reshape(-1, input.shape[-1])
    y = p.product("linear", rows, weight.t(), bias=bias if fused else None)
    y = y.reshape(*input.shape[:-1], weight.shape[0])
    return y if fused or bias is None else _add(p, y, bias)


def _norm(p: Prediction, name: str, input: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float | None) -> Any:
    if any(t is not None and t.dtype != input.dtype for t in (weight, bias)):
        raise Resists("weights of another dtype than the input")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if list(input.shape[-len(sizes):]) != sizes or any(t is not None and list(t.shape) != sizes for t in (weight, bias)):
        raise RuntimeError(f"{name}: normalized_shape {sizes} of an input {list(input.shape)} and weights that are not of that shape")
    cols = math.prod(sizes)
    flat = lambda t: None if t is None else t.detach().reshape(cols)
    operands = {"w": flat(weight), "eps": eps} | ({} if bias is None else {"b": flat(bias)})
    y = p.op(name, _rows(input, cols), **operands)
    p.count(name, "predicted: torch's kernel")
    return y.reshape(input.shape)


def _layer_norm(p: Prediction, input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Any:
    return _norm(p, "layer_norm", input, normalized_shape, weight, bias, eps)


def _rms_norm(p: Prediction, input: Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    return _norm(p, "rms_norm", input, normalized_shape, weight, None, eps)


def _wide_softmax(p: Prediction, input: Tensor, dim: int | None = None, *rest: Any, dtype: Any = None, **_: Any) -> Any:
    """FP16 in, FP32 out is a kernel of its own: up to 1024 columns with the sums of the usual one."""
    dtype = next((r for r in rest if isinstance(r, torch.dtype)), dtype)
    if dtype is torch.float32 and input.dtype is torch.float16 and dim is not None and input.shape[dim] > 1024:
        raise Resists("FP16 to FP32 over more than 1024 columns")
    return NotImplemented


def _cross_entropy(p: Prediction, input: Tensor, target: Tensor, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
                   reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:  # fmt: skip
    plain = weight is None and size_average is None and reduce is None and label_smoothing == 0 and ignore_index == -100
    if not plain or input.ndim != 2 or target.ndim != 1 or target.is_floating_point():
        raise Resists("what is known is a row of logits and a class each, without weights, smoothing or another ignore_index")
    if reduction == "none":
        return NotImplemented  # log_softmax, and numbers picked from it
    if reduction != "mean":
        raise Resists(f"reduction={reduction!r}")
    y = p.op("cross_entropy", input.detach(), target=target)
    p.count("cross_entropy", "predicted: torch's kernels")
    return y.reshape(())


ATTENTIONS = ("cudnn", "flash2", "efficient", "math")


def _enabled_attention() -> str:
    """The first in torch's order on an H200 that sdpa_kernel() and torch.backends.cuda leave."""
    b = torch.backends.cuda
    enabled = (b.cudnn_sdp_enabled(), b.flash_sdp_enabled(), b.mem_efficient_sdp_enabled(), b.math_sdp_enabled())
    return next((name for name, on in zip(ATTENTIONS, enabled) if on), "math")


def _attention(p: Prediction, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
               is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Any:  # fmt: skip
    if attn_mask is not None or dropout_p:
        raise Resists("a mask or dropout")
    if query.dtype not in OPERANDS or any(t.ndim != 4 for t in (query, key, value)):
        raise Resists("FP16 or BF16 and four dimensions are known")
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise Resists("causal with as many queries as keys is known")
    if query.shape[1] != key.shape[1] and not enable_gqa:
        return NotImplemented  # torch says what is wrong
    variant = p.attention or _enabled_attention()
    words = {} if scale is None else {"scale": float(scale)}
    y = p.op("attention", q=query.detach().contiguous(), k=key.detach().contiguous(), v=value.detach().contiguous(),
             causal=bool(is_causal), variant=variant, **words)  # fmt: skip
    p.count("scaled_dot_product_attention", f"predicted: {variant}")
    return y.transpose(1, 2).contiguous().transpose(1, 2)  # heads lie inside tokens, as the kernels store them


def _multi_head(p: Prediction, *args: Any, **kwargs: Any) -> Any:
    raise Resists("nn.MultiheadAttention takes a fast path of its own on the GPU; torch.backends.mha.set_fastpath_enabled(False) "
                  "turns it off, there and here")  # fmt: skip


def _recurrent(p: Prediction, *args: Any, **kwargs: Any) -> Any:
    raise Resists("on the GPU cuDNN's kernels, or fused ones, compute it")


RECURRENT = dict.fromkeys(("rnn_relu", "rnn_tanh", "lstm", "gru", "lstm_cell", "gru_cell"), _recurrent)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **RECURRENT, "linear": _linear, "layer_norm": _layer_norm, "rms_norm": _rms_norm, "cross_entropy": _cross_entropy,
    "scaled_dot_product_attention": _attention, "softmax": _wide_softmax, "log_softmax": _wide_softmax,
}  # fmt: skip


class Functions(TorchFunctionMode):
    """Sees functions before torch takes them apart."""

    def __init__(self, prediction: Prediction) -> None:
        super().__init__()
        self.prediction = prediction

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        p, kwargs, name = self.prediction, kwargs or {}, getattr(func, "__name__", "")
        if p.is_busy:
            return func(*args, **kwargs)
        _check_autocast()  # here: below, torch has turned it off
        if name == "multi_head_attention_forward":
            if torch.backends.mha.get_fastpath_enabled() and not kwargs.get("training", True):
                return p.attempt(name, _multi_head, func, args, kwargs)
            with self:
                return _unasked(func)(*args, **kwargs)
        handler = FUNCTIONS.get(name)
        result = NotImplemented if handler is None else p.attempt(name, handler, func, args, kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result


# -- operations of ATen ------------------------------------------------------------------------------------------------------

# Elementwise kernels of a GPU widen 16 bits to FP32, compute, and round once. So do torch's own on the CPU for add, sub and mul
# of tensors of one dtype or with a Python number, and for the quotient of two tensors: their sums, products and quotients of
# FP32 are IEEE's on both. Not the same on the CPU: x / number (the GPU multiplies by float(1 / double(number))), and tensors
# without dimensions. All are computed here in FP32 as written, so that none depends on how torch vectorises.
ARITHMETIC = "predicted: FP32, one rounding"


def _rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype == dtype else x.to(dtype)


def _wide(x: Any, common: torch.dtype, is_host: bool) -> Tensor:
    """An operand as the arithmetic takes it. A number of the host is not rounded to the 16 bits of the other one."""
    wide = torch.float64 if common is torch.float64 else torch.float32
    if not isinstance(x, Tensor):
        return torch.tensor(float(x), dtype=torch.float64).to(wide)
    return (x.double() if is_host else x.to(common)).to(wide)


def _computed(name: str, x: Any, y: Any, common: torch.dtype, hosts: tuple[bool, bool], alpha: float) -> Tensor:
    a = _wide(x, common, hosts[0])
    if name == "div":
        if not hosts[1]:
            return _rounded(a / _wide(y, common, False), common)
        divisor = y.double() if isinstance(y, Tensor) else torch.tensor(float(y), dtype=torch.float64)
        return _rounded(a * (1.0 / divisor).to(a.dtype), common)
    b = _wide(y, common, hosts[1])
    if name == "mul":
        return _rounded(a * b, common)
    return _rounded(a + (b if alpha == 1 else b * alpha), common)  # fma(alpha, y, x): alpha y is exact


def _is_small(x: Any, other: Any) -> bool:
    """A tensor without dimensions beside one with: who made it is not told, the host or the GPU."""
    return isinstance(x, Tensor) and x.ndim == 0 and isinstance(other, Tensor) and other.ndim > 0


def _binary(p: Prediction, name: str, x: Any, y: Any, alpha: float = 1) -> Any:
    common = torch.result_type(x, y)
    if not common.is_floating_point and not common.is_complex and name != "div":
        return NotImplemented
    if common not in (*FORMATS, torch.float64):
        raise Resists(f"on {common}")
    hosts = (not isinstance(x, Tensor), not isinstance(y, Tensor))
    result = _computed(name, x, y, common, hosts, alpha)
    if _is_small(x, y) or _is_small(y, x):
        other = _computed(name, x, y, common, (_is_small(x, y), _is_small(y, x)), alpha)
        if not torch.equal(result.nan_to_num(), other.nan_to_num()):
            raise Resists("a tensor without dimensions: one that the host keeps gives other bits than one on the GPU; as a Python "
                          "number (of the host) or with a dimension (on the GPU) it is known")  # fmt: skip
    p.count(name, ARITHMETIC)
    return result


def _add(p: Prediction, x: Any, y: Any, *, alpha: Any = 1, name: str = "add") -> Any:
    if abs(math.frexp(float(alpha))[0]) != 0.5:
        raise Resists(f"alpha={alpha}: a fused product is known for powers of two")
    return _binary(p, name, x, y, float(alpha))


def _sub(p: Prediction, x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return _add(p, x, y, alpha=-alpha, name="sub")


def _rsub(p: Prediction, x: Any, y: Any, alpha: Any = 1) -> Any:
    return _sub(p, y, x, alpha=alpha)


def _mul(p: Prediction, x: Any, y: Any) -> Any:
    return _binary(p, "mul", x, y)


def _div(p: Prediction, x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    if rounding_mode is None:
        return _binary(p, "div", x, y)
    if torch.result_type(x, y).is_floating_point:
        raise Resists(f"rounding_mode={rounding_mode!r}")
    return NotImplemented


def _reciprocal(p: Prediction, x: Tensor) -> Any:
    if x.dtype not in FORMATS:
        raise Resists(f"on {x.dtype}")
    p.count("reciprocal", ARITHMETIC)
    return _rounded(1.0 / x.float(), x.dtype)


def _pow(p: Prediction, x: Any, exponent: Any) -> Any:
    """x x, and (x x) x with a rounding each."""
    if not _is_float(x) or x.dtype not in FORMATS or isinstance(exponent, Tensor) or exponent not in (2, 3):
        raise Resists(f"x ** {exponent}: squares and cubes are known")
    wide = x.float()
    y = _rounded(wide * wide, x.dtype)
    p.count("pow", "predicted: FP32, a rounding for each product")
    return y if exponent == 2 else _rounded(y.float() * wide, x.dtype)


def _mm(p: Prediction, a: Tensor, b: Tensor) -> Any:
    return p.product("mm", a, b) if _is_float(a, b) else NotImplemented


def _bmm(p: Prediction, a: Tensor, b: Tensor) -> Any:
    return p.product("bmm", a, b) if _is_float(a, b) else NotImplemented


def _addmm(p: Prediction, c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if not _is_float(c, a, b):
        return NotImplemented
    if c.ndim <= 1 and c.numel() == b.shape[-1] and alpha == beta == 1:
        return p.product("addmm", a, b, bias=c)
    return p.product("addmm", a, b, c=c.expand(a.shape[0], b.shape[1]).contiguous(), alpha=alpha, beta=beta)


def _baddbmm(p: Prediction, c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if not _is_float(c, a, b):
        return NotImplemented
    if beta == 0:
        return p.product("baddbmm", a, b, alpha=alpha)
    whole = c.expand(a.shape[0], a.shape[1], b.shape[2]).contiguous()
    return p.product("baddbmm", a, b, c=whole, alpha=alpha, beta=beta)


def _softmax(name: str) -> Callable[..., Any]:
    def handler(p: Prediction, x: Tensor, dim: int, half_to_float: bool = False) -> Any:
        if half_to_float or math.prod(x.shape[dim % x.ndim + 1 :] if x.ndim else ()) != 1:
            raise Resists("along the last dimension it is known")
        cols = x.shape[dim] if x.ndim else 1
        y = p.op(name, _rows(x, cols)).reshape(x.shape)
        p.count(name, "predicted: torch's kernel")
        return y

    return handler


def _activation(name: str) -> Callable[..., Any]:
    def handler(p: Prediction, x: Tensor, *, approximate: str = "none") -> Any:
        which = "gelu_tanh" if approximate == "tanh" else name
        y = p.op(which, _rows(x, x.shape[-1] if x.ndim else 1, aligned=False))
        p.count(which, "predicted: torch's kernel")
        return torch.empty_like(x).copy_(y.reshape(x.shape))  # with the strides of x

    return handler


def _reduction(name: str) -> Callable[..., Any]:
    def handler(p: Prediction, x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        if not _is_float(x):
            return NotImplemented
        dims = range(x.ndim) if dim is None or dim == [] else sorted(d % max(x.ndim, 1) for d in ([dim] if isinstance(dim, int) else dim))
        first = x.ndim - len(dims)
        if list(dims) != list(range(first, x.ndim)) or not x.is_contiguous() or dtype not in (None, x.dtype):
            raise Resists("over the last dimensions of a contiguous tensor, in its own dtype, it is known")
        y = p.op(name, _rows(x, math.prod(x.shape[first:])))
        p.count(name, "predicted: torch's kernel")
        return y.reshape([*x.shape[:first], *([1] * len(dims) if keepdim else [])])

    return handler


ATEN: dict[str, Callable[..., Any]] = {
    "add": _add, "sub": _sub, "rsub": _rsub, "mul": _mul, "div": _div, "reciprocal": _reciprocal, "pow": _pow,
    "mm": _mm, "bmm": _bmm, "addmm": _addmm, "baddbmm": _baddbmm, "_softmax": _softmax("softmax"),
    "_log_softmax": _softmax("log_softmax"), "gelu": _activation("gelu"), "silu": _activation("silu"),
    "sum": _reduction("sum"), "mean": _reduction("mean"),
}  # fmt: skip

# Bits that are moved, chosen or made from nothing: the same on every machine. Casts of torch are to nearest even on both.
EXACT = {
    *("_to_copy", "clone", "copy", "contiguous", "cat", "stack", "index", "index_select", "gather", "scatter", "index_put",
      "masked_fill", "where", "embedding", "repeat", "roll", "flip", "tril", "triu", "constant_pad_nd", "slice_scatter",
      "select_scatter", "index_copy", "index_fill", "masked_select", "_reshape_copy", "lift_fresh", "lift_fresh_copy"),
    *("neg", "abs", "relu", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "amax", "amin", "sign", "isnan", "isinf",
      "isfinite", "any", "all", "_local_scalar_dense", "equal", "fill", "zero", "is_nonzero", "nonzero"),
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "zeros", "zeros_like", "new_zeros", "ones",
      "ones_like", "new_ones", "full", "full_like", "new_full", "scalar_tensor", "resize", "_unsafe_view", "set"),
}  # fmt: skip
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


def _is_exact(name: str, func: Any, args: tuple) -> bool:
    if name in COMPARISONS:  # a number that the dtype does not hold is rounded on one machine and not on the other
        x, number = args[0], args[1]
        return not _is_float(x) or not isinstance(number, float) or float(torch.tensor(number, dtype=x.dtype)) == number
    adds = (name == "index_put" and len(args) > 3 and args[3]) or "reduce" in func._overloadname
    return name in EXACT and not adds


def _is_whole(tensors: list[Any]) -> bool:
    return all(not t.is_floating_point() and not t.is_complex() for t in tensors if isinstance(t, Tensor))


class Operations(TorchDispatchMode):
    """Sees what is left of a forward when torch has taken it apart."""

    table = ATEN

    def __init__(self, prediction: Prediction) -> None:
        super().__init__()
        self.prediction = prediction

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        p, kwargs = self.prediction, kwargs or {}
        if p.is_busy:
            return func(*args, **kwargs)
        space, _, full = func._schema.name.partition("::")
        name = full.rstrip("_") if full.endswith("_") and not full.endswith("__") else full
        in_place = name != full
        if space != "aten":
            return p.resist(func._schema.name, "not an operation of torch's own", func, args, kwargs)
        if _is_view(func) or _is_exact(name, func, args):
            p.count(name, PASSED)
            return func(*args, **kwargs)
        if any("out" == key for key in kwargs):
            return p.resist(name, "with out=", func, args, kwargs)
        if name in self.table:
            result = p.attempt(name, self.table[name], func, args, kwargs)
            if result is not NotImplemented:
                with p.quietly():
                    return args[0].copy_(result) if in_place and result is not args[0] else result
        return self._whole_numbers(name, func, args, kwargs)

    def _whole_numbers(self, name: str, func: Any, args: tuple, kwargs: dict) -> Any:
        """Integers and bits are the same everywhere, also as numbers of arange; all else resists."""
        p = self.prediction
        random = torch.Tag.nondeterministic_seeded in func.tags
        if not random and _is_whole(tree_leaves((args, kwargs))):
            with p.quietly():
                result = func(*args, **kwargs)
                whole = _is_whole(tree_leaves(result))
                if not whole and name == "arange":
                    whole = result.dtype in (torch.float32, torch.float64) and bool((result == result.round()).all())
            if whole:
                p.count(name, PASSED)
                return result
        if name == "nll_loss_forward" and args[3] == 0 and args[2] is None:  # numbers picked, none added
            p.count(name, PASSED)
            return func(*args, **kwargs)
        return p.resist(name, "random numbers" if random else "not among the operations whose bits are known", func, args, kwargs)


_AUTOCAST = "predict: autocast is on, and what it casts is not predicted; give the module a dtype instead"


def _check_autocast() -> None:
    if any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda")):
        raise NotImplementedError(_AUTOCAST)


@contextlib.contextmanager
def _without_autocast() -> Iterator[None]:
    """Where there is no GPU, torch.autocast("cuda") warns that it does nothing; on one it would."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="CUDA is not available.*Disabling autocast")
        try:
            yield
        except UserWarning as warning:
            raise NotImplementedError(_AUTOCAST) if "autocast" in str(warning) else warning


# -- the run -----------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _followed(p: Prediction) -> Iterator[None]:
    """Keeps the module that runs at the end of p.path; hooks common to all modules leave those of the modules alone."""

    def leave(module: Any, *_: Any) -> None:
        if any(m is module for m in p.path):
            while p.path.pop() is not module:  # calls that an exception ended
                pass

    enter = modules.register_module_forward_pre_hook(lambda module, _: p.path.append(module))
    left = modules.register_module_forward_hook(leave, always_call=True)
    try:
        yield
    finally:
        enter.remove()
        left.remove()


@contextlib.contextmanager
def _fed(p: Prediction, module: torch.nn.Module) -> Iterator[None]:
    """Modules that return what was recorded."""
    named, before = dict(module.named_modules()), {}

    def replaced(name: str, value: Any) -> Callable[..., Any]:
        rest = iter(value) if isinstance(value, list) else None

        def forward(*_: Any, **__: Any) -> Any:
            p.count(name or "the module itself", FED)
            if rest is None:
                return value
            try:
                return next(rest)
            except StopIteration:
                raise ValueError(f"feed: {name} is called more often than the {len(value)} times that were recorded") from None

        return forward

    try:
        for name, value in p.feed.items():
            before[name] = named[name].__dict__.get("forward")
            named[name].__dict__["forward"] = replaced(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                named[name].__dict__.pop("forward", None)
            else:
                named[name].__dict__["forward"] = old


def _check(module: Any, inputs: Any, plans: Any, attention: Any, feed: Any) -> None:
    check_model(module)
    if is_compiled(module):
        raise ValueError("module: it is compiled, and what is predicted is torch's eager mode")
    for t in [*module.parameters(), *module.buffers(), *(x for x in tree_leaves(inputs) if isinstance(x, Tensor))]:
        if t.device.type != "cpu":
            raise ValueError(f"module and inputs have to be on the CPU, where they are predicted; one is on {t.device}")
    if attention is not None and attention not in ATTENTIONS:
        raise ValueError(f"attention: {attention!r}; right are {', '.join(ATTENTIONS)}")
    names = {name for name, _ in module.named_modules()}
    for what, keys in (("plans", [] if isinstance(plans, str) else plans), ("feed", feed)):
        for key in keys:
            if isinstance(key, str) and key not in names:
                raise ValueError(f"{what}: the module has no part {key!r}")
            if not isinstance(key, str) and (what == "feed" or not isinstance(key, tuple) or len(key) != 3):
                raise TypeError(f"{what}: {key!r} is no name of a module" + (" and no (m, n, k)" if what == "plans" else ""))


def predict(module: torch.nn.Module, *inputs: Any, plans: Any = None, attention: str | None = None, feed: Any = None,
            account: bool = False, allow_other: bool = False, **kwargs: Any) -> Any:  # fmt: skip
    """What module(*inputs, **kwargs) returns on an H200 under PyTorch 2.11 in eager mode, computed on the CPU: every bit, where the plans of its
    products are right.

    Which plan cuBLAS chooses for a product cannot be known from its shape alone: where plans says nothing, one is assumed and
    the account says so. That is one chain of tensor-core instructions over K (FP32: of FMAs, or TF32 where
    torch.backends.cuda.matmul.allow_tf32 is set); plans: another plan as a text for all, or by module name or (m, n, k), as
    narrow.validate() finds them. attention: "cudnn", "flash2", "efficient" or "math"; by default the first that torch would
    try and sdpa_kernel() allows, on an H200 cudnn. feed: what modules returned on the GPU, by name: a tensor (a tuple, or a
    list with one of them for each call), used instead of running them. account=True returns (output, Account): which
    operations there were, how many, and how each was computed.

    An operation whose bits are not known is an error that names it; with allow_other=True the CPU computes it, and the
    account lists it (without account: a warning). The forward runs under no_grad. Autocast, backward passes and
    compiled modules are not predicted. The module and its inputs stay on the CPU, and a tensor that the forward makes counts
    as one of the GPU. Names of arguments that predict() has itself cannot be passed on by name.

    >>> import torch
    >>> narrow.torch.predict(torch.nn.Linear(2, 1).bfloat16(), torch.ones(1, 2).bfloat16()).dtype
    torch.bfloat16
    """
    plans, feed = {} if plans is None else plans, {} if feed is None else feed
    _check(module, (inputs, kwargs), plans, attention, feed)
    _check_autocast()
    p = Prediction(module, plans, attention, feed, allow_other)
    with torch.no_grad(), _fed(p, module), _followed(p), _without_autocast(), Operations(p), p.functions:
        output = module(*inputs, **kwargs)
    rows = p.told()
    if account:
        return output, rows
    if rows.left:
        warnings.warn(f"predict: left to the CPU: {', '.join(dict.fromkeys(rows.left))}; the answer is no prediction", stacklevel=2)
    return output
