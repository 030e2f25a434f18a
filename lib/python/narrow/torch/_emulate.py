"""A model computed in the formats of a recipe, forward and backward."""

from __future__ import annotations

import functools
import re
import warnings
import weakref
from typing import Any, Callable, Iterable

import torch
from torch import Tensor, nn

from .. import _narrow
from . import _operations as ops
from ._functions import Mode
from ._precision import Delayed, Policy, Precision, seed_of
from ._recorder import Hook, shown

NO_COPY = (
    "narrow.torch.emulate: an emulated model is neither copied nor pickled: save its state_dict(); copy it before emulate(), "
    "or after model.narrow_emulation.remove()"
)


class Emulation:
    """What emulate() did to a model. `with model.narrow_emulation:` covers operations outside of its forward (the loss)."""

    def __init__(self, model: nn.Module, policy: Policy, layers: list[tuple[re.Pattern[str], Policy | None]],
                 logits: re.Pattern[str] | None, attention: str | None, seed: int, narrow: bool) -> None:  # fmt: skip
        self.narrow = narrow
        self.model, self.recipe, self.seed, self.step = model, policy, seed, 0
        self.covered: dict[str, str] = {}  # what was computed by a policy so far: place and operation
        self.uncovered: dict[str, str] = {}  # what was not, though it is such an operation
        self.observer: Callable[..., None] | None = None  # observer(place, operation, role, product, x, operand)
        self._layers, self._logits, self._attention = layers, logits, attention
        self._names: dict[int, list[str]] = {}  # of a parameter; tied ones have several
        for name, p in model.named_parameters(remove_duplicate=False):
            self._names.setdefault(id(p), []).append(name)
        self._states: dict[str, Delayed] = {}
        self._counts: dict[tuple[str, bool], int] = {}
        self._path: list[str] = []
        self._after_softmax: set[str] = set()
        self._saw_gradients = False
        self._mode = Mode(self)
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
        names = self._names.get(id(weight), [path]) if weight is not None else [path]
        name = next((n for n in names if n.rpartition(".")[0] == path), names[-1])
        name = "model" if name in ("", "weight") else name.removesuffix(".weight")
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

    def leave(self, function: str, operation: str) -> None:
        """A function of torch that takes no part: noted, and said once, where the recipe rounds such operations."""
        place = self._path[-1] if self._path else ""
        policy = self.policy_of(place)
        if policy is None or policy.operations[operation].is_exact:
            return
        is_new = not any(row.endswith(f": {function}") for row in self.uncovered)
        self.uncovered[f"{shown(place) or 'model'}: {function}"] = operation
        if is_new:
            warnings.warn(f"narrow.torch.emulate: {function} in {shown(place) or 'the model'} computes as torch does: no recipe "
                          "covers it (model.narrow_emulation.uncovered)", stacklevel=4)  # fmt: skip

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
            (self._names.get(id(p), [""])[0], t)
            for p, state in optimizer.state.items()
            for t in state.values()
            if isinstance(t, Tensor) and t.ndim > 0
        ]
        self._round_in_place(states, "optimiser_state")
        self.end_step()

    # --- hooks ---

    def attach(self, optimizer: torch.optim.Optimizer | None) -> None:
        for name, module in self.model.named_modules():
            self._handles.append(module.register_forward_pre_hook(Hook(self._enter, name, refused=NO_COPY)))
            self._handles.append(module.register_forward_hook(Hook(self._leave, name, refused=NO_COPY), always_call=True))
        self._round_in_place(self._parameters(), "parameters")
        alive = weakref.ref(self)  # a parameter keeps its hooks where the garbage collector does not look

        def accumulated(name: str, p: Tensor) -> None:
            if (e := alive()) is not None and p.grad is not None:
                e._round_in_place([(name, p.grad)], "gradient_accumulation")

        for name, p in self._parameters():
            policy = self.policy_of(name)
            if p.requires_grad and policy is not None and not policy.training["gradient_accumulation"].is_exact:
                self._handles.append(p.register_post_accumulate_grad_hook(functools.partial(accumulated, name)))
        if optimizer is not None:
            self._handles.append(optimizer.register_step_pre_hook(self._before_step))
            self._handles.append(optimizer.register_step_post_hook(self._after_step))
        self._has_optimizer = optimizer is not None

    def _enter(self, name: str, module: nn.Module, _: Any) -> None:
        if torch.compiler.is_compiling():
            raise RuntimeError("narrow.torch.emulate: torch.compile does not see what a recipe rounds; compile without emulate, "
                               "or train the model as it is")  # fmt: skip
        if not self._path:
            self._begin_forward(module)
        self._path.append(name)

    def _leave(self, name: str, *_: Any) -> None:
        if not self._path or self._path[-1] != name:  # refused on the way in
            return
        self._path.pop()
        self._after_softmax.discard(name)
        if not self._path:
            self._mode.__exit__(None, None, None)

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

    def __reduce__(self) -> Any:
        raise TypeError(NO_COPY)

    def __repr__(self) -> str:
        return f"<narrow.torch.Emulation of {type(self.model).__name__} by {self.recipe.name}: {self.recipe.what}>"


def _largest(format: str) -> float:
    import narrow

    return narrow.format(format).max


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
    activations of one shape, and the loss inside forward or `with model.narrow_emulation:`. What is made of smaller parts
    (an RMSNorm of pow, mean and rsqrt) is torch's, as are the arithmetic of the optimizer itself, sums over ranks and
    clipping; recurrent layers, transposed convolutions and other products too, with a warning. model.narrow_emulation.covered
    and .uncovered have the lists. Leave autocast off; gradient checkpointing of modules and DDP work,
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
    model.narrow_emulation = e  # type: ignore[assignment]
    return model


def _regex(word: Any, argument: str) -> re.Pattern[str]:
    try:
        return re.compile(word)
    except (re.error, TypeError) as error:
        raise ValueError(f"{argument}: {word!r} is no regular expression: {error}") from None


def recipes() -> list[str]:
    """The names that emulate() takes."""
    return _narrow.recipe_names()
