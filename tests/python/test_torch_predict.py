"""narrow.torch.predict: single operations against numpy's FP32 and ml_dtypes' casts, whole models against recordings of an H200."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import narrow

torch = pytest.importorskip("torch")
ml_dtypes = pytest.importorskip("ml_dtypes")
nn, F = torch.nn, torch.nn.functional

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
KINDS = {torch.bfloat16: ml_dtypes.bfloat16, torch.float16: np.float16, torch.float32: np.float32}
FORMATS = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
predict = narrow.torch.predict


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def called(function, *arguments, **words):
    return predict(Call(function), *arguments, **words)


def spread(dtype, *shape, seed=0):
    """Numbers of all magnitudes around one."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 6, shape)
    return torch.from_numpy(x.astype(np.float32)).to(dtype)


def wide(t):
    return t.detach().float().numpy()


def cast(x, dtype):
    """To nearest even, by numpy and ml_dtypes."""
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float32).astype(KINDS[dtype]).astype(np.float32)


def assert_same(t, expected):
    found = wide(t)
    assert found.shape == np.shape(expected)
    assert np.array_equal(found.view(np.uint32), np.asarray(expected, np.float32).view(np.uint32))


dtypes = pytest.mark.parametrize("dtype", list(KINDS))


# -- single operations ------------------------------------------------------------------------------------------------------


@dtypes
def test_sums_products_and_quotients_round_once(dtype):
    x, y = spread(dtype, 50, 70), spread(dtype, 50, 70, seed=1)
    a, b = wide(x), wide(y)
    assert_same(called(lambda s, t: s + t, x, y), cast(a + b, dtype))
    assert_same(called(lambda s, t: s - t, x, y), cast(a - b, dtype))
    assert_same(called(lambda s, t: s * t, x, y), cast(a * b, dtype))
    assert_same(called(lambda s, t: s / t, x, y), cast(a / b, dtype))
    assert_same(called(lambda s, t: torch.add(s, t, alpha=0.25), x, y), cast(a + np.float32(0.25) * b, dtype))
    assert_same(called(lambda s, t: -s.abs() * t[:1], x, y), cast(-np.abs(a) * b[:1], dtype))


@dtypes
def test_python_numbers_stay_fp32_and_division_by_one_multiplies_with_its_inverse(dtype):
    x = spread(dtype, 4000)
    a, tenth, third = wide(x), np.float32(0.1), np.float32(1 / 3.0)
    assert_same(called(lambda s: s + 0.1, x), cast(a + tenth, dtype))
    assert_same(called(lambda s: 0.1 - s, x), cast(tenth - a, dtype))
    assert_same(called(lambda s: s * 0.1, x), cast(a * tenth, dtype))
    assert_same(called(lambda s: s / 3.0, x), cast(a * third, dtype))
    assert_same(called(lambda s: s / 3, x), cast(a * third, dtype))
    assert_same(called(lambda s: 3 / s, x), cast(cast(np.float32(1) / a, dtype) * np.float32(3), dtype))
    assert_same(called(lambda s: s**3, x), cast(cast(a * a, dtype) * a, dtype))
    if dtype is torch.float32:  # what torch computes on a CPU is another number
        assert not np.array_equal(a * third, wide(x / 3.0))


@dtypes
def test_torch_on_the_cpu_rounds_sums_products_and_quotients_of_tensors_as_a_gpu_does(dtype):
    x, y = spread(dtype, 300, 300), spread(dtype, 300, 300, seed=1)
    for function in (torch.add, torch.sub, torch.mul, torch.div):
        assert_same(called(function, x, y), wide(function(x, y)))


def test_operations_in_place_write_where_they_are_told():
    def forward(x):
        x += 0.1
        x *= x
        return x

    x = spread(torch.bfloat16, 100)
    a = cast(wide(x) + np.float32(0.1), torch.bfloat16)
    assert called(forward, x) is x
    assert_same(x, cast(a * a, torch.bfloat16))


def test_a_tensor_without_dimensions_is_refused_where_its_place_decides_bits():
    x = spread(torch.bfloat16, 1000)
    assert_same(called(lambda s: s * torch.tensor(0.5), x), wide(x) * np.float32(0.5))
    with pytest.raises(NotImplementedError, match="without dimensions"):
        called(lambda s: s * torch.tensor(0.1), x)
    with pytest.raises(NotImplementedError, match="without dimensions"):
        called(lambda s: s / torch.tensor(3.0), x.float())


def test_a_rotary_embedding_has_three_roundings():
    dtype = torch.bfloat16
    x, cos, sin = (spread(dtype, 20, 16, seed=i) for i in range(3))
    a, c, s = wide(x), wide(cos), wide(sin)
    turned = np.concatenate((-a[:, 8:], a[:, :8]), -1)
    y = called(lambda q: q * cos + torch.cat((-q[:, 8:], q[:, :8]), -1) * sin, x)
    assert_same(y, cast(cast(a * c, dtype) + cast(turned * s, dtype), dtype))


# -- products -----------------------------------------------------------------------------------------------------------------

MODELS = {torch.bfloat16: "hopper.wgmma.f32.bf16.bf16", torch.float16: "hopper.wgmma.f32.f16.f16",
          torch.float32: "software.fma.f32.f32.f32"}  # fmt: skip


def product(x, w, bias=None, plan="chain", model=None):
    return narrow.matmul(x.detach(), w.detach(), bias=None if bias is None else bias.detach(), model=model or MODELS[x.dtype],
                         plan=plan, out_format=FORMATS[x.dtype])  # fmt: skip


@dtypes
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_linear_is_one_chain_with_its_bias_in_fp32(dtype, has_bias):
    layer = nn.Linear(96, 40, bias=has_bias).to(dtype)
    x = spread(dtype, 3, 17, 96)
    y, account = predict(layer, x, account=True)
    assert y.dtype == dtype and y.shape == (3, 17, 40)
    assert_same(y.reshape(-1, 40), wide(product(x.reshape(-1, 96), layer.weight.t(), layer.bias)))
    assert [(r.operation, r.count, r.how) for r in account] == [("linear", 1, f"predicted: {MODELS[dtype]}, chain (plan assumed)")]
    if has_bias:  # and without it, the bias comes after a rounding: rows that do not lie in one piece
        apart = x.transpose(0, 1)
        plain = cast(wide(product(apart.reshape(-1, 96), layer.weight.t())), dtype)
        assert_same(predict(layer, apart).reshape(-1, 40), cast(plain + wide(layer.bias), dtype))


@pytest.mark.parametrize("write", [lambda a, b: a @ b, torch.mm, lambda a, b: torch.einsum("ij,jk->ik", a, b),
                                   lambda a, b: torch.bmm(a[None], b[None])[0]])  # fmt: skip
def test_products_by_any_name_are_the_same(write):
    a, b = spread(torch.float16, 12, 80), spread(torch.float16, 80, 24)
    assert_same(called(write, a, b), wide(product(a, b)))


def test_c_joins_the_finished_sum():
    a, b, c = spread(torch.bfloat16, 12, 80), spread(torch.bfloat16, 80, 24), spread(torch.bfloat16, 12, 24, seed=2)
    y = called(lambda a, b, c: torch.addmm(c, a, b, beta=0.5), a, b, c)
    total = wide(narrow.matmul(a, b, model=MODELS[torch.bfloat16]))
    assert_same(y, cast(total + np.float32(0.5) * wide(c), torch.bfloat16))
    bias = c[0].clone()
    assert_same(called(torch.addmm, bias, a, b), cast(total + wide(bias), torch.bfloat16))


def test_plans_are_taken_by_module_by_shape_and_for_all():
    layers = nn.Sequential(nn.Linear(512, 32, bias=False), nn.Linear(32, 8, bias=False)).bfloat16()
    x = spread(torch.bfloat16, 64, 512)
    first = product(x, layers[0].weight.t(), plan="split:128,output")
    for plans in ({"0": "split:128,output"}, {(64, 32, 512): "split:128,output"}):
        y, account = predict(layers, x, plans=plans, account=True)
        assert_same(y, wide(product(first, layers[1].weight.t())))
        assert sorted(r.how.partition(", ")[2] for r in account) == ["chain (plan assumed)", "split:128,output"]
    assert_same(predict(layers[0], x, plans="split:128,output"), wide(first))
    assert not torch.equal(predict(layers[0], x), first)
    with pytest.raises(ValueError, match="no part 'one'"):
        predict(layers, x, plans={"one": "chain"})


def test_tf32_is_torch_s_own_switch():
    layer, x = nn.Linear(64, 16, bias=False), spread(torch.float32, 8, 64)
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = True
        y = predict(layer, x)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert_same(y, wide(product(x, layer.weight.t(), plan="chain,rne", model="hopper.wgmma.f32.tf32.tf32")))


# -- what narrow.op computes ------------------------------------------------------------------------------------------------


@dtypes
def test_operations_of_rows_are_those_of_narrow_op(dtype):
    x, w, b = spread(dtype, 2, 5, 96), spread(dtype, 96, seed=1), spread(dtype, 96, seed=2)
    rows = x.reshape(10, 96)
    same = lambda y, name, **operands: assert_same(y.reshape(10, -1), wide(narrow.op(name, rows, **operands)).reshape(10, -1))
    same(called(lambda t: F.layer_norm(t, (96,), w, b), x), "layer_norm", w=w, b=b, eps=1e-5)
    same(called(lambda t: F.rms_norm(t, (96,), w, 1e-6), x), "rms_norm", w=w, eps=1e-6)
    same(called(lambda t: F.softmax(t, -1), x), "softmax")
    same(called(lambda t: t.log_softmax(2), x), "log_softmax")
    same(called(F.gelu, x), "gelu")
    same(called(lambda t: F.gelu(t, approximate="tanh"), x), "gelu_tanh")
    same(called(F.silu, x), "silu")
    same(called(lambda t: t.sum(-1), x), "sum")
    same(called(lambda t: t.mean(-1, keepdim=True), x), "mean")
    assert called(lambda t: t.mean(-1, keepdim=True), x).shape == (2, 5, 1)
    target = torch.arange(10)
    assert_same(called(F.cross_entropy, rows, target), wide(narrow.op("cross_entropy", rows, target=target)).reshape(()))
    swiglu = wide(narrow.op("silu", rows)) * wide(rows)
    assert_same(called(lambda t: F.silu(t) * t, rows), cast(swiglu, dtype))


@pytest.mark.parametrize("variant", ["cudnn", "flash2", "efficient", "math"])
def test_attention_is_the_variant_that_is_asked_for(variant):
    shared = 4 if variant == "efficient" else 2  # it takes as many heads of keys as of queries
    q, k, v = (spread(torch.bfloat16, 1, heads, 40, 64, seed=i) for i, heads in enumerate((4, shared, shared)))
    attend = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    y, account = called(attend, q, k, v, attention=variant, account=True)
    assert_same(y, wide(narrow.op("attention", q=q, k=k, v=v, causal=True, variant=variant)))
    assert account[-1].how == f"predicted: {variant}"
    y.transpose(1, 2).view(1, 40, 256)  # laid out as a GPU does


def test_attention_is_cudnn_s_unless_torch_is_told_otherwise():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = spread(torch.float16, 1, 2, 16, 64)
    attend = lambda q: F.scaled_dot_product_attention(q, q, q)

    def pinned(q):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return attend(q)

    assert [called(f, q, account=True)[1][-1].how for f in (attend, pinned)] == ["predicted: cudnn", "predicted: flash2"]
    with pytest.raises(NotImplementedError, match="mask"):
        called(lambda q: F.scaled_dot_product_attention(q, q, q, torch.ones(16, 16, dtype=torch.bool)), q)
    with pytest.raises(ValueError, match="attention: 'flash3'; right are cudnn"):
        called(attend, q, attention="flash3")


# -- what resists -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [torch.cos, torch.sigmoid, torch.exp, lambda x: x.sum(0), lambda x: x.softmax(0),
                                      lambda x: torch.rand(3), lambda x: F.dropout(x, 0.5), lambda x: x @ x[0],
                                      lambda x: x**0.5, lambda x: torch.add(x, x, alpha=0.3)])  # fmt: skip
def test_an_operation_whose_bits_are_not_known_is_an_error(function):
    with pytest.raises(NotImplementedError, match="^predict: "):
        called(function, spread(torch.bfloat16, 8, 8))


def test_what_is_left_to_the_cpu_is_listed():
    x = spread(torch.bfloat16, 8)
    y, account = called(lambda x: x.cos() + x, x, account=True, allow_other=True)
    assert account.left == ["cos"] and "left to the CPU" in str(account)
    assert_same(y, cast(wide(x.cos()) + wide(x), torch.bfloat16))
    with pytest.warns(UserWarning, match="left to the CPU: cos"):
        called(torch.cos, x, allow_other=True)


def test_shapes_indices_and_dropout_pass_through():
    def forward(x):
        x = F.dropout(x.view(4, 6).T.contiguous(), 0.5, False)
        parts = torch.cat(x.split(2), -1)[:, torch.arange(3)]
        return parts.masked_fill(torch.ones(2, 3, dtype=torch.bool).tril(), 2.0)

    x = spread(torch.float16, 24)
    y, account = called(forward, x, account=True)
    assert torch.equal(y, forward(x)) and {r.how for r in account} == {"passed through"}


def test_autocast_compiled_modules_and_other_devices_are_refused():
    with torch.autocast("cpu"), pytest.raises(NotImplementedError, match="autocast"):
        called(lambda x: x, torch.ones(1))

    def inside(device):
        with torch.autocast(device):
            return torch.ones(2, 2) @ torch.ones(2, 2)

    for device in ("cpu", "cuda"):
        with pytest.raises(NotImplementedError, match="autocast"):
            called(inside, device)
    with pytest.raises(ValueError, match="on the CPU"):
        called(lambda x: x, torch.ones(1, device="meta"))
    with pytest.raises(TypeError, match="torch.nn.Module"):
        predict(torch.cos, torch.ones(1))
    with pytest.raises(NotImplementedError, match="fast path"):
        predict(nn.MultiheadAttention(8, 2, batch_first=True).eval(), *[torch.ones(1, 3, 8)] * 3)


def test_a_module_is_fed_what_was_recorded():
    class Angles(nn.Module):
        def forward(self, x):
            return x.cos(), x.sin()

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.angles = Angles()

        def forward(self, x):
            cos, sin = self.angles(x)
            return x * cos + x * sin

    model, x = Turned(), spread(torch.float32, 10)
    tables = (spread(torch.float32, 10, seed=1), spread(torch.float32, 10, seed=2))
    with pytest.raises(NotImplementedError, match="cos in angles"):
        predict(model, x)
    y, account = predict(model, x, feed={"angles": tables}, account=True)
    assert_same(y, wide(x) * wide(tables[0]) + wide(x) * wide(tables[1]))
    assert ("angles", 1, "fed") in [(r.operation, r.count, r.how) for r in account]
    again = predict(model, x, feed={"angles": [tables]})
    assert torch.equal(again, y) and "forward" not in model.angles.__dict__
    with pytest.raises(ValueError, match="more often"):
        predict(model, x, feed={"angles": []})
    with pytest.raises(ValueError, match="no part 'angle'"):
        predict(model, x, feed={"angle": tables})


def test_nothing_stays_behind():
    from torch.nn.modules import module as modules

    layer = nn.Linear(8, 8)
    for function in (lambda x: x.cos(), lambda x: layer(x)):
        try:
            called(function, torch.ones(2, 8))
        except NotImplementedError:
            pass
        assert not modules._global_forward_hooks and not modules._global_forward_pre_hooks
        assert not modules._global_forward_hooks_always_called
        assert torch.ones(3).cos().shape == (3,) and torch.is_grad_enabled()


# -- recordings ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def block_models():
    sys.path.insert(0, str(GOLDEN))
    try:
        import block_models

        yield block_models
    finally:
        sys.path.remove(str(GOLDEN))


def test_what_kernels_would_add_otherwise_or_not_at_all_resists():
    base = spread(torch.bfloat16, 5, 1001)
    for f in (lambda x: x.sum(-1), lambda x: torch.softmax(x, -1), lambda x: F.layer_norm(x, (1001,))):
        called(f, base)
        with pytest.raises(NotImplementedError, match="16 bytes"):
            called(f, base[1:])
    for f in (lambda x: x.sum(-1), lambda x: torch.softmax(x, -1), F.gelu):
        with pytest.raises(NotImplementedError, match="empty"):
            called(f, base[:, :0])
    with pytest.raises(ValueError, match="plans: .*splat"):
        predict(nn.Linear(16, 4).bfloat16(), spread(torch.bfloat16, 2, 16), plans={(2, 4, 16): "splat:3"})


def recorded_runs(path=GOLDEN / "blocks.tsv"):
    """(model, type, attention, seed) -> its rows in order."""
    runs = {}
    if path.exists():
        lines = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]
        for row in lines[1:]:
            run = dict(zip(lines[0], row))
            runs.setdefault((run["model"], run["type"], run["attention"], int(run["seed"])), []).append(run)
    return runs


def test_models_of_the_recordings_are_functions_of_their_seeds(block_models):
    model, (tokens,) = block_models.build("llama", "bf16", 2)
    assert tokens.shape == (1, 128) and tokens[0, :3].tolist() == [761, 649, 998]
    assert f"{block_models.weights_hash(model):016X}" == "5885B028AE6399D4"


RUNS = recorded_runs()
FEW = [run for run in RUNS if run[3] == 1 and (run[1] == "bf16") == (run[2] == "cudnn") and run[:2] not in (("gpt", "bf16"), ("llama", "fp16"))]
CHOSEN = list(RUNS) if float(os.environ.get("NARROW_TEST_SCALE", "1")) > 1 else FEW


@pytest.mark.skipif(not RUNS, reason="data/golden/blocks.tsv is not there: record_blocks.py makes it on an H200")
@pytest.mark.parametrize("run", CHOSEN, ids=lambda run: "-".join(map(str, run)))
def test_a_recorded_model_is_predicted_stage_by_stage(block_models, run):
    kind, type_name, attention, seed = run
    of = block_models.inputs_of
    model, inputs = block_models.build(kind, type_name, seed)
    stages, _ = block_models.stages(model, lambda: predict(model, *inputs, attention=attention))
    hashes = {"weights": block_models.weights_hash(model)}
    hashes["input"] = of.hash_of(inputs[0].flatten() if inputs[0].dtype == torch.int64 else of.codes_of(inputs[0]))
    first = {}
    for name, out in stages:
        codes = of.codes_of(out)
        hashes[name], first[name] = of.hash_of(codes), block_models.first_codes(codes)
    differ = [r for r in RUNS[run] if f"{hashes[r['stage']]:016X}" != r["hash"]]
    if differ:
        r = differ[0]
        pytest.fail(f"{len(differ)} of {len(RUNS[run])} stages differ, first {r['stage']} ({r['shape']}): "
                    f"{r['first']} was recorded, {first.get(r['stage'], '-')} is predicted; kernels {r['kernels']}")  # fmt: skip
