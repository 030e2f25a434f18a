"""Operations of a model as a policy computes them, forward and backward.

  forward   y  = f(activations, weights)   -> output
  backward  dx = f'(gradients, weights)    -> input_gradients
            dw = f'(gradients, activations) -> weight_gradients
"""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ._precision import CARRIERS, Delayed, Factor, OperationPolicy, Precision, decoded, finished, multiply, turned_by_hadamard
from ._recorder import shown


class Site:
    """One operation at one place of a model, in one call: its policy, its seeds, what it remembers."""

    def __init__(self, name: str, operation: str, policy: OperationPolicy, seed: Callable[[str], int],
                 delayed: Callable[[str, Precision], Delayed], saw: Callable[..., None] | None = None,
                 narrow: bool = False) -> None:  # fmt: skip
        self.name, self.operation, self.policy, self.narrow = shown(name), operation, policy, narrow
        self._seed, self._delayed, self._saw = seed, delayed, saw

    def dtype(self, role: str, like: Tensor) -> torch.dtype:
        """Of what has this role: that of the tensor it came from, or the format's own where dtypes are narrow."""
        if not self.narrow:
            return like.dtype
        p: Precision = getattr(self.policy, role)
        return CARRIERS[p.format] if p.is_plain else torch.float32

    def round(self, x: Tensor, role: str, tensor: str = "") -> Tensor:
        return getattr(self.policy, role).round(x, lambda: self._seed(f"{tensor}.{role}"))

    def operand(self, x: Tensor, role: str, dim: int, product: str, tensor: str = "") -> Factor:
        """x as an operand of a product. Where the recipe is watched (Emulation.observer), what it became is shown."""
        p: Precision = getattr(self.policy, role)
        state = self._delayed(f"{self.name}{tensor}.{role}", p) if p.scaling == "tensor_delayed" else None
        factor = p.operand(x, dim, lambda: self._seed(f"{tensor}.{role}.{product}"), state)
        if self._saw is not None:
            self._saw(self.name + tensor, self.operation, role, product, x, factor)
        return factor

    def shown(self, x: Tensor, role: str, product: str, factor: Factor, tensor: str = "") -> Factor:
        """An operand that serves a second product as it is."""
        if self._saw is not None:
            self._saw(self.name + tensor, self.operation, role, product, x, factor)
        return factor

    def multiply(self, product: str, a: Factor, b: Factor, roles: tuple[str, str], to: str, dtype: torch.dtype,
                 tensor: str = "", bias: Tensor | None = None) -> Tensor:  # fmt: skip
        """The product in the format of the role that it becomes."""
        formats = tuple(getattr(self.policy, role).format for role in roles)
        d = multiply(self.policy.products[product], a, b, formats)
        return self.finish(d, a.decode, b.decode, to, dtype, tensor, bias)

    def finish(self, d: Tensor, first: Any, second: Any, to: str, dtype: torch.dtype, tensor: str = "",
               bias: Tensor | None = None) -> Tensor:  # fmt: skip
        """A product times what decodes its operands, plus a bias of its last dimension, in the format of a role."""
        if bias is not None:
            bias = self.round(bias.float(), "output", ".bias")
            inside: Precision = self.policy.arithmetic
            if not inside.is_exact:
                d = inside.round(decoded(d, first, second), lambda: 0)
                return self.round(inside.round(d.add_(bias), lambda: 0), to, tensor).to(dtype)
        seed = lambda: self._seed(f"{tensor}.{to}")
        return finished(d, first, second, bias, getattr(self.policy, to), seed, dtype)


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, site: Site, forward: str | None, backward: str | None, tensor: str) -> Tensor:
        ctx.site, ctx.role, ctx.tensor, ctx.dtype = site, backward, tensor, x.dtype
        y = x if forward is None else site.round(x, forward, tensor).to(site.dtype(forward, x))
        return y.view_as(y) if y is x else y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        g = g if ctx.role is None else ctx.site.round(g, ctx.role, ctx.tensor)
        return g.to(ctx.dtype), None, None, None, None


def rounded(x: Tensor, site: Site, forward: str | None, backward: str | None, tensor: str = "") -> Tensor:
    """forward: the role of x on its way in; backward: that of its gradient on the way out."""
    exact = lambda role: role is None or getattr(site.policy, role).is_exact
    return x if exact(forward) and exact(backward) else _Round.apply(x, site, forward, backward, tensor)


def element_by_element(site: Site, operation: Callable[..., Tensor], x: Tensor) -> Tensor:
    """An operation without weights: what it takes in, what it gives out, and the same on the way back."""
    y = operation(rounded(x, site, "activations", "input_gradients"))
    return rounded(y, site, "output", "gradients")


def _bias_gradient(site: Site, g: Tensor, like: Tensor) -> Tensor:
    """Scaled operands are for products: then the bias sees the gradient as it came."""
    p: Precision = site.policy.gradients
    g = g.float() if p.scaling != "none" else site.round(g.float(), "gradients")
    return site.round(g.sum(0), "weight_gradients", ".bias").to(like.dtype)


class _Linear(torch.autograd.Function):
    """x: rows x inputs, w: outputs x inputs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None, site: Site) -> Tensor:
        ctx.site, ctx.has_bias = site, bias is not None
        a, b = site.operand(x, "activations", 1, "forward"), site.operand(w, "weights", 1, "forward")
        y = site.multiply("forward", a, b, ("activations", "weights"), "output", site.dtype("output", x), bias=bias)
        # Blocks run along the sum: the other direction begins again from the tensor itself.
        again = [site.policy.activations.is_block, site.policy.weights.is_block]
        ctx.again, ctx.decodes, ctx.dtypes = again, (a.decode, b.decode), (x.dtype, w.dtype)
        ctx.save_for_backward(x if again[0] else a.values, w if again[1] else b.values, bias)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        site: Site = ctx.site
        x, w, bias = ctx.saved_tensors

        def other(kept: Tensor, i: int, role: str, product: str) -> Factor:
            if ctx.again[i]:
                return site.operand(kept, role, 0, product)
            return site.shown(kept, role, product, Factor(kept, ctx.decodes[i]))

        dx = dw = db = None
        twice = site.policy.gradients.is_block
        across: Any = site.operand(g, "gradients", 1, "dgrad") if ctx.needs_input_grad[0] or not twice else None
        if ctx.needs_input_grad[0]:
            w_down = other(w, 1, "weights", "dgrad").turned()
            dx = site.multiply("dgrad", across, w_down, ("gradients", "weights"), "input_gradients", ctx.dtypes[0])
        if ctx.needs_input_grad[1]:
            if site.policy.products["wgrad"].get("hadamard"):
                g_down, x = turned_by_hadamard(g), turned_by_hadamard(x)
            else:
                g_down = g
            down = site.operand(g_down, "gradients", 0, "wgrad") if twice else site.shown(g, "gradients", "wgrad", across)
            x_down, roles = other(x, 0, "activations", "wgrad").turned(), ("gradients", "activations")
            dw = site.multiply("wgrad", down.turned(), x_down, roles, "weight_gradients", ctx.dtypes[1])
        if ctx.has_bias and ctx.needs_input_grad[2]:
            db = _bias_gradient(site, g, bias)
        return dx, dw, db, None


def linear(site: Site, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    return _Linear.apply(flat, w, bias, site).reshape(*x.shape[:-1], w.shape[0])


class _Pairs(torch.autograd.Function):
    """Many small products a b^T of two activations: batch x m x k and batch x n x k. Nothing here is scaled in blocks."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, site: Site, names: tuple[str, str]) -> Tensor:
        ctx.site, ctx.names, ctx.dtypes = site, names, (a.dtype, b.dtype)
        p, q = (site.operand(t, "activations", -1, "forward", name) for t, name in zip((a, b), names))
        ctx.decodes = p.decode, q.decode
        ctx.save_for_backward(p.values, q.values)
        return site.multiply("forward", p, q, ("activations", "activations"), "output", site.dtype("output", a))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        site: Site = ctx.site
        p, q = (Factor(t, decode) for t, decode in zip(ctx.saved_tensors, ctx.decodes))
        d = site.operand(g, "gradients", -1, "dgrad")
        da = db = None
        if ctx.needs_input_grad[0]:
            q = site.shown(q.values, "activations", "dgrad", q, ctx.names[1])
            roles = ("gradients", "activations")
            da = site.multiply("dgrad", d, q.turned(), roles, "input_gradients", ctx.dtypes[0], ctx.names[0])
        if ctx.needs_input_grad[1]:
            d = site.shown(g, "gradients", "wgrad", d)
            p = site.shown(p.values, "activations", "wgrad", p, ctx.names[0])
            roles = ("gradients", "activations")
            db = site.multiply("wgrad", d.turned(), p.turned(), roles, "input_gradients", ctx.dtypes[1], ctx.names[1])
        return da, db, None, None


def matmul(site: Site, a: Tensor, b: Tensor, names: tuple[str, str] = (".left", ".right")) -> Tensor:
    """torch.matmul of two activations."""
    if a.ndim == 1:
        return matmul(site, a[None], b, names)[..., 0, :]
    if b.ndim == 1:
        return matmul(site, a, b[:, None], names)[..., 0]
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    left = a.expand(*batch, m, k).reshape(-1, m, k)
    right = b.transpose(-1, -2).expand(*batch, n, k).reshape(-1, n, k)
    return _Pairs.apply(left, right, site, names).reshape(*batch, m, n)


class _Convolution(torch.autograd.Function):
    """Operands are scaled as whole tensors, so that a window holds the numbers that the tensor holds."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None, site: Site, how: tuple) -> Tensor:
        a, b = site.operand(x, "activations", -1, "forward"), site.operand(w, "weights", -1, "forward")
        ctx.site, ctx.how, ctx.has_bias, ctx.dtypes = site, how, bias is not None, (x.dtype, w.dtype)
        ctx.decodes = a.decode, b.decode
        ctx.save_for_backward(a.values, b.values, bias)
        stride, padding, dilation, groups = how
        ctx.places = x.ndim - 2
        y = torch.convolution(
            a.values.float(), b.values.float(), None, stride, padding, dilation, False, [0] * ctx.places, groups
        )
        y = site.finish(y.movedim(1, -1), a.decode, b.decode, "output", site.dtype("output", x), bias=bias)
        return y.movedim(-1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        site: Site = ctx.site
        x, w, bias = ctx.saved_tensors
        g = g.float()
        d = site.operand(g, "gradients", -1, "dgrad")
        stride, padding, dilation, groups = ctx.how
        wanted = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], False]
        dx, dw, _ = torch.ops.aten.convolution_backward(
            d.values.float(), x.float(), w.float(), None, stride, padding, dilation, False, [0] * ctx.places, groups, wanted
        )
        if dx is not None:
            site.shown(w, "weights", "dgrad", Factor(w, ctx.decodes[1]))
            dx = site.finish(dx, d.decode, ctx.decodes[1], "input_gradients", ctx.dtypes[0])
        if dw is not None:
            site.shown(g, "gradients", "wgrad", d)
            site.shown(x, "activations", "wgrad", Factor(x, ctx.decodes[0]))
            dw = site.finish(dw, d.decode, ctx.decodes[0], "weight_gradients", ctx.dtypes[1])
        db = None
        if ctx.has_bias and ctx.needs_input_grad[2]:
            db = _bias_gradient(site, g.movedim(1, -1).reshape(-1, g.shape[1]), bias)
        return dx, dw, db, None, None


def _windows(x: Tensor, kernel: list[int], stride: list[int], dilation: list[int]) -> Tensor:
    """What each output sees, row by row: taps, and the channels of each."""
    places = len(kernel)
    for i in range(places):
        x = x.unfold(2 + i, dilation[i] * (kernel[i] - 1) + 1, stride[i])[..., :: dilation[i]]
    order = [0, *range(2, 2 + 2 * places), 1]
    x = x.permute(order)
    return x.reshape(torch.Size(x.shape[: 1 + places]).numel(), torch.Size(x.shape[1 + places :]).numel())


class _UnfoldedConvolution(torch.autograd.Function):
    """The same as products of matrices: for blocks, which run along the sum, and for tensor cores. Each product has
    windows of its own: those of x, and for dx those of the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None, site: Site, how: tuple) -> Tensor:
        stride, padding, dilation, _ = how
        kernel = list(w.shape[2:])
        wide = F.pad(x.float(), [side for p in reversed(padding) for side in (p, p)])
        sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(wide.shape[2:], kernel, stride, dilation)]
        rows = _windows(wide, kernel, stride, dilation)
        a = site.operand(rows, "activations", 1, "forward")
        b = site.operand(w.float().movedim(1, -1).flatten(1), "weights", 1, "forward")
        y = site.multiply("forward", a, b, ("activations", "weights"), "output", site.dtype("output", x), bias=bias)
        ctx.site, ctx.how, ctx.kernel, ctx.has_bias = site, how, kernel, bias is not None
        ctx.save_for_backward(x, w, bias)
        return y.reshape(x.shape[0], *sizes, w.shape[0]).movedim(-1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        site: Site = ctx.site
        x, w, bias = ctx.saved_tensors
        stride, padding, dilation, _ = ctx.how
        g = g.float()
        lines = g.movedim(1, -1).reshape(-1, g.shape[1])
        dx = dw = db = None
        if ctx.needs_input_grad[0]:
            # dx[i] = sum over taps t of g at (i + padding - t dilation) / stride: zeros between the places, and the
            # taps from the last to the first.
            up = g.new_zeros(*g.shape[:2], *[(n - 1) * s + 1 for n, s in zip(g.shape[2:], stride)])
            between: Any = (..., *[slice(None, None, s) for s in stride])
            up[between] = g
            ends = []
            for n, u, k, p, d in zip(x.shape[2:], up.shape[2:], ctx.kernel, padding, dilation):
                left = d * (k - 1) - p
                ends.append((left, n + d * (k - 1) - u - left))
            up = F.pad(up, [side for pair in reversed(ends) for side in pair])
            one = [1] * len(stride)
            taps = torch.Size(ctx.kernel).numel()
            rows = _windows(up, ctx.kernel, one, dilation).unflatten(1, (taps, g.shape[1])).flip(1).flatten(1)
            turned = w.float().transpose(0, 1).movedim(1, -1).flatten(1)
            a, b = site.operand(rows, "gradients", 1, "dgrad"), site.operand(turned, "weights", 1, "dgrad")
            dx = site.multiply("dgrad", a, b, ("gradients", "weights"), "input_gradients", x.dtype)
            dx = dx.reshape(x.shape[0], *x.shape[2:], x.shape[1]).movedim(-1, 1)
        if ctx.needs_input_grad[1]:
            wide = F.pad(x.float(), [side for p in reversed(padding) for side in (p, p)])
            rows, down = _windows(wide, ctx.kernel, stride, dilation), lines
            if site.policy.products["wgrad"].get("hadamard"):
                rows, down = turned_by_hadamard(rows), turned_by_hadamard(down)
            a, b = site.operand(down, "gradients", 0, "wgrad"), site.operand(rows, "activations", 0, "wgrad")
            dw = site.multiply("wgrad", a.turned(), b.turned(), ("gradients", "activations"), "weight_gradients", w.dtype)
            dw = dw.reshape(w.shape[0], *ctx.kernel, w.shape[1]).movedim(-1, 1)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            db = _bias_gradient(site, lines, bias)
        return dx, dw, db, None, None


def convolution(site: Site, x: Tensor, w: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0,
                dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    places = w.ndim - 2
    unfolded = any(getattr(site.policy, role).is_block for role in ("activations", "weights", "gradients")) or any(
        p["accumulation"] != "native" for p in site.policy.products.values()
    )
    if unfolded and groups != 1:
        raise NotImplementedError(f"{site.name}: a convolution in groups whose operands are scaled in blocks, or that is summed as a "
                                  "tensor core; give it another recipe by layers={...}, or none")  # fmt: skip
    each = lambda v: [v] * places if isinstance(v, int) else list(v)
    if isinstance(padding, str):
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(each(dilation), w.shape[2:])]
            x = F.pad(x, [side for t in reversed(total) for side in (t // 2, t - t // 2)])
        padding = 0
    is_single = x.ndim == places + 1
    how = (each(stride), each(padding), each(dilation), groups)
    kind = _UnfoldedConvolution if unfolded else _Convolution
    y = kind.apply(x[None] if is_single else x, w, bias, site, how)
    return y[0] if is_single else y


def _sum(x: Tensor, inside: Callable[[Tensor], Tensor]) -> Tensor:
    """Over the last dimension as the trainer adds: term i joins sum i mod 8, and the eight are joined as a tree."""
    x = F.pad(x, (0, -x.shape[-1] % 8))
    total = torch.zeros_like(x[..., :8])
    for i in range(0, x.shape[-1], 8):
        total = inside(total + x[..., i : i + 8])
    while total.shape[-1] > 1:
        half = total.shape[-1] // 2
        total = inside(total[..., :half] + total[..., half:])
    return total


class _RoundedSoftmax(torch.autograd.Function):
    """Every operation inside is rounded, backward as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, inside: Callable[[Tensor], Tensor]) -> Tensor:
        largest = x.amax(-1, keepdim=True)
        e = inside(torch.exp(inside(x - torch.where(largest.isfinite(), largest, torch.zeros_like(largest)))))
        y = inside(e / _sum(e, inside))
        ctx.inside = inside
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        (y,), r = ctx.saved_tensors, ctx.inside
        mean = _sum(r(y * g), r)
        return r(y * r(g - mean)), None


class _RoundedNorm(torch.autograd.Function):
    """x - mean (not for RMS), over its deviation; every operation inside is rounded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, epsilon: float, centred: bool, r: Callable[[Tensor], Tensor]) -> Tensor:
        n = x.shape[-1]
        d = r(x - r(_sum(x, r) / n)) if centred else x
        inverse = r(1 / r(torch.sqrt(r(r(_sum(r(d * d), r) / n) + epsilon))))
        h = r(d * inverse)
        ctx.r, ctx.centred = r, centred
        ctx.save_for_backward(h, inverse)
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, e: Tensor) -> Any:
        (h, inverse), r, n = ctx.saved_tensors, ctx.r, e.shape[-1]
        mean = r(_sum(e, r) / n) if ctx.centred else 0
        slope = r(_sum(r(e * h), r) / n)
        return r(inverse * r(r(e - mean) - r(h * slope))), None, None, None


def _inside(site: Site) -> Callable[[Tensor], Tensor] | None:
    p: Precision = site.policy.arithmetic
    return None if p.is_exact else lambda x: p.round(x, lambda: 0)


def softmax(site: Site, x: Tensor, dim: int) -> Tensor:
    inside = _inside(site)
    wide = lambda x: torch.float32 if site.narrow else x.dtype

    def plain(x: Tensor) -> Tensor:
        if inside is None:
            return torch.softmax(x.float(), dim).to(wide(x))
        return _RoundedSoftmax.apply(x.float().movedim(dim, -1), inside).movedim(-1, dim).to(wide(x))

    # -inf is a mask, which no format takes away.
    taken = rounded(x, site, "activations", "input_gradients")
    if taken is not x:
        taken = torch.where(x == -math.inf, x, taken)
    return rounded(plain(taken), site, "output", "gradients")


def norm(site: Site, x: Tensor, weight: Tensor | None, bias: Tensor | None, epsilon: float, dims: int, centred: bool) -> Tensor:
    """LayerNorm and RMSNorm over the last dims dimensions."""
    inside = _inside(site)
    weight, bias = (None if t is None else rounded(t, site, "weights", "weight_gradients", name)
                    for t, name in ((weight, ""), (bias, ".bias")))  # fmt: skip
    x = rounded(x, site, "activations", "input_gradients")
    shape = x.shape[x.ndim - dims :]
    if inside is None:
        w, b = (None if t is None else t.float() for t in (weight, bias))
        y = F.layer_norm(x.float(), shape, w, b, epsilon) if centred else F.rms_norm(x.float(), shape, w, epsilon)
    else:
        y = _RoundedNorm.apply(x.float().flatten(-dims), epsilon, centred, inside).reshape(x.shape)
        y = y if weight is None else _RoundResult.apply(y * weight, inside)
        y = y if bias is None else _RoundResult.apply(y + bias, inside)
    return rounded(y if site.narrow else y.to(x.dtype), site, "output", "gradients")


class _RoundResult(torch.autograd.Function):
    """Both ways by one function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, r: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.r = r
        return r(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        return ctx.r(g), None


def inside_rounded(site: Site, operation: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The operation in FP32, its result rounded once where the policy rounds what is inside."""
    inside = _inside(site)

    def run(x: Tensor) -> Tensor:
        # In 16 bits torch computes in FP32 and rounds once, to what the output is.
        if inside is None and site.narrow and x.dtype is not torch.float32 and x.dtype is site.dtype("output", x):
            return operation(x)
        y = operation(x.float()) if inside is None else _RoundResult.apply(operation(x.float()), inside)
        return y if site.narrow else y.to(x.dtype)

    return run


def attention(scores: Site, scale_site: Site, softmax_site: Site, context: Site, q: Tensor, k: Tensor, v: Tensor,
              mask: Tensor | None, dropout: float, is_causal: bool, scale: float | None) -> Tensor:  # fmt: skip
    """softmax(q k^T / sqrt(d)) v, each part by its own policy."""
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    s = matmul(scores, q, k.transpose(-1, -2), (".queries", ".keys"))
    s = element_by_element(scale_site, inside_rounded(scale_site, lambda x: x * factor), s)
    if is_causal:
        seen = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device).tril()
        s = s.masked_fill(~seen, -math.inf)
    if mask is not None:
        s = s.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else s + mask
    p = softmax(softmax_site, s, -1)
    if dropout > 0:
        p = F.dropout(p, dropout)
    return matmul(context, p, v, (".softmax", ".values"))
