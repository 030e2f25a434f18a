"""A model computed in the formats of a recipe, forward and backward."""

from __future__ import annotations

import functools
import re
import types
import warnings
import weakref
from typing import Any, Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .. import _narrow
from . import _operations as ops
from ._precision import Delayed, Policy, Precision, seed_of

ACTIVATIONS = ("relu", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "softplus", "hardswish", "hardtanh", "relu6")


class Emulation:
    """What emulate() did to a model. `with model.narrow_emulation:` covers operations outside of its forward (the loss)."""

    def __init__(self, model: nn.Module, policy: Policy, layers: list[tuple[re.Pattern[str], Policy | None]],
                 logits: re.Pattern[str] | None, attention: str | None, seed: int, narrow: bool) -> None:  # fmt: skip
        self.narrow = narrow
        self.model, self.recipe, self.seed, self.step = model, policy, seed, 0
        self.covered: dict[str, str] = {}  # what was computed by a policy so far: place and operation
        self.observer: Callable[..., None] | None = None  # observer(place, operation, role, product, x, operand)
        self._layers, self._logits, self._attention = layers, logits, attention
        self._names = {id(p): name for name, p in model.named_parameters(remove_duplicate=False)}
        self._states: dict[str, Delayed] = {}
        self._counts: dict[tuple[str, bool], int] = {}
        self._path: list[str] = []
        self._after_softmax: set[str] = set()
        self._saw_gradients = False
        self._mode = _Mode(self)
        self._handles: list[Any] = []
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}  # Kahan: the parameter before the step, and its compensation

    # --- places and their policies ---

    def policy_of(self, name: str) -> Policy | None:
        for pattern, policy in self._layers:
            if pattern.search(name):
                return policy
        return self.recipe

    def site(self, operation: str, weight: Tensor | None = None) -> ops.Site | None:
        """The operation at this place of the model; None where nothing is rounded."""
        path = self._path[-1] if self._path else ""
        name = self._names.get(id(weight), path) if weight is not None else path
        name = name.removesuffix(".weight") or "model"
        if operation == "linear" and self._logits is not None and self._logits.fullmatch(name):
            operation = "logits"
        policy = self.policy_of(name)
        if policy is None or policy.operations[operation].is_exact:
            return None
        self.covered[f"{name}: {operation}"] = policy.name
        # Recomputed in the backward pass (checkpointing), the same call has the same random bits.
        key = (f"{name}.{operation}", torch._C._current_graph_task_id() != -1)
        call = self._counts[key] = self._counts.get(key, 0) + 1
        step = self.step

        def delayed(tensor: str, precision: Precision) -> Delayed:
            if tensor not in self._states:
                self._states[tensor] = Delayed(policy.delayed, _largest(precision.format))
            self._saw_gradients |= tensor.endswith(".gradients")
            return self._states[tensor]

        seed = lambda tensor: seed_of(self.seed, step, name, operation, call, tensor)
        return ops.Site(name, operation, policy.operations[operation], seed, delayed, self.observer, self.narrow)

    # --- steps ---

    def end_step(self) -> None:
        """A step is over: delayed scales follow its amaxes. Called by itself where emulate() knows the optimizer, else
        when the model is called in training after a backward pass."""
        for state in self._states.values():
            state.end_step()
        self._counts.clear()
        self._saw_gradients = False
        self.step += 1

    def _round_in_place(self, tensors: Iterable[tuple[str, Tensor]], role: str) -> None:
        with torch.no_grad():
            for name, t in tensors:
                policy = self.policy_of(name)
                if policy is not None and t.is_floating_point() and not policy.training[role].is_exact:
                    seed = lambda: seed_of(self.seed, self.step, name, role)
                    t.copy_(policy.training[role].round(t.detach(), seed))

    def _parameters(self) -> Iterable[tuple[str, Tensor]]:
        return self.model.named_parameters()

    def _before_step(self, *_: Any) -> None:
        for name, p in self._parameters():
            policy = self.policy_of(name)
            if policy is not None and policy.training["kahan"]:
                compensation = self._kept[id(p)][1] if id(p) in self._kept else torch.zeros_like(p)
                self._kept[id(p)] = p.detach().clone(), compensation

    def _after_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """What the optimizer computed in FP32 goes back into the formats of the recipe."""
        with torch.no_grad():
            for name, p in self._parameters():
                if id(p) not in self._kept:
                    continue
                # y = u + c; p' = round(p + y); c' = round(y - (p' - p))
                before, compensation = self._kept[id(p)]
                role: Precision = self.policy_of(name).training["parameters"]  # type: ignore[union-attr]
                seed = lambda: seed_of(self.seed, self.step, name, "parameters")
                y = (p - before) + compensation
                after = role.round(before + y, seed)
                self._kept[id(p)] = before, role.round(y - (after - before), seed)
                p.copy_(after)
        self._round_in_place(((n, p) for n, p in self._parameters() if id(p) not in self._kept), "parameters")
        states = [
            (self._names.get(id(p), ""), t)
            for p, state in optimizer.state.items()
            for t in state.values()
            if isinstance(t, Tensor) and t.ndim > 0
        ]
        self._round_in_place(states, "optimiser_state")
        self.end_step()

    # --- hooks ---

    def attach(self, optimizer: torch.optim.Optimizer | None) -> None:
        for name, module in self.model.named_modules():
            enter, leave = self._hooks(name)
            self._handles.append(module.register_forward_pre_hook(enter))
            self._handles.append(module.register_forward_hook(leave, always_call=True))
        self._round_in_place(self._parameters(), "parameters")
        alive = weakref.ref(self)  # a parameter keeps its hooks where the garbage collector does not look

        def accumulated(name: str, p: Tensor) -> None:
            if (e := alive()) is not None:
                e._round_in_place([(name, p.grad)], "gradient_accumulation")

        for name, p in self._parameters():
            policy = self.policy_of(name)
            if p.requires_grad and policy is not None and not policy.training["gradient_accumulation"].is_exact:
                self._handles.append(p.register_post_accumulate_grad_hook(functools.partial(accumulated, name)))
        if optimizer is not None:
            self._handles.append(optimizer.register_step_pre_hook(self._before_step))
            self._handles.append(optimizer.register_step_post_hook(self._after_step))
        self._has_optimizer = optimizer is not None

    def _hooks(self, name: str) -> tuple[Callable, Callable]:
        def enter(module: nn.Module, _: Any) -> None:
            if torch.compiler.is_compiling():
                raise RuntimeError("narrow.torch.emulate: torch.compile does not see what a recipe rounds; compile without emulate, "
                                   "or train the model as it is")  # fmt: skip
            if not self._path:
                self._begin_forward(module)
            self._path.append(name)

        def leave(*_: Any) -> None:
            if not self._path or self._path[-1] != name:  # refused on the way in
                return
            self._path.pop()
            self._after_softmax.discard(name)
            if not self._path:
                self._mode.__exit__(None, None, None)

        return enter, leave

    def _begin_forward(self, module: nn.Module) -> None:
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                raise RuntimeError("narrow.torch.emulate: autocast is on; the recipe says what is cast: leave autocast off")
        if not self._has_optimizer and self._saw_gradients and module.training and torch._C._current_graph_task_id() == -1:
            self.end_step()
        self._mode.__enter__()

    def __enter__(self) -> Emulation:
        self._mode.__enter__()
        self._path.append("")
        return self

    def __exit__(self, *error: Any) -> None:
        self._path.pop()
        self._mode.__exit__(*error)

    def remove(self) -> nn.Module:
        """The model as it was, but for parameters that the recipe keeps in a narrow format."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if getattr(self.model, "narrow_emulation", None) is self:
            del self.model.narrow_emulation
        return self.model

    def __repr__(self) -> str:
        return f"<narrow.torch.Emulation of {type(self.model).__name__} by {self.recipe.name}: {self.recipe.what}>"


def _largest(format: str) -> float:
    import narrow

    return narrow.format(format).max


class _Mode(TorchFunctionMode):
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
        result = NotImplemented if handler is None else handler(self.emulation, *args, **kwargs)
        return func(*args, **kwargs) if result is NotImplemented else result


def _unasked(func: Any) -> Any:
    """A function of torch.nn.functional without its question for overrides: its parts are taken over one by one."""
    names = {**func.__globals__, "has_torch_function": lambda _: False}
    copy = types.FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)
    copy.__kwdefaults__ = func.__kwdefaults__
    return copy


def _is_float(*tensors: Any) -> bool:
    return all(isinstance(t, Tensor) and t.is_floating_point() for t in tensors)


def _linear(e: Emulation, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    site = e.site("linear", weight)
    return NotImplemented if site is None or not _is_float(input) else ops.linear(site, input, weight, bias)


def _addmm(e: Emulation, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, out: Any = None) -> Any:
    """Conv1D of transformers: bias + x w with a parameter w of inputs x outputs."""
    if beta != 1 or alpha != 1 or out is not None or not _is_float(input, mat1, mat2):
        return NotImplemented
    if id(mat2) in e._names and input.ndim == 1:
        site = e.site("linear", mat2)
        return NotImplemented if site is None else ops.linear(site, mat1, mat2.t(), input)
    product = _matmul(e, mat1, mat2)
    return NotImplemented if product is NotImplemented else input + product


def _matmul(e: Emulation, input: Tensor, other: Tensor, **rest: Any) -> Any:
    if rest.get("out") is not None or not _is_float(input, other):
        return NotImplemented
    if id(other) in e._names and other.ndim == 2:  # x @ w
        site = e.site("linear", other)
        return NotImplemented if site is None else ops.linear(site, input, other.t())
    site = _pair_site(e)
    return NotImplemented if site is None else ops.matmul(site, input, other)


def _pair_site(e: Emulation) -> Any:
    """A product of two activations: the scores until the module has taken a softmax, then the context."""
    path = e._path[-1] if e._path else ""
    return e.site("context" if path in e._after_softmax else "scores")


def _baddbmm(e: Emulation, input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1, out: Any = None) -> Any:
    product = _matmul(e, batch1, batch2, out=out)
    return NotImplemented if product is NotImplemented else beta * input + alpha * product


def _einsum(e: Emulation, equation: Any, *operands: Any) -> Any:
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
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
    return ops.attention(*full, query, key, value, attn_mask, dropout_p, is_causal, scale)


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
    "batch_norm": _batch_norm, "cross_entropy": _cross_entropy,
    **{name: _convolution for name in ("conv1d", "conv2d", "conv3d")},
    **{name: _matmul for name in ("matmul", "__matmul__", "mm", "bmm")},
    **{name: _add for name in ("add", "__add__")},
    **{name: _activation(name) for name in ACTIVATIONS},
}  # fmt: skip


def _last_linear(model: nn.Module) -> str | None:
    names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return names[-1] if names else None


def emulate(model: nn.Module, recipe: Any, *, layers: dict[str, Any] | None = None, products: str | None = None,
            optimizer: torch.optim.Optimizer | None = None, logits: str | None = "last", attention: str | None = None,
            dtypes: str = "wide", seed: int = 0) -> nn.Module:  # fmt: skip
    """The model, which from now on computes in the formats of a recipe, forward and backward; model.narrow_emulation.remove()
    ends it.

    recipe: a name of `narrow train --list-recipes`, a JSON file or a dict (`narrow train --print-recipe fp8-current` is a
    start). layers: {regex on the names of layers: another recipe, or None for none}; the first that is found counts.
    products: "hopper.wgmma" sums as that tensor core does, bit for bit and slowly. optimizer: parameters and its state go
    into the recipe's formats after every step, which recipes without master weights need. logits: the last linear (by
    default the one registered last), which recipes keep wider: a regex, or None. attention: "fused" is torch's own kernel in
    FP16 or BF16 (the default on CUDA where the recipe has attention as autocast does), "parts" rounds between its parts.
    dtypes: "wide" leaves tensors in the dtype of the model, whatever they hold; "narrow" makes those that the recipe has in
    FP16 or BF16 tensors of that dtype, as autocast does: faster on a GPU, but gradients that reach them are rounded to it
    before their own role is, and operations that no recipe names compute in it.

    Emulated are linear, matmul, bmm, einsum, convolution, attention, softmax, norms, activations, embeddings, sums of
    activations of one shape, and the loss inside forward or `with model.narrow_emulation:`. The arithmetic of the optimizer
    itself, sums over ranks and clipping stay torch's. Leave autocast off; gradient checkpointing of modules and DDP work,
    torch.compile does not, and says so. A loss scaler is yours (model.narrow_emulation.recipe.loss_scaler names it).

    >>> import torch
    >>> m = narrow.torch.emulate(torch.nn.Linear(2, 1, bias=False), "fp8-current", logits=None)
    >>> m.narrow_emulation.recipe.name
    'fp8-current'
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: a torch.nn.Module is needed, not {type(model).__name__}")
    if hasattr(model, "_orig_mod"):
        raise TypeError("model: compiled by torch.compile, which does not see what a recipe rounds; give the model itself")
    if hasattr(model, "narrow_emulation"):
        raise ValueError("model: it is emulated already; model.narrow_emulation.remove() ends that")
    if attention not in (None, "fused", "parts"):
        raise ValueError(f"attention: {attention!r}; right are None, 'fused' and 'parts'")
    if dtypes not in ("wide", "narrow"):
        raise ValueError(f"dtypes: {dtypes!r}; right are 'wide' and 'narrow'")
    policy = Policy(recipe, products)
    rows = [(_regex(word, "layers"), None if r is None else Policy(r, products)) for word, r in (layers or {}).items()]
    last = _last_linear(model) if logits == "last" else logits
    pattern = None if last is None else _regex(re.escape(last) if logits == "last" else last, "logits")
    e = Emulation(model, policy, rows, pattern, attention, seed, dtypes == "narrow")
    narrow_roles = [name for name, p in policy.training.items() if isinstance(p, Precision) and not p.is_exact]
    if optimizer is None and ("parameters" in narrow_roles or "optimiser_state" in narrow_roles):
        warnings.warn(f"narrow.torch.emulate: {policy.name} rounds {', '.join(narrow_roles)} after every step; without optimizer= "
                      "only the parameters are rounded, now", stacklevel=2)  # fmt: skip
    e.attach(optimizer)
    model.narrow_emulation = e
    return model


def _regex(word: Any, argument: str) -> re.Pattern[str]:
    try:
        return re.compile(word)
    except (re.error, TypeError) as error:
        raise ValueError(f"{argument}: {word!r} is no regular expression: {error}") from None


def recipes() -> list[str]:
    """The names that emulate() takes."""
    return _narrow.recipe_names()
