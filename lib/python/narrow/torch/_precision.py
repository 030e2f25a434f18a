"""How tensors lose bits under a recipe: roles of operations as the trainer's JSON names them, applied to torch tensors."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np
import torch
from torch import Tensor

import narrow

from .. import _narrow
from .._arrays import plan
from .._device import KERNELS

WORDS = {"fp32": "f32", "fp16": "f16"}  # as the names of product models spell formats; the others are the same
CARRIERS = {"bf16": torch.bfloat16, "fp16": torch.float16}
WORDS_OF = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}  # of the kernels around a product


class Factor(NamedTuple):
    """An operand as a product takes it: its values, and what the product is multiplied by afterwards."""

    values: Tensor
    decode: Any = None  # a number, a tensor of one, or None

    def turned(self) -> Factor:
        return Factor(self.values.transpose(-1, -2), self.decode)


class Precision:
    """One role: a format, its cast, and a scale where it is an operand of a product."""

    def __init__(self, spec: Any) -> None:
        spec = {"format": spec} if isinstance(spec, str) else spec
        self.format: str = spec["format"]
        self.scaling: str = spec.get("scaling", "none")
        cast = (spec.get("rounding"), spec.get("overflow"), spec.get("subnormals"), spec.get("random_bits"))
        self.is_exact = self.format == "fp32" and self.scaling == "none"
        self.plan = plan(self.format, None, *cast)
        self.words = dict(zip(("rounding", "overflow", "subnormals", "random_bits"), cast))
        self.is_block = self.scaling not in ("none", "tensor_current", "tensor_delayed")
        self.blocks = None
        if self.scaling not in ("none", "tensor_delayed"):
            self.blocks = _narrow.operand_scaling(self.format, self.scaling, spec.get("rule"))
        # What multiplies at the speed of tensor cores without another rounding.
        fits = self.blocks.fits_bf16 if self.blocks else self.plan.fits(plan("bf16"))
        self.carrier = torch.bfloat16 if fits else CARRIERS.get(self.format, torch.float32)
        self.is_stochastic = self.plan.is_stochastic
        self.is_plain = self.format in CARRIERS and not any(cast) and self.scaling == "none"

    def round(self, x: Tensor, seed: Callable[[], int]) -> Tensor:
        """Every element by itself; not for scaled roles. The result has the dtype of x and may be x."""
        if self.is_exact:
            return x
        if self.is_plain and not (x.is_cuda and x.dtype is torch.float32):  # which a kernel does in one pass
            return x if x.dtype is CARRIERS[self.format] else x.to(CARRIERS[self.format]).to(x.dtype)
        return narrow.round(x, self.format, **self.words, seed=seed() if self.plan.is_stochastic else 0)

    def operand(self, x: Tensor, dim: int, seed: Callable[[], int], state: Delayed | None = None) -> Factor:
        """A matrix whose product sums over its dimension dim, along which blocks run."""
        on_gpu = x.is_cuda
        if on_gpu and self.is_plain:
            return Factor(x.to(CARRIERS[self.format]))
        if not (on_gpu and self.blocks is not None and x.dtype in WORDS_OF):  # a kernel reads those as they lie
            x = x.float()
        if self.scaling == "none":
            return Factor(self.round(x, seed))
        if self.scaling == "tensor_delayed":
            assert state is not None
            scale = state.scale
            state.saw(x)
            values = narrow.round(x * scale, self.format, overflow="saturate")
            return Factor(values.to(self.carrier) if on_gpu else values, float(np.float32(1) / np.float32(scale)))
        word = seed() if self.is_stochastic else None
        assert self.blocks is not None
        if on_gpu:
            return self._operand_on_gpu(x, dim, word)
        matrix = x if dim in (-1, x.ndim - 1) else x.transpose(-1, -2)
        matrix = matrix.contiguous()
        out = torch.empty_like(matrix)
        flat = matrix.shape if matrix.ndim == 2 else (1, matrix.numel())
        decode = _narrow.scale_operand(self.blocks, matrix.reshape(flat).numpy(), out.reshape(flat).numpy(), word)
        return Factor(out if dim in (-1, x.ndim - 1) else out.transpose(-1, -2), decode)

    def _operand_on_gpu(self, x: Tensor, dim: int, seed: int | None) -> Factor:
        x = x.contiguous()
        out = torch.empty_like(x, dtype=self.carrier)
        decode = torch.empty(2, device=x.device)  # the amax of the tensor, and what multiplies the product
        rows, cols = (x.shape[0], x.shape[1]) if x.ndim == 2 else (1, x.numel())
        stream = torch.cuda.current_stream(x.device).cuda_stream
        KERNELS.scale_operand(self.blocks, x.data_ptr(), WORDS_OF[x.dtype], out.data_ptr(), out.element_size(), rows, cols,
                              dim not in (-1, x.ndim - 1), seed, decode.data_ptr(), x.device.index, stream)  # fmt: skip
        return Factor(out, decode[1] if self.scaling in ("tensor_current", "nvfp4", "nvfp4_16x16") else None)


class Delayed:
    """The scale of a tensor that follows from the amaxes of the steps before."""

    def __init__(self, parameters: dict[str, Any], largest: float) -> None:
        words = {name.replace("_", "-"): float(value) for name, value in parameters.items()}
        self._scaler = narrow.Scaler("te-delayed", {**words, "fp8-max": largest})
        self._amax: Tensor | None = None

    @property
    def scale(self) -> float:
        return self._scaler.scale

    def saw(self, x: Tensor) -> None:
        amax = torch.linalg.vector_norm(x.detach(), float("inf")) if x.numel() else x.new_zeros(())
        self._amax = amax if self._amax is None else torch.maximum(self._amax, amax)

    def end_step(self) -> None:
        if self._amax is not None:
            self._scaler.step(amax=float(self._amax))
        self._amax = None


class OperationPolicy:
    """The roles of an operation and how its products are summed."""

    PRODUCTS = ("forward", "dgrad", "wgrad")

    def __init__(self, spec: dict[str, Any]) -> None:
        self.roles = {name: Precision(part) for name, part in spec.items() if name not in self.PRODUCTS}
        self.products: dict[str, dict[str, str]] = {name: spec[name] for name in self.PRODUCTS if name in spec}
        self.is_exact = all(p.is_exact for p in self.roles.values()) and all(
            p["accumulation"] == "native" for p in self.products.values()
        )

    def __getattr__(self, name: str) -> Precision:
        try:
            return self.__dict__["roles"][name]
        except KeyError:
            raise AttributeError(name) from None


class Policy:
    """A recipe: `narrow train --print-recipe NAME`."""

    def __init__(self, recipe: Any, products: str | None = None) -> None:
        text = json.dumps(recipe) if isinstance(recipe, dict) else str(recipe)
        spec = json.loads(_narrow.recipe_json(text))
        self.name: str = spec["name"]
        self.what: str = spec["what"]
        self.loss_scaler: str = spec["loss_scaler"]
        if products is not None:
            for operation in spec["operations"].values():
                _summed_as(operation, products)
        self.operations = {name: OperationPolicy(part) for name, part in spec["operations"].items()}
        self.training = {name: part if name == "kahan" else Precision(part) for name, part in spec["training"].items()}
        self.delayed: dict[str, Any] = spec["delayed"]


@functools.lru_cache(maxsize=None)
def _model_names() -> frozenset[str]:
    return frozenset(row.name for row in narrow.models())


def _summed_as(operation: dict[str, Any], family: str) -> None:
    """Writes the tensor core's model into each product: "hopper.wgmma" with the formats of the operands."""
    if "forward" not in operation:
        return
    form = lambda role: (operation[role] if isinstance(operation[role], str) else operation[role]["format"])
    other = "weights" if "weights" in operation else "activations"
    pairs = {"forward": ("activations", other), "dgrad": ("gradients", other), "wgrad": ("gradients", "activations")}
    for product, roles in pairs.items():
        a, b = (WORDS.get(form(role), form(role)) for role in roles)
        start = ".".join(family.split(".")[:2])
        end = [name for name in _model_names() if name == family or name.startswith(f"{start}.f32.{a}.{b}")]
        fitting = [name for name in end if f".{a}.{b}" in name]
        if not fitting:
            raise ValueError(f"products: {family} has no model for {a} times {b}; narrow.models() lists them")
        plan = "promote:128" if "wgmma" in start and a in ("e4m3", "e5m2") and product != "forward" else "chain"
        operation[product] = {"accumulation": "model", "model": max(fitting, key=len), "plan": plan}


def turned_by_hadamard(x: Tensor) -> Tensor:
    """A copy in float32 whose runs of 16 rows are turned by the random Hadamard matrix of the trainer's wgrad."""
    x = x.detach()
    if not x.is_cuda:
        out = x.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        _narrow.turn_by_hadamard(out.numpy())
        return out
    x = (x if x.dtype in WORDS_OF else x.float()).contiguous()
    out = torch.empty_like(x, dtype=torch.float32)
    stream = torch.cuda.current_stream(x.device).cuda_stream
    KERNELS.turn_by_hadamard(x.data_ptr(), WORDS_OF[x.dtype], out.data_ptr(), *x.shape, x.device.index, stream)
    return out


def seed_of(*parts: Any) -> int:
    """64 bits that any of the parts changes."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


@contextlib.contextmanager
def full_fp32() -> Iterator[None]:
    """Products of FP32 in FP32, whatever torch is told about TF32; both of its ways to say it are put back."""
    try:
        before, inside = torch.get_float32_matmul_precision(), "highest"
        put: Callable[[str], None] = torch.set_float32_matmul_precision
    except RuntimeError:  # said by torch.backends.cuda.matmul.fp32_precision
        matmul = torch.backends.cuda.matmul
        before, inside = matmul.fp32_precision, "ieee"
        put = lambda word: setattr(matmul, "fp32_precision", word)
    if before == inside:
        yield
        return
    put(inside)
    try:
        yield
    finally:
        put(before)


def multiply(product: dict[str, str], a: Factor, b: Factor, formats: tuple[str, str]) -> Tensor:
    """a times b transposed, summed as the policy says, in float32; not yet times what decodes them."""
    x, y = a.values, b.values.transpose(-1, -2)
    if product["accumulation"] == "native":
        if x.dtype is y.dtype and x.dtype is not torch.float32:
            return (torch.mm if x.ndim == 2 else torch.bmm)(x, y, out_dtype=torch.float32)
        with full_fp32():
            return torch.matmul(x.float(), y.float())
    if product["accumulation"] == "model":
        model, words = product["model"], product["plan"]
    else:
        model, words = ".".join(["software.muladd", *(WORDS.get(f, f) for f in (product["accumulator"], *formats))]), "chain"
    if x.ndim == 2:
        return narrow.matmul(x, y, model=model, plan=words, out_format="fp32")
    return torch.stack([narrow.matmul(p, q, model=model, plan=words, out_format="fp32") for p, q in zip(x, y)])


def finished(d: Tensor, first: Any, second: Any, bias: Tensor | None, to: Precision, seed: Callable[[], int],
             dtype: torch.dtype = torch.float32) -> Tensor:  # fmt: skip
    """A product times what decodes its operands, plus a bias (of the last dimension), rounded, as a dtype that holds it."""
    if to.is_exact and first is None and second is None and bias is None:
        return d.to(dtype)
    if d.is_cuda and not to.is_stochastic and d.is_contiguous() and dtype in WORDS_OF:
        one, two = (None if f is None else torch.as_tensor(f, dtype=torch.float32, device=d.device) for f in (first, second))
        wide = None if bias is None else bias.contiguous()
        out = d if dtype is torch.float32 else torch.empty_like(d, dtype=dtype)
        address = lambda t: 0 if t is None else t.data_ptr()
        stream = torch.cuda.current_stream(d.device).cuda_stream
        cols = d.shape[-1]
        KERNELS.finish_product(d.data_ptr(), out.data_ptr(), WORDS_OF[dtype], d.numel() // max(1, cols), cols, address(one),
                               address(two), address(wide), None if to.is_exact else to.plan, d.device.index, stream)  # fmt: skip
        return out
    d = decoded(d, first, second)
    return to.round(d if bias is None else d.add_(bias), seed).to(dtype)


def decoded(d: Tensor, first: Any, second: Any) -> Tensor:
    """Times both factors at once where their product is a normal number, else one after the other."""
    if first is None and second is None:
        return d
    if not isinstance(first, Tensor) and not isinstance(second, Tensor):
        one, two = np.float32(1 if first is None else first), np.float32(1 if second is None else second)
        with np.errstate(under="ignore", over="ignore"):
            both = one * two
        if np.finfo(np.float32).tiny <= abs(both) < np.inf:
            one, two = both, np.float32(1)
        d = d if one == 1 else d.mul_(float(one))
        return d if two == 1 else d.mul_(float(two))
    p, q = (torch.as_tensor(1.0 if f is None else f, device=d.device) for f in (first, second))
    pq = p * q
    is_normal = (pq.abs() >= torch.finfo(torch.float32).tiny) & pq.isfinite()
    return d.mul_(torch.where(is_normal, pq, p)).mul_(torch.where(is_normal, torch.ones_like(q), q))
