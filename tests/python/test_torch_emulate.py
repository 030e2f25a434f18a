"""narrow.torch.emulate against the definitions of its recipes: numpy, ml_dtypes' casts, sums in double."""

import copy
import json
import math
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import narrow

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")
nn, F = torch.nn, torch.nn.functional

KINDS = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "int8": 127.0}


def cast(x, format):
    """To nearest even, by ml_dtypes; tf32 by its 10 bits, int8 by rint."""
    x = np.asarray(x, np.float32)
    if format == "fp32":
        return x
    if format == "tf32":
        words = x.view(np.uint32).astype(np.uint64)
        return ((words + 0xFFF + (words >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    if format == "int8":
        return np.clip(np.rint(x), -127, 127).astype(np.float32)
    with np.errstate(over="ignore"):
        return x.astype(KINDS[format]).astype(np.float32)


def saturated(x, format):
    return cast(np.clip(x, -LARGEST[format], LARGEST[format]), format)


def in_blocks(x, rows, cols, scale_of, format):
    """Elements times scales, in tiles that may be cut at the edges."""
    out = np.empty_like(x)
    for i in range(0, x.shape[0], rows):
        for j in range(0, x.shape[1], cols):
            tile = x[i : i + rows, j : j + cols]
            scale = np.float32(scale_of(np.abs(tile).max(initial=0)))
            out[i : i + rows, j : j + cols] = saturated(tile * np.float32(1 / scale), format) * scale
    return out


def mx_scale(amax):
    return 2.0 ** (math.floor(math.log2(amax)) - 8) if amax else 2.0**-127


def block_scale(amax):
    return 1 / 2.0 ** math.floor(math.log2(np.float32(448) / np.float32(amax))) if amax else 1.0


def operand(x, spec, dim):
    """(values, factor) of a matrix whose product sums over dim, from the words of the recipe's JSON."""
    spec = {"format": spec} if isinstance(spec, str) else spec
    format, scaling = spec["format"], spec.get("scaling", "none")
    if scaling == "none":
        return (saturated if spec.get("overflow") == "saturate" else cast)(x, format), np.float32(1)
    if scaling == "tensor_current":
        amax = np.abs(x).max(initial=0)
        scale = np.float32(LARGEST[format]) / np.float32(amax) if amax else np.float32(1)
        return saturated(x * scale, format), np.float32(1) / scale
    matrix = x if dim == 1 else x.T
    if scaling == "mx":
        out = in_blocks(matrix, 1, 32, mx_scale, format)
    else:
        out = in_blocks(matrix, 1 if scaling == "block_1x128" else 128, 128, block_scale, format)
    return out if dim == 1 else out.T, np.float32(1)


def recipe(name):
    return json.loads(narrow._narrow.recipe_json(name))


def dyadic(rng, *shape):
    """Few significant bits around one, and the largest is 7/8: scales are powers of two, sums are exact in any order."""
    x = rng.integers(-6, 7, shape).astype(np.float32) / 8
    x.flat[0] = 7 / 8
    return x


class Seen:
    """What the emulation gave to its products."""

    def __init__(self, model):
        self.rows = {}
        model.narrow_emulation.observer = self

    def __call__(self, place, operation, role, product, x, factor):
        decode = 1.0 if factor.decode is None else float(factor.decode)
        self.rows[place, operation, role, product] = (x.detach().numpy().copy(), factor.values.detach().float().numpy(), decode)


RECIPES = ["tf32", "bf16-amp", "fp16-amp", "bf16-pure", "fp16-pure", "fp8-current", "fp8-block", "mxfp8", "fp8-noscale", "int8",
           "fp8-current-logits"]  # fmt: skip


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("layer", ["linear", "logits"])
def test_operands_and_gradients_of_a_linear_are_those_of_the_recipe(name, layer):
    rng = np.random.default_rng(1)
    x, w, b, g = dyadic(rng, 40, 160), dyadic(rng, 24, 160), dyadic(rng, 24), dyadic(rng, 40, 24)
    model = nn.Linear(160, 24)
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(w)), model.bias.copy_(torch.from_numpy(b))
    model = nn.Sequential(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        narrow.torch.emulate(model, name, logits="0" if layer == "logits" else None)
    seen, spec = Seen(model), recipe(name)["operations"][layer]
    t = torch.from_numpy(x).requires_grad_()
    y = model(t)
    y.backward(torch.from_numpy(g))
    form = lambda role: spec[role] if isinstance(spec[role], str) else spec[role]["format"]
    wanted = {("activations", "forward"): (x, 1), ("weights", "forward"): (w, 1), ("gradients", "dgrad"): (g, 1),
              ("weights", "dgrad"): (w, 0), ("gradients", "wgrad"): (g, 0), ("activations", "wgrad"): (x, 0)}  # fmt: skip
    values = {}
    for (role, product), (data, dim) in wanted.items():
        expected, factor = operand(data, spec[role], dim)
        _, found, decode = seen.rows["0", layer, role, product]
        np.testing.assert_array_equal(found, expected, err_msg=f"{role} of {product}")
        assert decode == factor
        values[role, product] = expected.astype(np.float64), factor
    (a, fa), (w0, fw) = values["activations", "forward"], values["weights", "forward"]
    bias = cast(b, form("output"))
    np.testing.assert_array_equal(y.detach().numpy(), cast(np.float32(a @ w0.T) * (fa * fw) + bias, form("output")))
    (d, fd), (w1, _) = values["gradients", "dgrad"], values["weights", "dgrad"]
    np.testing.assert_array_equal(t.grad.numpy(), cast(np.float32(d @ w1) * (fd * fw), form("input_gradients")))
    (d, _), (a, _) = values["gradients", "wgrad"], values["activations", "wgrad"]
    dw = np.float32(d.T @ a) * (fd * fa)
    np.testing.assert_array_equal(model[0].weight.grad.numpy(), cast(dw, form("weight_gradients")))
    summed = g if "scaling" in spec["gradients"] else operand(g, spec["gradients"], 1)[0]
    np.testing.assert_array_equal(model[0].bias.grad.numpy(), cast(summed.astype(np.float64).sum(0), form("weight_gradients")))


@pytest.mark.parametrize("name", ["tf32", "bf16-amp", "fp16-amp", "fp8-current", "int8", "fp8-noscale"])
@pytest.mark.parametrize("places", [1, 2, 3])
def test_convolutions_take_the_operands_of_the_recipe(name, places):
    rng = np.random.default_rng(2)
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[places - 1]
    layer = kind(4, 6, 3, stride=2, padding=1)
    x, w = dyadic(rng, 2, 4, *[5] * places), dyadic(rng, *layer.weight.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w)), layer.bias.zero_()
    model = narrow.torch.emulate(nn.Sequential(layer), name)
    seen, spec = Seen(model), recipe(name)["operations"]["convolution"]
    t = torch.from_numpy(x).requires_grad_()
    y = model(t)
    g = dyadic(rng, *y.shape)
    y.backward(torch.from_numpy(g))
    flat = lambda a: a.reshape(1, -1)
    q = {}
    for role, data, products in (("activations", x, ("forward", "wgrad")), ("weights", w, ("forward", "dgrad")),
                                 ("gradients", g, ("dgrad", "wgrad"))):  # fmt: skip
        values, factor = operand(flat(data), spec[role], 1)
        for product in products:
            _, found, decode = seen.rows["0", "convolution", role, product]
            np.testing.assert_array_equal(flat(found), values)
            assert decode == factor
        q[role] = torch.from_numpy(values.astype(np.float64).reshape(data.shape)), factor
    form = lambda role: spec[role] if isinstance(spec[role], str) else spec[role]["format"]
    function = (F.conv1d, F.conv2d, F.conv3d)[places - 1]
    (a, fa), (b, fb), (d, fd) = (q[role] for role in ("activations", "weights", "gradients"))
    out = function(a.requires_grad_(), b.requires_grad_(), None, 2, 1)
    out.backward(d)
    single = lambda t, factor, role: cast(t.detach().numpy().astype(np.float32) * factor, form(role))
    np.testing.assert_array_equal(y.detach().numpy(), single(out, fa * fb, "output"))
    np.testing.assert_array_equal(t.grad.numpy(), single(a.grad, fd * fb, "input_gradients"))
    np.testing.assert_array_equal(layer.weight.grad.numpy(), single(b.grad, fd * fa, "weight_gradients"))


@pytest.mark.parametrize("name", ["mxfp8", "fp8-block"])
@pytest.mark.parametrize("how", [{}, {"stride": 2, "padding": 1}, {"stride": 3, "padding": 2, "dilation": 2}])
@pytest.mark.parametrize("places", [1, 2])
def test_blocks_of_convolutions_run_along_the_sum_of_each_product(name, how, places):
    """Windows of x, of the gradient and of turned weights, gathered one number after the other."""
    rng = np.random.default_rng(5)
    layer = (nn.Conv1d, nn.Conv2d)[places - 1](20, 9, 3, **how)
    s, p, d = (how.get(key, default) for key, default in (("stride", 1), ("padding", 0), ("dilation", 1)))
    x, w = dyadic(rng, 2, 20, *[9] * places), dyadic(rng, *layer.weight.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w)), layer.bias.zero_()
    model = narrow.torch.emulate(nn.Sequential(layer), name)
    spec = recipe(name)["operations"]["convolution"]
    t = torch.from_numpy(x).requires_grad_()
    y = model(t)
    g = dyadic(rng, *y.shape)
    y.backward(torch.from_numpy(g))
    taps = list(np.ndindex(*[3] * places))

    def row(data, n, where):
        """The channels at each of these places, zeros outside."""
        inside = lambda at: all(0 <= i < size for i, size in zip(at, data.shape[2:]))
        return np.concatenate([data[(n, slice(None), *at)] if at is not None and inside(at) else np.zeros(data.shape[1], np.float32)
                               for at in where])  # fmt: skip

    seen_by = lambda out: [tuple(o * s - p + k * d for o, k in zip(out, tap)) for tap in taps]

    def reached(at):
        for tap in taps:
            ends = [i + p - k * d for i, k in zip(at, tap)]
            yield tuple(e // s for e in ends) if all(e % s == 0 for e in ends) else None

    outs = list(np.ndindex(*y.shape[2:]))
    windows = np.stack([row(x, n, seen_by(o)) for n in range(2) for o in outs])
    placed = np.stack([row(g, n, reached(i)) for n in range(2) for i in np.ndindex(*x.shape[2:])])
    lines = np.stack([g[(n, slice(None), *o)] for n in range(2) for o in outs])
    flat = np.stack([np.concatenate([w[(o, slice(None), *tap)] for tap in taps]) for o in range(9)])
    turned = np.stack([np.concatenate([w[(slice(None), i, *tap)] for tap in taps]) for i in range(20)])
    product = lambda a, role_a, b, role_b, dim: (operand(a, spec[role_a], dim)[0].astype(np.float64), operand(b, spec[role_b], dim)[0])
    a, b = product(windows, "activations", flat, "weights", 1)
    np.testing.assert_array_equal(y.detach().movedim(1, -1).reshape(-1, 9).numpy(), cast(a @ b.T, "bf16"))
    a, b = product(placed, "gradients", turned, "weights", 1)
    np.testing.assert_array_equal(t.grad.movedim(1, -1).reshape(-1, 20).numpy(), cast(a @ b.T, "bf16"))
    a, b = product(lines, "gradients", windows, "activations", 0)
    found = layer.weight.grad.movedim(1, -1).reshape(9, -1).numpy()
    np.testing.assert_array_equal(found, cast(a.T @ b, "bf16"))


class Products(nn.Module):
    """Attention written out, by one of torch's ways to say it."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, q, k, v):
        if self.way == "sdpa":
            return F.scaled_dot_product_attention(q, k, v)
        if self.way == "matmul":
            s = q @ k.transpose(-1, -2)
            return torch.softmax(s / math.sqrt(q.shape[-1]), -1) @ v
        if self.way == "bmm":
            s = torch.bmm(q, k.transpose(-1, -2))
            return torch.bmm((s / math.sqrt(q.shape[-1])).softmax(-1), v)
        s = torch.einsum("bid,bjd->bij", q, k)
        return torch.einsum("bij,bjd->bid", F.softmax(s / math.sqrt(q.shape[-1]), -1), v)


@pytest.mark.parametrize("name", ["tf32", "bf16-amp", "fp16-amp", "fp8-current", "bf16-pure"])
@pytest.mark.parametrize("way", ["sdpa", "matmul", "bmm", "einsum"])
def test_attention_takes_the_operands_of_the_recipe_in_both_of_its_products(name, way):
    rng = np.random.default_rng(3)
    q, k, v = (torch.from_numpy(rng.standard_normal((2, 5, 4)).astype(np.float32)).requires_grad_() for _ in range(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = narrow.torch.emulate(Products(way), name)
    seen, spec = Seen(model), recipe(name)["operations"]
    y = model(q, k, v)
    y.sum().backward()
    operations = {row[1] for row in seen.rows}
    assert operations == {"scores", "context"}
    for (place, operation, role, product), (x, found, decode) in seen.rows.items():
        if x is found or (role == "activations" and product != "forward"):
            continue
        expected, factor = operand(x.reshape(1, -1), spec[operation][role], 1)
        np.testing.assert_array_equal(found.reshape(1, -1), expected, err_msg=f"{place} {role} {product}")
        assert decode == factor
    format = spec["context"]["output"]
    np.testing.assert_array_equal(y.detach().numpy(), cast(y.detach().numpy(), format))
    if format == "fp32":  # tf32 rounds operands only
        return
    np.testing.assert_array_equal(q.grad.numpy(), cast(q.grad.numpy(), spec["scores"]["input_gradients"]))


def test_an_exact_recipe_changes_no_bit():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    x = torch.randn(2, 5, 16)
    before = layer(x)
    before.sum().backward()
    grads = [p.grad.clone() for p in layer.parameters()]
    layer.zero_grad()
    narrow.torch.emulate(layer, "fp32")
    after = layer(x)
    after.sum().backward()
    assert torch.equal(before, after) and all(torch.equal(a, p.grad) for a, p in zip(grads, layer.parameters()))
    assert layer.narrow_emulation.covered == {}


@pytest.mark.parametrize("name", [n for n in narrow._narrow.recipe_names() if n not in ("mxfp8", "fp8-block")] + ["mxfp8", "fp8-block"])
def test_every_recipe_trains_a_stock_encoder_and_covers_its_products(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    narrow.torch.emulate(model, name, optimizer=optimizer)
    x, target = torch.randn(4, 5, 16), torch.randint(4, (4, 5))
    for _ in range(2):
        optimizer.zero_grad()
        with model.narrow_emulation:
            loss = F.cross_entropy(model(x).flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        assert math.isfinite(loss.item())
    policy = recipe(name)
    exact = lambda o: all(v == "fp32" for v in policy["operations"][o].values() if isinstance(v, str)) and not any(
        isinstance(v, dict) and "format" in v for v in policy["operations"][o].values()
    )
    covered = {row.split(": ")[1] for row in model.narrow_emulation.covered}
    for operation in ("linear", "scores", "context", "logits", "softmax", "norm", "residual", "activation", "loss"):
        assert (operation in covered) == (not exact(operation)), operation
    for role, tensors in (("parameters", list(model.parameters())),
                          ("optimiser_state", [s["exp_avg"] for s in optimizer.state.values()])):  # fmt: skip
        format = policy["training"][role]
        format = format if isinstance(format, str) else format["format"]
        for t in tensors:
            np.testing.assert_array_equal(t.detach().numpy(), cast(t.detach().numpy(), format))


@pytest.mark.parametrize("name", ["bf16-amp", "fp16-amp", "fp8-current", "mxfp8", "fp16-amp-softmax", "tf32", "fp8-current-norm"])
def test_narrow_dtypes_hold_the_numbers_of_wide_ones(name):
    def run(dtypes):
        torch.manual_seed(0)
        model = nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.Conv1d(5, 5, 1), nn.Linear(16, 4))
        narrow.torch.emulate(model, name, dtypes=dtypes)
        x = torch.randn(4, 5, 16, requires_grad=True)
        y = model(x)
        y.float().square().sum().backward()
        return y, [x.grad, *(p.grad for p in model.parameters())]

    (wide, grads), (thin, others) = run("wide"), run("narrow")
    output = recipe(name)["operations"]["logits"]["output"]
    assert wide.dtype is torch.float32 and thin.dtype is {"bf16": torch.bfloat16, "fp16": torch.float16}.get(output, torch.float32)
    assert torch.equal(wide, thin.float())
    # What reaches an output of BF16 is BF16, before it is scaled to FP8.
    twice = not isinstance(recipe(name)["operations"]["linear"]["gradients"], str)
    assert all(a.dtype is b.dtype and (twice or torch.equal(a, b)) for a, b in zip(grads, others))


def test_a_residual_is_one_however_it_is_written():
    def in_place(x, f):
        x = x * 1  # a copy, as a parameter or an input cannot be written
        x += f
        return x

    def run(sum_of):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(16, 16)

            def forward(self, x):
                return sum_of(x, self.inner(x))

        torch.manual_seed(0)
        model, x = narrow.torch.emulate(Block(), "fp16-amp-residual", logits=None), torch.randn(4, 16, requires_grad=True)
        y = model(x)
        y.square().sum().backward()
        assert "model: residual" in model.narrow_emulation.covered
        return y, x.grad, model.inner.weight.grad

    ways = [torch.add, lambda x, f: x + f, lambda x, f: x.add(f), in_place, lambda x, f: (x * 1).add_(f)]
    first, *others = map(run, ways)
    np.testing.assert_array_equal(first[0].detach().numpy(), cast(first[0].detach().numpy(), "fp16"))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other))


def test_products_that_no_recipe_covers_are_named():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.out = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 8)

        def forward(self, x):
            return self.out(self.inner(x)[0])

    model = narrow.torch.emulate(Both(), "fp8-current", logits=None)
    with pytest.warns(UserWarning, match="lstm in inner computes as torch does"):
        model(torch.randn(2, 3, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.randn(2, 3, 8))  # said once
        assert model.narrow_emulation.uncovered == {"inner: lstm": "linear"}
        narrow.torch.emulate(Both(), "fp8-current", layers={"inner": None})(torch.randn(2, 3, 8))
        narrow.torch.emulate(Both(), "fp32")(torch.randn(2, 3, 8))


def test_a_weight_that_is_turned_is_a_weight():
    class Tied(nn.Module):
        def __init__(self, way):
            super().__init__()
            torch.manual_seed(0)
            self.w, self.way = nn.Parameter(torch.randn(24, 16)), way

        def forward(self, x):
            return self.way(x, self.w)

    x = torch.linspace(-3, 3, 80).reshape(5, 16)
    ways = [F.linear, lambda x, w: x @ w.t(), lambda x, w: torch.mm(x, w.T), lambda x, w: torch.addmm(w.new_zeros(24), x, w.t())]
    results = []
    for way in ways:
        model = narrow.torch.emulate(Tied(way), "fp8-current", logits=None)
        results.append(model(x))
        assert list(model.narrow_emulation.covered) == ["w: linear"]
        with torch.no_grad():
            assert torch.equal(model(x), results[0])
    assert all(torch.equal(results[0], y) for y in results)


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no grouped products")
def test_experts_are_linears_of_their_own_rows():
    class Experts(nn.Module):
        def __init__(self, way):
            super().__init__()
            torch.manual_seed(0)
            self.w, self.way = nn.Parameter(torch.randn(3, 16, 32)), way

        def forward(self, x):
            return self.way(x, self.w)

    ends = torch.tensor([7, 7, 20], dtype=torch.int32)
    alone = lambda x, w: torch.cat([x[:7] @ w[0], x[7:20] @ w[2]])
    results = []
    for way in (alone, lambda x, w: torch._grouped_mm(x, w, offs=ends)):
        model, x = narrow.torch.emulate(Experts(way), "fp8-current", logits=None), torch.linspace(-3, 3, 320).reshape(20, 16)
        x.requires_grad_()
        y = model(x)
        y.square().sum().backward()
        results.append((y, x.grad, model.w.grad))
        assert model.narrow_emulation.covered == {"w: linear": "fp8-current"} and not model.narrow_emulation.uncovered
    assert all(torch.equal(a, b) for a, b in zip(*results))


def test_hopper_products_are_those_of_the_model_bit_for_bit():
    torch.manual_seed(0)
    x, g = torch.randn(20, 48, requires_grad=True), torch.randn(20, 12)
    model = narrow.torch.emulate(nn.Sequential(nn.Linear(48, 12, bias=False)), "fp8-current", products="hopper.wgmma", logits=None)
    y = model(x)
    y.backward(g)
    w = model[0].weight.detach().numpy()
    qx, sx = operand(x.detach().numpy(), {"format": "e4m3", "scaling": "tensor_current"}, 1)
    qw, sw = operand(w, {"format": "e4m3", "scaling": "tensor_current"}, 1)
    qg, sg = operand(g.numpy(), {"format": "e5m2", "scaling": "tensor_current"}, 1)
    one = narrow.matmul(qx, qw.T, model="hopper.wgmma.f32.e4m3.e4m3", scale_a=float(sx), scale_b=float(sw))
    np.testing.assert_array_equal(y.detach().numpy(), cast(one, "bf16"))
    two = narrow.matmul(qg, qw, model="hopper.wgmma.f32.e5m2.e4m3", plan="promote:128", scale_a=float(sg), scale_b=float(sw))
    np.testing.assert_array_equal(x.grad.numpy(), cast(two, "bf16"))
    three = narrow.matmul(qg.T, qx, model="hopper.wgmma.f32.e5m2.e4m3", plan="promote:128", scale_a=float(sg), scale_b=float(sx))
    np.testing.assert_array_equal(model[0].weight.grad.numpy(), cast(three, "bf16"))


def test_delayed_scales_follow_the_amaxes_of_the_steps_before():
    model = narrow.torch.emulate(nn.Sequential(nn.Linear(8, 4, bias=False)), "fp8-delayed", logits=None)
    seen, scaler = Seen(model), narrow.scaler("te-delayed", fp8_max=448.0)
    for amax in (3.0, 40.0, 5.0):
        model(torch.full((2, 8), amax)).sum().backward()
        x, values, decode = seen.rows["0", "linear", "activations", "forward"]
        scale = np.float32(scaler.scale)
        np.testing.assert_array_equal(values, saturated(x * scale, "e4m3"))
        assert decode == np.float32(1) / scale
        scaler.step(amax=amax)
    assert scaler.scale == np.float32(448) / np.float32(40)


def test_layers_have_recipes_of_their_own():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8))
    narrow.torch.emulate(model, "fp8-current", layers={"^0$": None, "^1$": "mxfp8"}, logits=None)
    model(torch.randn(3, 8))
    assert model.narrow_emulation.covered == {"1: linear": "mxfp8", "2: linear": "fp8-current"}


def test_checkpointing_gives_the_bits_of_training_without_it():
    from torch.utils.checkpoint import checkpoint

    def run(again):
        torch.manual_seed(0)
        block = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        own = {"base": "fp8-current", "operations": {"activation": {"output": {"format": "e4m3", "rounding": "stochastic"}}}}
        model = narrow.torch.emulate(nn.Sequential(block), own, logits=None)
        x = torch.randn(4, 16, requires_grad=True)
        y = checkpoint(block, x, use_reentrant=False) if again else block(x)
        y.sum().backward()
        return [x.grad, *(p.grad for p in model.parameters())]

    assert all(torch.equal(a, b) for a, b in zip(run(False), run(True)))


RANK = """
import sys
import torch, narrow
from torch import nn
rank, file = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=2)
make = lambda: (torch.manual_seed(0), nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)))[1]
batch = lambda rank: torch.randn(4, 8, generator=torch.Generator().manual_seed(rank))
model = nn.parallel.DistributedDataParallel(narrow.torch.emulate(make(), "fp8-current"))
model(batch(rank)).square().sum().backward()
alone = []
for other in (0, 1):
    m = narrow.torch.emulate(make(), "fp8-current")
    m(batch(other)).square().sum().backward()
    alone.append([p.grad for p in m.parameters()])
for p, a, b in zip(model.parameters(), *alone):
    assert torch.equal(p.grad, (a + b) / 2)
assert "module" not in "".join(model.module.narrow_emulation.covered)
"""


def test_ranks_of_ddp_reduce_the_gradients_that_each_computed(tmp_path):
    words = [sys.executable, "-c", RANK]
    ranks = [subprocess.Popen([*words, str(rank), str(tmp_path / "meet")], stderr=subprocess.PIPE, text=True) for rank in (0, 1)]
    for rank in ranks:
        _, said = rank.communicate(timeout=120)
        assert rank.returncode == 0, said


def test_kahan_keeps_what_bf16_parameters_lose():
    def run(name):
        model = nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            model.weight.fill_(1.0)
        optimizer = torch.optim.SGD(model.parameters(), lr=2.0**-10)
        narrow.torch.emulate(model, name, optimizer=optimizer)
        for _ in range(64):
            optimizer.zero_grad()
            model(torch.ones(1, 1)).sum().backward()
            optimizer.step()
        return model.weight.item()

    assert run("bf16-pure") == 1.0  # 2^-10 is below half a last place of 1 in BF16
    assert run("bf16-pure-kahan") == 1 - 64 * 2.0**-10


@pytest.mark.parametrize("name", ["bf16-amp", "fp8-current", "fp8-delayed", "fp8-block", "mxfp8", "nvfp4"])
def test_batches_without_rows_and_with_nan(name):
    model = narrow.torch.emulate(nn.Sequential(nn.Linear(4, 4), nn.Conv1d(1, 2, 1)), name)
    y = model(torch.zeros(0, 1, 4, requires_grad=True))
    y.sum().backward()
    assert y.shape == (0, 2, 4) and not any(p.grad.any() for p in model.parameters())
    x = torch.ones(2, 1, 4)
    x[0] = math.nan
    y = model(x)
    y.sum().backward()
    assert y[0].isnan().all() == (name != "nvfp4") and y[1].isfinite().all()  # E2M1 has no NaN


def test_a_copy_is_refused_with_what_to_do():
    model = narrow.torch.emulate(nn.Sequential(nn.Linear(4, 4)), "bf16-amp")
    for act in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="save its state_dict"):
            act(model)
    assert pickle.loads(pickle.dumps(model.state_dict())).keys() == model.state_dict().keys()
    copy.deepcopy(model.narrow_emulation.remove())(torch.ones(1, 4))


def test_tied_layers_keep_their_names():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    model[2].weight = model[0].weight
    narrow.torch.emulate(model, "fp8-current")(torch.randn(2, 8))
    assert {"0: linear", "2: logits"} <= set(model.narrow_emulation.covered)


@pytest.mark.parametrize("name", ["bf16-amp", "fp8-current", "fp16-pure"])
def test_narrow_dtypes_meet_parameters_of_others(name):
    """What torch itself computes gets tensors of one dtype: its norms and transposed convolutions take no mixture."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(8, 1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        narrow.torch.emulate(model, name, dtypes="narrow")
        model(torch.randn(2, 3, 8, 8)).float().sum().backward()
    assert all(p.grad.dtype is torch.float32 and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("way", ["high", "tf32"])
def test_products_in_fp32_are_not_those_of_tf32(way, monkeypatch):
    """Scales of FP32 make operands that TF32 would round once more."""
    matmul, seen = torch.matmul, []
    monkeypatch.setattr(torch, "matmul", lambda *a: (seen.append(torch.get_float32_matmul_precision()), matmul(*a))[1])
    settings = torch.backends.cuda.matmul
    if way == "tf32" and not hasattr(settings, "fp32_precision"):
        pytest.skip("this torch has one way to say it")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(way) if way == "high" else setattr(settings, "fp32_precision", way)
        narrow.torch.emulate(nn.Sequential(nn.Linear(256, 128)), "fp8-block", logits=None)(torch.randn(128, 256))
        if way == "high":
            assert torch.get_float32_matmul_precision() == "high"
        else:
            assert settings.fp32_precision == "tf32"
    finally:
        if way == "tf32":
            settings.fp32_precision = "ieee"
        torch.set_float32_matmul_precision(before)
    assert seen == ["highest"]


def test_remove_gives_the_model_back():
    torch.manual_seed(0)
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    plain = model(x)
    assert not torch.equal(plain, narrow.torch.emulate(model, "bf16-amp")(x))
    assert model.narrow_emulation.remove() is model
    assert torch.equal(plain, model(x)) and not hasattr(model, "narrow_emulation")
    assert not model._forward_hooks and not model._forward_pre_hooks


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda m: narrow.torch.emulate(m, "fp9"), "fp9"),
        (lambda m: narrow.torch.emulate(3, "fp32"), "^model: a torch.nn.Module is needed, not int$"),
        (lambda m: narrow.torch.emulate(m, "fp32", layers={"(": None}), "^layers: '\\(' is no regular expression"),
        (lambda m: narrow.torch.emulate(m, "fp32", attention="flash"), "^attention: 'flash'; right are None, 'fused' and 'parts'$"),
        (lambda m: narrow.torch.emulate(m, "bf16-amp", products="volta.wgmma"), "^products: volta.wgmma has no model for"),
        (lambda m: narrow.torch.emulate(narrow.torch.emulate(m, "fp32"), "fp32"), "^model: it is emulated already"),
        (lambda m: narrow.torch.emulate(torch.compile(m), "fp32"), "^model: compiled by torch.compile"),
    ],
)
def test_what_cannot_be_is_refused(act, words):
    with pytest.raises((TypeError, ValueError), match=words):
        act(nn.Linear(2, 2))


def test_autocast_and_compile_are_refused_while_running():
    model = narrow.torch.emulate(nn.Linear(4, 4), "bf16-amp")
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(RuntimeError, match="autocast is on"):
        model(torch.randn(2, 4))
    assert model(torch.randn(2, 4)).shape == (2, 4)
    with pytest.warns(UserWarning, match="without optimizer= only the parameters are rounded"):
        narrow.torch.emulate(nn.Linear(2, 2), "bf16-pure")
    blocks = narrow.torch.emulate(nn.Conv1d(2, 2, 1, groups=2), "mxfp8")
    with pytest.raises(NotImplementedError, match="in groups whose operands are scaled in blocks"):
        blocks(torch.randn(1, 2, 3))
