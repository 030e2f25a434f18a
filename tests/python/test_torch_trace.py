"""Traces of models, what compare() says of two, the first NaN or Inf, and rows that change with the batch."""

import json
import math
import warnings

import pytest

torch = pytest.importorskip("torch")

import narrow  # noqa: E402
import narrow.torch as nt  # noqa: E402
from narrow.torch import _bits, _nonfinite, _plans  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.modules import module as modules  # noqa: E402
from torch.optim import optimizer as optimizers  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_hooks_left():
    yield
    assert not modules._has_any_global_hook()
    assert not optimizers._global_optimizer_pre_hooks and not optimizers._global_optimizer_post_hooks


class Call(nn.Module):
    """A module of one function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


class Product(nn.Module):
    """x @ w, in one piece or with K cut in two, where no kernel of a GPU cuts it by itself."""

    def __init__(self, k, n, split=False):
        super().__init__()
        self.w, self.split, self.then = nn.Parameter(torch.randn(k, n)), split, lambda x: x

    def forward(self, x):
        cut = len(self.w) // 2 - 3
        return self.then(x[:, :cut] @ self.w[:cut] + x[:, cut:] @ self.w[cut:] if self.split else x @ self.w)


class Block(nn.Module):
    """A residual block, with its inner part recomputed in the backward pass if wanted."""

    def __init__(self, n, reentrant=None):
        super().__init__()
        self.inner, self.reentrant = nn.Sequential(nn.Linear(n, n), nn.GELU()), reentrant

    def forward(self, x):
        return x + (self.inner(x) if self.reentrant is None else checkpoint(self.inner, x, use_reentrant=self.reentrant))


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 8)))


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False)


def one(x):
    return int(_bits.hashes(x[None])[0])


# ---- the hash


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int8, torch.complex64])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 1000, (1 << 14) + 5, 3 * (1 << 14), 100003])
def test_hash_sees_one_bit(dtype, count):
    words = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[min(8, dtype.itemsize)]
    x = torch.randint(0, 100, (count,), dtype=torch.uint8).to(torch.float32).to(dtype)
    before = one(x)
    for place in {0, count // 2, count - 1}:
        for bit in (0, 8 * min(8, dtype.itemsize) - 1):
            y = x.clone()
            flat = (torch.view_as_real(y).view(-1) if dtype.is_complex else y).view(torch.int32 if dtype.is_complex else words)
            flat[place] ^= -(2**31) if dtype.is_complex and bit == 63 else 2**bit if bit < 63 and not (bit in (15, 31) and words is not torch.uint8) else -(2**bit)
            assert one(y) != before, (place, bit)
    assert one(x.clone()) == before


def test_hash_sees_places_and_signs():
    x = torch.randn(50_000, dtype=torch.float64)
    for i, j in ((0, 1), (3, 49_999), (100, 100 + (1 << 14))):
        y = x.clone()
        y[i], y[j] = x[j], x[i]
        assert one(x) != one(y)
    for dtype in (torch.float64, torch.float32, torch.float16):
        zeros = torch.zeros(40_000, dtype=dtype)
        zeros[5] = -0.0
        moved = zeros.flip(0)
        assert len({one(zeros), one(moved), one(zeros.abs())}) == 3 and torch.equal(zeros, moved)
    assert bool((_bits._multipliers(x.device) & 1).all())  # whatever single word changes
    assert one(x.flip(0)) != one(x) and one(x[:-1]) != one(x)
    assert one(torch.empty(0)) == one(torch.empty(0, 3))


def test_hash_is_of_numbers_not_of_memory(monkeypatch):
    x = torch.randn(70, 60).half()
    assert one(x.T.contiguous().T) == one(x) == one(torch.cat([x[:1], x])[1:])
    assert one(torch.zeros(9).half()[1:]) == one(torch.zeros(8).half())
    rows = _bits.hashes(x)
    assert rows.tolist() == [one(row) for row in x]
    big = torch.randn(100_000)
    whole = one(big)
    monkeypatch.setattr(_bits, "_PIECE", 1 << 15)
    assert one(big) == whole


def test_distance_counts_steps():
    x = torch.tensor([1.0, -0.0, 1e-45, 5.0])
    y = torch.tensor([1.0, 0.0, -1e-45, 5.0]).nextafter(torch.tensor([2.0, 0.0, -1e-45, 5.0]))
    assert _bits.distance(x, y) == {"count": 3, "total": 4, "max_abs": pytest.approx(2**-23), "max_ulp": 2}
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.float8_e5m2):
        z = torch.ones(3).to(dtype)
        assert _bits.distance(z, (-z.float()).to(dtype) if dtype.itemsize == 1 else -z)["max_ulp"] == 2 * int(z.view({1: torch.uint8, 2: torch.int16, 8: torch.int64}[z.itemsize])[0])
    assert _bits.distance(x, x)["count"] == 0 and _bits.distance(x, x * NAN)["max_ulp"] is None


# ---- traces


def trace_models():
    images, rows = torch.randn(3, 3, 8, 8), torch.randn(3, 5, 16)
    conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 2))
    return {"mlp": (mlp(), rows), "conv": (conv, images), "encoder": (encoder(), rows), "lstm": (nn.LSTM(16, 4), rows),
            "checkpoint": (nn.Sequential(Block(16, False), Block(16, True)), rows.clone().requires_grad_())}  # fmt: skip


@pytest.mark.parametrize("name", ["mlp", "conv", "encoder", "lstm", "checkpoint"])
@pytest.mark.parametrize("backward", [False, True])
def test_a_trace_changes_nothing(name, backward):
    model, x = trace_models()[name]
    model.eval()
    first = next(_bits.tensors_in(model(x)))
    first.sum().backward()
    gradients = {key: p.grad.clone() for key, p in model.named_parameters()}
    loss = backward and (lambda y: next(_bits.tensors_in(y)).sum())
    t = nt.trace(model, x, backward=loss)
    assert all(torch.equal(p.grad, gradients[key]) for key, p in model.named_parameters())
    assert t.records[-1].kind == ("gradient" if backward else "module")
    root = next(r for r in t.records if r.kind == "module" and r.module == "" and r.phase == "forward")
    assert root.outputs[0]["hash"] == f"{one(first) & (1 << 64) - 1:016x}"
    found = {r.module: r.outputs[0]["hash"] for r in t.records if r.kind == "gradient"}
    assert found == ({key: f"{one(g) & (1 << 64) - 1:016x}" for key, g in gradients.items()} if backward else {})
    assert nt.compare(t, nt.trace(model, x, backward=loss)).equal
    assert all(r.module is not None for r in t.records if r.phase == "backward" and r.node not in ("SumBackward0", "StackBackward0", "UnbindBackward0"))


def test_the_fast_path_stays_the_fast_path():
    model, x = encoder().eval(), torch.randn(2, 5, 16)
    with torch.no_grad():
        t = nt.trace(model, x)
    assert [r.operation for r in t.records if r.kind == "operation"] == ["aten._transformer_encoder_layer_fwd"] * 2


def test_modules_calls_and_numbers():
    shared = nn.Linear(4, 4)
    model = nn.Sequential(shared, Call(lambda x: x / (x - x)), shared)
    t = nt.trace(model, torch.ones(2, 4))
    assert [(r.module, r.call, r.operation) for r in t.records if r.operation == "aten.addmm"] == [("0", 1, "aten.addmm"), ("0", 2, "aten.addmm")]
    divided = next(r for r in t.records if r.operation == "aten.div")
    assert (divided.inf, divided.nan, divided.module, divided.outputs[0]["shape"]) == (8, 0, "1", [2, 4])
    assert t.records[0].amax == shared(torch.ones(2, 4)).abs().max().item() and "Inf first" in repr(t)
    assert nt.trace(nn.Identity(), torch.tensor([3, 4])).records[0].amax is None


def test_operands_of_products_are_kept():
    x, y, z = torch.randn(2, 70, 40), torch.randn(2, 40, 50), torch.randn(2, 70, 50)
    for operation, function in {"addmm": lambda x: nn.functional.linear(x[0], y[0].T, z[0, 0]), "mm": lambda x: x[1] @ y[1], "bmm": lambda x: x @ y,
                                "baddbmm": lambda x: torch.baddbmm(z, x, y, beta=0.5, alpha=2)}.items():  # fmt: skip
        t = nt.trace(Call(function), x)
        kept = t.kept[next(r.index for r in t.records if r.operation == f"aten.{operation}")]
        again = kept["a"].double() @ kept["b"].double() * kept.get("alpha", 1) + kept.get("c", torch.zeros(1)).double() * kept.get("beta", 1)
        assert kept["d"].shape == (32, 32) and torch.allclose(again, kept["d"].double(), atol=1e-5), operation


def test_backward_operations_have_their_modules():
    aside = Call(lambda x: (x.detach() * 2, x)[1])  # an operation without a node does not take the place of the last one
    t = nt.trace(nn.Sequential(nn.Linear(16, 16), aside, Block(16)), torch.randn(3, 16), backward=lambda y: (y**2).mean())
    seen = {(r.module, r.node) for r in t.records if r.phase == "backward" and r.kind == "operation"}
    assert {("2.inner.1", "GeluBackward0"), ("2.inner.0", "AddmmBackward0"), ("0", "AddmmBackward0"), (None, "PowBackward0")} <= seen
    assert not {("1", "AddmmBackward0"), ("2", "AddmmBackward0")} & seen and ("", "GeluBackward0") not in seen


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_are_recomputed_by_name(reentrant):
    x = torch.randn(3, 16, requires_grad=True)
    t = nt.trace(nn.Sequential(Block(16, reentrant), nn.Linear(16, 16)), x, backward=True)
    recomputed = [r for r in t.records if r.phase == "recompute"]
    assert {"0.inner.0", "0.inner.1"} >= {r.module for r in recomputed if r.kind == "operation"} and recomputed
    assert {("0.inner.1", "GeluBackward0"), ("0.inner.0", "AddmmBackward0")} <= {(r.module, r.node) for r in t.records if r.phase == "backward"}


def test_autocast_is_traced():
    model, x = mlp(), torch.randn(3, 16)
    with torch.autocast("cpu", torch.bfloat16):
        y, t = model(x), nt.trace(model, x, backward=True)
    products = [r for r in t.records if r.operation == "aten.addmm"]
    assert [r.outputs[0]["dtype"] for r in products] == ["bfloat16"] * 2 and y.dtype == torch.bfloat16
    assert next(r for r in t.records if r.kind == "module" and r.module == "").outputs[0]["hash"] == f"{one(y) & (1 << 64) - 1:016x}"


def test_an_exception_takes_the_hooks_back():
    def fail(x):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        nt.trace(nn.Sequential(nn.Linear(4, 4), Call(fail)), torch.ones(1, 4))
    with pytest.raises(RuntimeError, match="stop"), nt.first_nonfinite(nn.Identity()):
        fail(0)


def test_traces_go_through_files(tmp_path):
    model = mlp().bfloat16()
    x = torch.randn(40, 16).bfloat16()
    for keep in ("sample", "all", False):
        t = nt.trace(model, x, keep=keep, backward=True)
        t.save(tmp_path / "t.safetensors")
        u = nt.Trace.load(tmp_path / "t.safetensors")
        assert u.records == t.records and u.parameters == t.parameters and repr(u) == repr(t)
        assert u.kept.keys() == t.kept.keys() and all(torch.equal(u.kept[i][k], v) and u.kept[i][k].dtype == v.dtype for i, some in t.kept.items() for k, v in some.items())
        assert nt.compare(tmp_path / "t.safetensors", t).equal
    narrow.save(tmp_path / "other.safetensors", {"x": x})
    with pytest.raises(ValueError, match="is no trace"):
        nt.Trace.load(tmp_path / "other.safetensors")
    assert json.dumps(t.records)


# ---- two traces


def split_pair():
    models = [nn.Sequential(nn.Linear(16, 64), nn.ReLU(), Product(64, 24, split), nn.Linear(24, 8)) for split in (False, True)]
    models[1].load_state_dict(models[0].state_dict())
    return models


def test_a_planted_split_is_named():
    a, b = split_pair()
    x = torch.randn(20, 16)
    c = nt.compare(nt.trace(a, x), nt.trace(b, x))
    assert not c.equal and (c.first.module, c.first.kind, c.first.status) == ("2", "module", "made here")
    assert c.first.count > 0 and c.first.max_ulp > 0 and c.first.max_abs < 1e-4 and len(c.first.plans) == 2
    text = str(c)
    assert text.startswith("First difference: the result of 2 (Product)") and "operations of b: aten.mm, aten.mm, aten.add" in text
    assert "2 of b without a counterpart" in text
    a[2].then = b[2].then = torch.relu  # a result that is no product's
    c = nt.compare(nt.trace(a, x), nt.trace(b, x))
    assert c.first.module == "2" and c.first.plans is None
    c = nt.compare(nt.trace(a, x, keep=False), nt.trace(b, x, keep=False))
    assert c.first.module == "2" and "only hashes were kept" in str(c) and c.first.max_ulp is None


@pytest.mark.parametrize("rows", [None, 7])
def test_a_planted_split_has_its_plan(rows):
    """The kept product is that of a known machine, so that both plans have a name on any CPU."""
    x, w = torch.randn(7, 512).half(), torch.randn(512, 5).half()
    model = Call(lambda x: x @ w)
    a, b = (nt.trace(model, x, rows=rows) for _ in range(2))
    index = next(r.index for r in b.records if r.operation == "aten.mm")
    for t, plan in ((a, "chain"), (b, "split:128")):
        t.records[index]["device"] = "sm_90"
        t.kept[index]["d"] = narrow.matmul(x, w, model="hopper.wgmma.f32.f16.f16", plan=plan)
    for entry in b.records[index].outputs:
        entry["hash"] = "0"
    c = nt.compare(a, b)
    assert (c.first.operation, c.first.a, c.first.plans[0].plan) == ("aten.mm", index, "chain")
    assert c.first.plans[1].model and c.first.plans[1].plan != "chain" and "b: Hopper" in str(c)
    d = narrow.matmul(x, w, model="hopper.wgmma.f32.f16.f16", plan="split:128")
    assert _plans.plan_of({"a": x, "b": w}, d, "sm_90").plan.endswith(":128") and not _plans.plan_of({"a": x, "b": w}, d + 1, "sm_90").plan
    bias = torch.randn(1, 5)
    d = narrow.matmul(x, w, bias.expand(7, 5).contiguous(), model="hopper.wgmma.f32.f16.f16")
    assert _plans.plan_of({"a": x, "b": w, "c": bias}, d, "sm_90").plan and not _plans.plan_of({"a": x, "b": w}, d, "sm_90").plan


def test_an_operation_in_the_backward_pass_differs():
    class Twice(torch.autograd.Function):
        factor = 2.0

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return torch.nextafter(g * 2, g * Twice.factor)

    model, x = nn.Sequential(nn.Linear(4, 4), Call(Twice.apply), nn.Linear(4, 4)), torch.randn(2, 4)
    a = nt.trace(model, x, backward=True)
    Twice.factor = 3.0
    c = nt.compare(a, nt.trace(model, x, backward=True))
    assert (c.first.phase, c.first.module, c.first.node) == ("backward", "1", "TwiceBackward") and not c.equal
    assert all(row.status == "equal" for row in c.rows if row.phase == "forward")


def test_what_differs_before_the_run_is_said():
    model, x = mlp(), torch.randn(3, 16)
    a = nt.trace(model, x)
    c = nt.compare(a, nt.trace(model, x + 1))
    assert c.first is None and not c.equal and "the inputs of the model differ." in str(c) and "aten.addmm in 0 on" in str(c)
    c = nt.compare(a, nt.trace(model, torch.randn(4, 16)))
    assert "shapes (3, 16) and (4, 16)" in str(c) and c.first is None
    with torch.no_grad():
        model[2][1].bias[3] = -model[2][1].bias[3]
    c = nt.compare(a, nt.trace(model, x))
    assert c.first is None and "differ before the run: 2.1.bias" in str(c) and "from aten.addmm in 2.1 on" in str(c)
    with torch.no_grad():
        model[2][1].bias[3] = -model[2][1].bias[3]
    assert nt.compare(a, nt.trace(model, x)).equal
    model[2][0].eps = 1e-3
    c = nt.compare(a, nt.trace(model, x))
    assert c.first.status == "other arguments" and c.first.module == "2.0" and "0.001" in str(c)
    assert nt.compare(a, nt.trace(nn.Sequential(nn.Tanh()), x)).first is None


def test_results_of_other_kinds():
    x = torch.randn(3, 4)
    for one_, other, words in ((lambda x: (x, x), lambda x: x, "and 2 results against 1."), (lambda x: x.half(), lambda x: x, "other types, float16 and float32"),
                               (lambda x: x[:1] * 1, lambda x: x * 1, "other shapes"), (lambda x: x * 1, lambda x: (), "and 1 result against 0.")):  # fmt: skip
        c = nt.compare(nt.trace(Call(one_), x), nt.trace(Call(other), x))
        assert c.first.module == "" and words in str(c) and not c.equal


def test_random_numbers_are_named():
    model, x = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5)), torch.randn(64, 16)
    c = nt.compare(nt.trace(model, x), nt.trace(model, x))
    assert c.first.module == "1" and "draws random numbers" in str(c)


def test_compiled_against_eager():
    model, x = mlp(), torch.randn(3, 16)
    compiled = torch.compile(model, backend="aot_eager")
    t = nt.trace(compiled, x, backward=True)
    assert {r.kind for r in t.records} == {"module", "gradient"} and "compiled" in repr(t)
    c = nt.compare(nt.trace(model, x, backward=True), t)
    assert "b: the model is compiled" in str(c) and "without a counterpart" in str(c) and len(c.rows) == 1 + len(list(model.parameters()))
    calls = []

    def backend(graph, _):
        return lambda *a: (calls.append(1), tuple(y * 2 for y in graph(*a)))[1]

    c = nt.compare(nt.trace(model, x), nt.trace(torch.compile(model, backend=backend), x))
    assert calls and c.first.kind == "module" and c.first.module == ""
    with pytest.raises(ValueError, match="compiled"):
        nt.first_nonfinite(compiled, x)


def test_two_batch_sizes_are_compared_by_rows():
    weight = torch.randn(16, 8)
    model = Call(lambda x: (x[:, :, None] * weight).cumsum(1)[:, -1])  # an order that no batch changes
    x = torch.randn(6, 16)
    whole = nt.trace(model, x, rows=6)
    for n in (1, 2, 3):
        assert nt.compare(whole, nt.trace(model, x[:n], rows=n)).equal
        c = nt.compare(whole, nt.trace(Call(lambda x: model(x).nextafter(x.new_tensor(INF))), x[:n], rows=n))
        assert c.first is None or c.first.kind == "module"
        c = nt.compare(whole, nt.trace(model, x[1 : 1 + n], rows=n))
        assert not c.equal and c.first is None


# ---- the first NaN or Inf


def found(model, x, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        f = nt.first_nonfinite(model, x, **options)
    assert [str(w.message) for w in said if w.category is RuntimeWarning] == ([str(f).splitlines()[0]] if f else [])
    return f


@pytest.fixture(params=["at once", "later"])
def moment(request, monkeypatch):
    """Later: as on a CUDA device, whose numbers are read when many have come together."""
    if request.param == "later":
        monkeypatch.setattr(_nonfinite._Checker, "_now", lambda self, x: False)
    return request.param


def test_a_planted_nan_is_named(moment):
    f = found(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(Call(lambda x: (x - x) / (x - x))), nn.Linear(4, 4)), torch.randn(2, 4))
    assert (f.first.what, f.first.operation, f.first.module, f.first.phase, f.first.came_in) == ("NaN", "aten.div", "2.0", "forward", "")
    assert [x.amax for x in f.first.inputs] == [0, 0] and [r.operation for r in f.records] == ["aten.addmm", "aten.relu", "aten.sub", "aten.sub", "aten.div"]
    assert ("In float64 the result is NaN, too" in str(f)) == (moment == "at once")


@pytest.mark.parametrize("dtype,scale,words", [(torch.float16, 200.0, "exceeds the largest fp16 number, 65504"),
                                               (torch.bfloat16, 1e19, "exceeds the largest bf16 number, 3.38953e+38"),
                                               (torch.float32, 1e19, "exceeds the largest fp32 number, 3.40282e+38")])  # fmt: skip
def test_a_planted_overflow_is_named(dtype, scale, words, moment):
    model = nn.Sequential(nn.Identity(), nn.Sequential(nn.Linear(8, 8, dtype=dtype)))
    nn.init.constant_(model[1][0].weight, scale)
    f = found(model, torch.full((2, 8), scale, dtype=dtype))
    assert (f.first.what, f.first.operation, f.first.module) == ("Inf", "aten.addmm", "1.0")
    assert (words in str(f)) == (moment == "at once") and {x.name: x.amax for x in f.first.inputs}["mat1"] == float(torch.tensor(scale, dtype=dtype))


def test_other_limits(moment):
    f = found(Call(lambda x: x.to(torch.float8_e5m2).float()), torch.tensor([1.0, 1e6]))
    assert f.first.what == "Inf" and f.first.operation == "aten._to_copy" and ("exceeds the largest e5m2 number, 57344" in str(f)) == (moment == "at once")
    f = found(Call(lambda x: torch.fft.fft(x) * 1e30 * 1e30), torch.ones(3))
    assert f.first.operation == "aten.mul" and f.first.dtype == "complex64" and ("it is complex" in str(f)) == (moment == "at once")
    f = found(Call(lambda x: x.mul_(3e4)), torch.tensor([1.0, 3.0]).half())
    assert f.first.operation == "aten.mul_" and f.first.inputs[0].amax == 3.0 and ("wrote over an operand" in str(f)) == (moment == "at once")


@pytest.mark.parametrize("grad,what", [(1.0, "Inf"), (0.0, "NaN")])
def test_sqrt_of_zero_in_the_backward_pass(grad, what, moment):
    f = found(nn.Sequential(nn.Linear(4, 4), Call(lambda x: (x - x).sqrt()), Call(lambda x: x * grad)), torch.randn(2, 4), backward=True)
    assert (f.first.what, f.first.operation, f.first.module, f.first.node, f.first.phase) == (what, "aten.div", "1", "SqrtBackward0", "backward")


def test_what_came_in_is_said(moment):
    x = torch.randn(3, 4)
    bad = x.clone()
    bad[1, 2] = NAN
    f = found(nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), (bad,))
    assert f.first.module == "0" and f.first.came_in == "it came in with self, argument 0 of the model"
    bad[1, 2] = INF
    f = found(nn.Linear(4, 4), bad)
    assert f.first.operation == "output" and "holds Inf: it came in with argument 0" in str(f)
    for what in (NAN, INF):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        with torch.no_grad():
            model[1].bias[0] = what
        f = found(model, x)
        assert f.first.module == "1" and f.first.came_in == "it came in with self, parameter 1.bias"
    model = nn.BatchNorm1d(4).eval()
    model.running_mean[1] = NAN
    assert "buffer running_mean" in str(found(model, x))
    assert "a tensor from outside" in str(found(Call(lambda x: x + bad * 0), x))


def attention(q, mask):
    return torch.softmax((q @ q.transpose(-1, -2)).masked_fill(mask, -INF), -1) @ q


def test_masks_are_no_finding(moment):
    q, causal = torch.randn(2, 5, 16), torch.ones(5, 5).triu(1).bool()
    additive = nn.Transformer.generate_square_subsequent_mask(5)
    model = encoder()
    for f in (found(Call(lambda q: attention(q, causal)), q.requires_grad_(), backward=True),
              found(model, {"src": q.detach(), "mask": additive}, backward=True),
              found(model, (q.detach(), causal), backward=True),
              found(Call(lambda q: torch.softmax(q @ q.transpose(1, 2) + torch.triu(torch.full((5, 5), -INF), 1), -1)), q),
              found(Call(lambda q: nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=~causal)), q),
              found(Call(lambda q: torch.where(causal, -INF, q @ q.transpose(1, 2)).exp()), q),
              found(Call(lambda q, m: (q @ q.transpose(1, 2) + m).exp()), (q, additive))):  # fmt: skip
        assert not f and f.first is None and str(f).startswith("No NaN, and no Inf made of finite numbers, in ")
    f = found(Call(lambda q: q.masked_fill(q > 0, torch.tensor(-INF))), q)  # a constant, and so is what goes out
    assert not f
    assert found(Call(lambda q: q.masked_fill(q > 0, torch.tensor(NAN))), q).first.came_in.endswith("a single number from outside")
    assert "on purpose, 1 time, first by aten.masked_fill in the model itself" in str(found(Call(lambda q: attention(q, causal)), q))
    f = found(nn.Sequential(nn.Identity(), Call(lambda q: attention(q, torch.ones(5, 5).bool()))), q)
    assert (f.first.what, f.first.operation, f.first.module) == ("NaN", "aten._softmax", "1")
    assert "Self holds Inf, made on purpose by aten.masked_fill in 1." in str(f)
    assert found(Call(lambda x: x.masked_fill(x > 0, NAN)), q).first.constants


def test_ignored_operations(moment):
    x = torch.tensor([0.0, 1.0])
    f = found(Call(lambda x: x.log().exp()), x)
    assert (f.first.what, f.first.operation) == ("Inf", "aten.log")
    for name in ("log", "aten.log"):
        f = found(Call(lambda x: x.log().exp()), x, ignore=[name])
        assert not f and "Ignored were results that are not finite, 1 time, first by aten.log" in str(f)
    f = found(Call(lambda x: x.log() * 0), x, ignore=["log"])
    assert (f.first.what, f.first.operation) == ("NaN", "aten.mul") and "made by aten.log in the model itself, which is ignored" in str(f)


def test_memory_that_nobody_wrote(moment):
    def garbage(x):
        y = torch.empty(4)
        y.data_ptr() and y.numpy().fill(NAN)
        return y.fill_(1.0) + x

    assert not found(Call(garbage), torch.ones(4))
    f = found(Call(lambda x: (lambda y: (y.numpy().fill(NAN), y + x)[1])(torch.empty(4))), torch.ones(4))
    assert "memory of aten.empty that no recorded operation wrote" in str(f)


def test_around_a_training_loop(moment):
    model = nn.Sequential(nn.Linear(4, 4), Call(lambda x: x if x.abs().max() < 1e30 else x * 0 / 0), nn.Linear(4, 1))
    x, optimizer = torch.randn(8, 4), torch.optim.SGD(model.parameters(), lr=1e3)
    with pytest.warns(RuntimeWarning, match="made the first"), nt.first_nonfinite(model) as f:
        for _ in range(30):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()
    assert f and 1 < f.first.step < 30 and len(f.first.records) == 21 and f.first.records[-1].index == f.first.index
    assert f.first.step == f.steps and all(torch.isfinite(torch.tensor(r.amax)) for r in f.records[:-1] if r.amax is not None)


def test_a_loop_that_fails_keeps_its_finding(moment):
    model = Call(lambda x: x / 0)
    with pytest.warns(RuntimeWarning), pytest.raises(KeyError), nt.first_nonfinite(model) as f:
        model(torch.ones(2))
        raise KeyError
    assert f.first.operation == "aten.div"


def test_the_optimizer_is_named(moment):
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=3e38, foreach=False)
    with pytest.warns(RuntimeWarning, match=r"aten.add_ in the optimizer's step made the first Inf \(parameter weight\)"):
        with nt.first_nonfinite(model) as f:
            (model(torch.full((2, 4), 10.0)) ** 2).sum().backward()
            optimizer.step()
    assert f.first.phase == "optimizer"


def test_it_can_raise():
    model = nn.Sequential(Call(lambda x: x), Call(lambda x: x / 0), Call(lambda x: pytest.fail("went on")))
    with pytest.raises(FloatingPointError, match="aten.div in 1 made the first Inf"):
        nt.first_nonfinite(model, torch.ones(2), raise_=True)
    with pytest.raises(FloatingPointError, match="SqrtBackward0"):
        nt.first_nonfinite(Call(torch.sqrt), torch.zeros(2, requires_grad=True), backward=True, raise_=True)


@pytest.mark.parametrize("name", ["mlp", "conv", "encoder", "lstm", "checkpoint"])
def test_nothing_to_find(name, moment):
    model, x = trace_models()[name]
    assert not found(model, x, backward=True) and all(p.grad is None for p in model.parameters())
    with nt.first_nonfinite(model) as f, torch.autocast("cpu", torch.bfloat16):
        next(_bits.tensors_in(model(x))).float().sum().backward()
    assert not f and f.steps == 1 and len(f.records) <= 21


# ---- rows and batches


class Sum(nn.Module):
    """A product whose order of additions is written down: in two halves for batches smaller than from_."""

    def __init__(self, k, n, from_=0):
        super().__init__()
        self.w, self.from_ = nn.Parameter(torch.randn(k, n)), from_

    def forward(self, x):
        terms = x[:, :, None] * self.w
        half = terms.shape[1] // 2
        if len(x) >= self.from_:
            return terms.cumsum(1)[:, -1] + 0  # an addition, too, that is not that of the halves
        return terms[:, :half].cumsum(1)[:, -1] + terms[:, half:].cumsum(1)[:, -1]


def test_rows_that_keep_their_bits():
    model = nn.Sequential(Sum(16, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Sequential(Sum(8, 4), nn.ReLU())).train()
    model[2].eval()
    before = {key: x.clone() for key, x in model.state_dict().items()}
    r = nt.batch_invariance(model, torch.randn(7, 16))
    assert r.invariant and r.deterministic and not len(r.modules) and r.sizes == [1, 2, 3, 7] and r.compared > 20
    assert str(r).startswith("Rows of batches of 1, 2, 3 have the same bits as in the batch of 7")
    assert model.training and model[1].training and not model[2].training
    assert all(torch.equal(x, before[key]) for key, x in model.state_dict().items())


def test_modules_that_change_a_row_are_named_behind_others_too():
    model = nn.Sequential(Sum(64, 32, from_=3), nn.ReLU(), nn.Sequential(Sum(32, 32), Sum(32, 32, from_=2)))
    r = nt.batch_invariance(model, torch.randn(9, 64), [1, 2, 4, 9])
    assert not r.invariant and [(m.module, m.sizes) for m in r.modules] == [("0", [1, 2]), ("2.1", [1])]
    assert r.modules[0].changed_rows == {1: 1, 2: 2} and 0 < r.modules[0].max_ulp < 10_000 and r.output_changes == [1, 2]
    assert "0 (Sum): rows changed 1 of 1, 2 of 2 with batches of 1, 2" in str(r)


def test_results_without_rows_and_random_ones():
    x = torch.randn(8, 4)
    r = nt.batch_invariance(nn.Sequential(nn.ReLU(), Call(lambda x: x - x.mean(0))), x, [4])
    assert [(m.module, m.operation, m.mixes) for m in r.modules] == [("1", "aten.mean", True)] and not r.invariant
    r = nt.batch_invariance(nn.Sequential(Call(lambda x: x + torch.rand_like(x)), Sum(4, 4, from_=3)), x, [2])
    assert not r.deterministic and not r.invariant and [m.module for m in r.modules] == ["1"] and "rand_like" in str(r)
    r = nt.batch_invariance(Call(lambda x: x + torch.rand_like(x)), x, [2])
    assert not r.modules and "cannot be told" in str(r)


def test_rows_inside_a_dimension():
    """Sequence first, as stock attention computes: row b of step t is t * batch + b."""
    change = [Call(lambda y: y * (1 + 2.0**-23) if len(y) == 10 else y * 1) for _ in range(2)]  # 5 steps of 2 rows
    model = Call(lambda x: change[1](change[0](x.transpose(0, 1).reshape(-1, 4))).view(5, len(x), 4).transpose(0, 1))
    model.first, model.second = change
    r = nt.batch_invariance(model, torch.randn(6, 5, 4), [1, 2, 3])
    assert [(m.module, m.operation, m.sizes) for m in r.modules] == [("first", "aten.mul", [2]), ("second", "aten.mul", [2])]


def test_neither_batch_nor_model_is_written():
    class Gives(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([[0.0, -0.0], [-0.0, 0.0]]))

        def forward(self, x):
            return x, self.w, self.w[: len(x)] * 1

    model, x = Gives(), torch.tensor([[0.0, -0.0], [-0.0, 0.0], [0.0, 0.0], [-0.0, -0.0]])
    before = one(x), one(model.w)
    for sizes in ([1], [2], [1, 2, 3]):
        nt.batch_invariance(model, x, sizes)
    assert (one(x), one(model.w)) == before


def test_products_have_plans():
    model, x = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 32)), torch.randn(16, 64)
    r = nt.batch_invariance(model, x, [1, 2])
    for m in r.modules:
        assert m.operation == "aten.addmm" and set(m.plans) == {*m.sizes, 16} and f"batch of 16: {m.plans[16]}" in str(r)
    whole = nt.trace(model, x, rows=16)
    assert r.invariant == all(nt.compare(whole, nt.trace(model, x[:n], rows=n)).equal for n in (1, 2))


def test_indices_of_the_whole_batch_stay_there():
    """Rows in another order, as experts take them: what is put into a smaller batch are numbers, no places."""

    class Sorted(nn.Module):
        def forward(self, x):
            order = torch.argsort(torch.arange(len(x), device=x.device) * 7 % len(x))
            return x[order] + 0

    model = nn.Sequential(Sum(64, 32, from_=3), Sorted())
    r = nt.batch_invariance(model, torch.randn(9, 64), [1, 2, 4])
    assert [(m.module, m.sizes) for m in r.modules][:1] == [("0", [1, 2])] and not r.invariant


# ---- devices


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))])
def test_the_same_on_every_device(device, tmp_path):
    a, b = (m.to(device) for m in split_pair())
    x = torch.randn(20, 16, device=device)
    ta, tb = nt.trace(a, x, backward=True), nt.trace(b, x, backward=True)
    tb.save(tmp_path / "b.safetensors")
    c = nt.compare(ta, tmp_path / "b.safetensors")
    assert (c.first.module, c.first.kind) == ("2", "module") and c.first.count > 0 and len(c.first.plans) == 2
    assert nt.compare(ta, nt.trace(a, x, backward=True)).equal and {r.device for r in ta.records} == {ta.records[0].device}
    host = nt.trace(a.cpu(), x.cpu())
    assert host.parameters == ta.parameters and host.records[0].inputs == ta.records[0].inputs  # one hash on all devices
    a.to(device)
    halves = nn.Sequential(nn.Identity(), nn.Linear(8, 8, dtype=torch.float16, device=device))
    nn.init.constant_(halves[1].weight, 200)
    for at_once in (False, True):
        f = found(halves, torch.full((2, 8), 200.0, dtype=torch.float16, device=device), at_once=at_once)
        assert (f.first.what, f.first.operation, f.first.module) == ("Inf", "aten.addmm", "1") and f.first.inputs[1].amax == 200
        assert ("exceeds the largest fp16 number" in str(f)) == (at_once or device == "cpu")
    f = found(nn.Sequential(a, Call(lambda x: (x - x).sqrt())), x, backward=True)
    assert (f.first.operation, f.first.module, f.first.node) == ("aten.div", "1", "SqrtBackward0")
    assert not found(Call(lambda x: x.masked_fill(x > 0, torch.tensor(-INF)).exp()), x)  # a constant on the CPU
    model = nn.Sequential(Sum(64, 32, from_=3), nn.ReLU(), Sum(32, 32, from_=2)).to(device)
    r = nt.batch_invariance(model, torch.randn(9, 64, device=device), [1, 2, 4])
    assert [(m.module, m.sizes) for m in r.modules] == [("0", [1, 2]), ("2", [1])] or device == "cuda"
    assert {("0", 1), ("0", 2), ("2", 1)} <= {(m.module, n) for m in r.modules for n in m.sizes}


# ---- refused


@pytest.mark.parametrize("call,error,words", [
    (lambda: nt.trace(lambda x: x, torch.ones(1)), TypeError, "model: a torch.nn.Module is needed, not function"),
    (lambda: nt.trace(nn.Identity(), torch.ones(1), keep="some"), ValueError, "keep: 'some'; right are"),
    (lambda: nt.trace(nn.Identity(), torch.ones(1), rows=0), ValueError, "rows: 0; right is"),
    (lambda: nt.trace(nn.Identity(), torch.ones(1), backward="yes"), TypeError, "backward: True or a function"),
    (lambda: nt.trace(nn.Identity(), torch.ones(1), backward=True), ValueError, "backward: no output of the model requires"),
    (lambda: nt.compare(nt.trace(nn.Identity(), torch.ones(1)), 3), TypeError, "b: a Trace or the path of one"),
    (lambda: nt.first_nonfinite(nn.Identity(), backward=True), ValueError, "backward: it needs inputs"),
    (lambda: nt.first_nonfinite(nn.Identity(), ignore="log"), TypeError, "ignore: names of operations"),
    (lambda: nt.first_nonfinite(3), TypeError, "model: a torch.nn.Module is needed, not int"),
    (lambda: nt.batch_invariance(nn.Identity(), torch.ones(1, 2)), ValueError, "batch: tensors with the same first dimension"),
    (lambda: nt.batch_invariance(nn.Identity(), (torch.ones(2), torch.ones(3))), ValueError, r"at least 2, are needed, not \[2, 3\]"),
    (lambda: nt.batch_invariance(nn.Identity(), torch.ones(4), [5]), ValueError, "right are sizes from 1 to 4"),
    (lambda: nt.batch_invariance(nn.Identity(), torch.ones(4), []), ValueError, "sizes: "),
])  # fmt: skip
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_control_characters_in_names_are_inert():
    def make():
        model = nn.Sequential()
        model.add_module("a\x1b[31m\n'\"\x9b", nn.Linear(2, 2))
        return model

    a, b = make(), make()
    x = torch.full((1, 2), math.nan)
    with pytest.warns(RuntimeWarning):
        found = narrow.torch.first_nonfinite(a, x)
    said = [str(found), str(narrow.torch.compare(narrow.torch.trace(a, x, backward=True), narrow.torch.trace(b, x, backward=True))),
            str(narrow.torch.batch_invariance(a, torch.ones(4, 2)))]  # fmt: skip
    assert all(c.isprintable() or c == "\n" for text in said for c in text)
    assert r"a\x1b[31m\n'" in said[0] and r"a\x1b[31m\n'" in said[1]
