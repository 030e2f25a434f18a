"""Softmax, norms, activations, sums, linear layers and attention as a GPU's kernels compute them, and which kernel did."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from . import _narrow
from ._arrays import DTYPE_OF, F32, decoded, dense, given, number, wrap
from ._arrays import plan as format_plan
from ._device import on_device
from ._products import _asked, _Request, _word
from ._records import Record, Records


def _request(x, w, b, g, target, q, k, v, eps, scale, words, variant, model, x_format, plan=None) -> _Request:
    request = _Request()
    for name, operand in {"x": x, "w": w, "b": b, "g": g, "q": q, "k": k, "v": v}.items():
        request.add(name, operand, x_format)
    if target is not None:
        t = given(target)
        if t.format:
            raise ValueError(f"target: integers are needed, a column for each row of x, and it holds {t.format}")
        request.operands.append(("<target>", dense(t.array), t.type))
        request.words["target"] = "<target>"
    if x is None and q is None and g is not None:  # gradients that ask for nothing else
        request.library = given(g).library
    request.numbers(eps=eps, scale=scale, words=words)
    for name, word in {"variant": variant, "model": model, "plan": plan}.items():
        request.options(**{name: None if word is None else _word(word, name)})
    return request


def _answer(call: Any, name: str, request: _Request, causal: bool) -> Any:
    try:
        return _asked(call, _word(name, "name"), request.operands, request.words, bool(causal))
    except ValueError as error:
        raise ValueError(re.sub(r"; for example \w+ tensors\S*$", "", str(error))) from None


def op(name: str, x=None, w=None, b=None, target=None, eps=None, scale=None, variant=None, q=None, k=None, v=None, causal=False,
       model=None, *, g=None, words=None, x_format=None, plan=None):  # fmt: skip
    """An operation with the bits of the kernel that runs it on a GPU; an array of x's (or q's) library and dtype.

    name: softmax, log_softmax, layer_norm (w, b, eps), rms_norm (w, eps), gelu, gelu_tanh, silu, sum, mean, cross_entropy
    (target), linear (w, b, model), attention (q, k, v, scale, causal); sum_rows, embedding_backward (g, target, words), and the
    backward passes of the others (g, the gradient of the result), as `narrow op` lists them. The last dimension of x is the row.
    variant: a row of `narrow op --list`, for linear a plan of matmul(); default: what torch runs on an H200. plan: the orders of
    the two sums of variant "math" with one head, "split:32/chain". x_format: what integers are codes of.

    >>> narrow.op("softmax", np.float32([[0, 1, 2]]))
    array([[0.09003057, 0.24472848, 0.6652409 ]], dtype=float32)
    """
    request = _request(x, w, b, g, target, q, k, v, eps, scale, words, variant, model, x_format, plan)
    codes, format, shape = _answer(_narrow.operate, name, request, causal)
    library = "numpy" if request.library in ("scalar", "numpy scalar") else request.library
    codes = codes.reshape(shape)
    if format == "fp32":
        return wrap(codes.view(np.float32), "numpy" if library == "ml_dtypes" else library)
    if format == "bf16" and library == "numpy":  # codes were given, and numpy has no dtype for the result
        return decoded(format_plan(format), codes, F32)
    return wrap(codes, library, DTYPE_OF[format])


class OperationValidation:
    """Which variant of an operation gave a result. exact: every bit; candidates: all that were tried, the nearest first."""

    def __init__(self, record: dict, text: str) -> None:
        self.record, self._text = Record(record), text
        for key in ("exact", "operation", "variant", "kernel", "equal_count", "total", "max_ulp"):
            setattr(self, key, record[key])
        self.candidates = Records(Record(row) for row in record["candidates"])
        self.first_difference = None if record["first_difference"] is None else Record(record["first_difference"])

    exact: bool
    operation: str
    variant: str
    kernel: str
    equal_count: int
    total: int
    max_ulp: int

    def report(self) -> str:
        """What `narrow validate --op` prints."""
        return self._text

    def __repr__(self) -> str:
        return f"<narrow.OperationValidation: {self._text.splitlines()[0]}>"


def validate_op(name: str, d, x=None, w=None, b=None, target=None, eps=None, scale=None, variant=None, q=None, k=None, v=None,
                causal=False, model=None, *, g=None, words=None, x_format=None, out_format=None, gpu=None) -> OperationValidation:  # fmt: skip
    """Which variant of an operation turns these operands into this d, bit for bit; else the nearest, and how far it is.

    Arguments as in op(). variant: only this one is tried. out_format: what d holds, where its dtype does not say. linear is a
    search as of validate(): its variant is "MODEL, PLAN", and gpu says whose arithmetic is tried first.

    >>> x = np.random.default_rng(0).standard_normal((4, 100), np.float32)
    >>> narrow.validate_op("softmax", narrow.op("softmax", x), x).variant
    'torch'
    """
    if d is None:
        raise TypeError("d: the result is missing")
    request = _request(x, w, b, g, target, q, k, v, eps, scale, words, variant, model, x_format)
    if name == "linear" and gpu is None and (there := on_device(d)) is not None and _narrow.knows_gpu(there.gpu):
        gpu = there.gpu
    request.options(gpu=gpu)
    request.add("d", d, out_format)
    return OperationValidation(*_answer(_narrow.validate_operation, name, request, causal))


# For narrow.torch alone, which has tensors of torch in its hands.


def attention_backward(q: Any, k: Any, v: Any, g: Any, *, causal: bool, scale: float | None, variant: str) -> tuple[Any, Any, Any]:
    """Gradients of q, k and v [batch, heads, length, dimension] of FP16 or BF16 in C order, where g is that of the result."""
    arrays = [given(t) for t in (q, k, v, g)]
    sizes = [q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3]]
    codes = _narrow.attention_backward(variant, arrays[0].format, sizes, *(dense(a.array) for a in arrays), causal, scale)
    return tuple(wrap(c.reshape(t.shape), a.library, DTYPE_OF[a.format]) for c, t, a in zip(codes, (q, k, v), arrays))  # type: ignore[return-value]


def adamw_step(p: Any, g: Any, m: Any, v: Any, *, step: int, fused: bool, lr: float, beta1: float, beta2: float, eps: float,
               weight_decay: float) -> None:  # fmt: skip
    """A step of AdamW on tensors of torch, in place."""
    wide = [t.detach().float().contiguous().clone() for t in (p, g, m, v)]
    arrays = [t.numpy().reshape(-1) for t in wide]
    _narrow.adamw_step(given(p.detach()).format, fused, step, [lr, beta1, beta2, eps, weight_decay], *arrays)
    for t, w in ((p, wide[0]), (m, wide[2]), (v, wide[3])):
        t.detach().copy_(w)


def grad_norm(tensors: list[Any]) -> Any:
    """torch.nn.utils.get_total_norm of tensors of torch."""
    norm = _narrow.grad_norm(given(tensors[0]).format, [t.float().contiguous().numpy().reshape(-1) for t in tensors])
    return tensors[0].new_tensor(norm).reshape(())
