"""Products and what made them; files; the assertions of narrow.testing."""

import json
from pathlib import Path

import numpy as np
import pytest

import narrow
from narrow import testing
from optional import optional

torch = optional("torch")


def normal(shape, seed=0, dtype=np.float16):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("model", ["hopper.wgmma.f32.f16.f16", "ampere.mma.f32.bf16.bf16.k16", "volta.mma.f32.f16.f16.k4",
                                   "hopper.wgmma.f32.e4m3.e5m2", "hopper.wgmma.f16.f16.f16", "ampere.mma.f32.tf32.tf32.k8"])  # fmt: skip
def test_matmul_is_the_programs(model, program, tmp_path):
    a, b = normal((9, 70), 1, np.float32), normal((70, 8), 2, np.float32)
    np.save(tmp_path / "a.npy", a), np.save(tmp_path / "b.npy", b)
    theirs = program("gemm", "--model", model, "--plan", "split:32", "--a", tmp_path / "a.npy", "--b", tmp_path / "b.npy", "--round", "-o", tmp_path / "d.npy")
    mine = narrow.matmul(a, b, model=model, plan="split:32")
    assert theirs["plan"] == "split:32" and np.array_equal(mine, np.load(tmp_path / "d.npy"))
    assert mine.dtype == (np.float16 if ".f16.f16.f16" in model else np.float32)


def test_one_dot_product_is_one_element():
    a, b = normal((3, 40), 3), normal((40, 2), 4)
    for model in ("hopper.wgmma.f32.f16.f16", "turing.mma.f16.f16.f16.k8", "software.fma.f32.f16.f16"):
        d = narrow.matmul(a, b, model=model)
        for i in range(3):
            for j in range(2):
                assert narrow.dot(a[i], b[:, j], model=model) == d[i, j]
                code = narrow.dot(a[i].view(np.uint16), b[:, j].copy().view(np.uint16), np.uint32(0), model=model)
                assert narrow.decode(np.array([code], np.uint32), "fp16" if ".f16.f16.f16" in model else "fp32")[0] == d[i, j]


def test_options_of_a_product():
    a, b = normal((4, 128), 5), normal((128, 6), 6)
    model = "hopper.wgmma.f32.f16.f16"
    plain = narrow.matmul(a, b, model=model)
    assert np.array_equal(narrow.matmul(a, b, model=model, alpha=2.0), 2 * plain)
    assert np.array_equal(narrow.matmul(a, b, model=model, scale_a=0.5, scale_b=np.float32([4])), 2 * plain)
    assert np.array_equal(narrow.matmul(a, b, model=model, bias=np.arange(6, dtype=np.float32)), plain + np.arange(6, dtype=np.float32))
    assert narrow.matmul(a, b, model=model, out_format="fp16").dtype == np.float16
    assert np.array_equal(narrow.matmul(a.astype(np.float32), b, a_format="fp16", model=model), plain)
    assert np.array_equal(narrow.matmul(a.view(np.uint16), b, a_format="fp16", model=model), plain)
    assert np.array_equal(narrow.matmul(np.asfortranarray(a), b[:, ::-1][:, ::-1], model=model), plain)
    assert narrow.matmul(np.stack([a, a]), np.stack([b, b]), model=model).shape == (2, 4, 6)
    t = torch.from_numpy(a)
    assert torch.equal(narrow.matmul(t, torch.from_numpy(b), model=model), torch.from_numpy(plain))
    assert narrow.matmul(t.bfloat16(), torch.from_numpy(b).bfloat16(), model="hopper.wgmma.f32.bf16.bf16", out_format="bf16").dtype == torch.bfloat16
    with pytest.raises(ValueError, match="K agrees"):
        narrow.matmul(a, a, model=model)
    with pytest.raises(ValueError, match="not both"):
        narrow.matmul(a, b, plain, bias=plain[0], model=model)
    with pytest.raises(ValueError, match="hopper"):
        narrow.matmul(a, b, model="hoper.wgmma.f32.f16.f16")


def test_validate_names_the_plan(program, tmp_path):
    a, b = normal((16, 512), 7), normal((512, 16), 8)
    d = narrow.matmul(a, b, model="hopper.wgmma.f32.f16.f16", plan="split:128")
    v = narrow.validate(a, b, d, gpu="h200")
    assert v.exact and v.model == "hopper.wgmma.f32.f16.f16" and "split:128" in {m.plan for m in v.candidates} and v.equal_count == v.total == 256
    assert v.max_ulp == 0 and v.suspicion == "" and {"model", "plan"} <= set(v.candidates[0]) and "bit-exact" in v.report()
    assert narrow.explain(a, b, d, gpu="h200", plan="split:128").startswith("Hopper wgmma, K split at 128, every bit")
    for name, x in {"a": a, "b": b, "d": d}.items():
        np.save(tmp_path / f"{name}.npy", x)
    theirs = program("validate", "--gpu", "h200", *sum(([f"--{n}", tmp_path / f"{n}.npy"] for n in "abd"), []))
    assert {k: v.record[k] for k in theirs} == theirs
    wrong = d.copy()
    wrong[3, 4] *= 2
    v = narrow.validate(a, b, wrong)
    assert not v.exact and v.equal_count == 255 and "255 of 256" in narrow.explain(a, b, wrong)
    out = narrow.round(d, "bf16")
    assert narrow.validate(a, b, out, out_format="bf16").exact


def test_a_product_in_software_is_named():
    a = normal((24, 96), 9, np.float32)
    said = narrow.explain(a, a.T, sums(a, a.T, range(96)))
    assert said.startswith("Software, multiplications and additions in order, every bit")
    shuffled = narrow.explain(a, a.T, sums(a, a.T, np.random.default_rng(1).permutation(96)))
    assert shuffled.startswith("No arithmetic known here makes these bits")


def test_files(tmp_path, program):
    x = {"w": normal((4, 6), 1, np.float32), "h": normal((3,), 2), "n": np.arange(5, dtype=np.int32), "z": np.zeros((0, 2), np.float32)}
    path = tmp_path / "x.safetensors"
    narrow.save(path, x | {"t": torch.ones(2, 2, dtype=torch.bfloat16)}, {"made": "here"})
    file = narrow.load(path)
    assert set(file) == {"w", "h", "n", "z", "t"} and file.metadata["made"] == "here" and file["t"].type == "BF16"
    for name, array in x.items():
        assert np.array_equal(np.asarray(file[name]), array) and file[name].numpy().dtype == array.dtype
    assert np.array_equal(np.asarray(file["t"]), np.ones((2, 2))) and file["t"].codes().tolist() == [[0x3F80] * 2] * 2
    assert file["w"].numpy().base is not None and not file["w"].numpy().flags.writeable
    assert narrow.statistics(file["w"], ["e4m3"]) == narrow.statistics(x["w"], ["e4m3"])
    assert {t["name"] for t in program("inspect", path)["tensors"]} == set(file)
    with pytest.raises(ValueError, match="no such file"):
        narrow.load(tmp_path / "none.safetensors")
    with pytest.raises(KeyError):
        file["none"]


def test_block_quantised_tensors_are_one(tmp_path, program):
    x = normal((4, 64), 3, np.float32)
    np.save(tmp_path / "x.npy", x)
    program("cast", tmp_path / "x.npy", tmp_path / "q.safetensors", "--to", "mxfp8_e4m3")
    file = narrow.load(tmp_path / "q.safetensors")
    (tensor,) = file.values()
    assert tensor.format.startswith("mxfp8_e4m3") and np.array_equal(np.asarray(tensor), narrow.quantize(x, "mxfp8_e4m3").dequantize())


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp4", "nvfp4", "nvfp4:torchao_nvfp4", "nvfp4:te_4over6"])
def test_quantized_arrays_are_saved_as_cast_does(name, tmp_path, program):
    x = normal((4, 64), 4, np.float32)
    np.save(tmp_path / "x.npy", x)
    program("cast", tmp_path / "x.npy", tmp_path / "theirs.safetensors", "--to", name)
    theirs = narrow.load(tmp_path / "theirs.safetensors")
    (tensor,) = theirs
    narrow.save(tmp_path / "mine.safetensors", {tensor: narrow.quantize(x, name)})
    mine = narrow.load(tmp_path / "mine.safetensors")
    assert mine[tensor].format == theirs[tensor].format and np.array_equal(np.asarray(mine[tensor]), np.asarray(theirs[tensor]))
    with pytest.raises(ValueError, match="axis 0"):
        narrow.save(tmp_path / "mine.safetensors", {"x": narrow.quantize(x, "mxfp4", axis=0)})


@pytest.mark.parametrize("shape", [(3, 33), (7,), (1, 7), (2, 3, 5)])
@pytest.mark.parametrize("name", ["mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "bfp4x16"])
def test_odd_counts_of_codes_fill_files(shape, name, tmp_path):
    q = narrow.quantize(np.ones(shape, np.float32), name)
    narrow.save(tmp_path / "q.safetensors", {"w": q})
    assert np.array_equal(narrow.load(tmp_path / "q.safetensors")["w"].numpy(), q.dequantize())
    q.scales = q.scales[..., :0]
    with pytest.raises(ValueError, match="fit"):
        narrow.save(tmp_path / "q.safetensors", {"w": q})


def test_types_outlive_a_copy(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    path, copy = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    narrow.save(path, {"h": torch.ones(3, dtype=torch.bfloat16), "z": np.ones(2, ml_dtypes.float8_e4m3fnuz), "s": np.array(1.5)})
    narrow.save(copy, dict(narrow.load(path)))
    file = narrow.load(copy)
    assert file["h"].type == "BF16" and file["s"].shape == () and np.asarray(file["s"]) == 1.5
    assert narrow.load(path)["z"].format == "e4m3fnuz" and np.asarray(narrow.load(path)["z"]).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="npy"):
        narrow.save(tmp_path / "a.npy", {"h": torch.ones(3, dtype=torch.bfloat16)})
    with pytest.raises(TypeError, match="by name"):
        narrow.save(path, [1])


def test_integer_models():
    model = "ampere.mma.s32.s8.s8.k32"
    assert narrow.dot(np.float16([2, 3]), [1, 1], model=model) == 5.0
    assert narrow.matmul(np.float32([[2, 3]]), np.float32([[1], [1]]), model=model, a_format="s8", b_format="s8").tolist() == [[5]]
    for wrong in ([300.0], [1.7], [np.nan]):
        with pytest.raises(ValueError, match="integers from -128"):
            narrow.dot(wrong, [1.0], model=model)
    with pytest.raises(ValueError, match="c:"):
        narrow.dot([1.0], [1.0], c=[1.0, 2.0], model=model)
    x = normal((4, 64), 1)
    assert narrow.matmul(x[None], x.T[None], model="hopper.wgmma.f32.f16.f16").shape == (1, 4, 4)


# narrow.testing ------------------------------------------------------------------------------------------------------

PLANS = ["chain", "split:32", "slice:4", "even:3", "promote:32", "split:32,pairwise", "split:32,reversed"]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("model", ["software.fma.f32.f16.f16", "software.pairwise.f32.f16.f16", "hopper.wgmma.f32.f16.f16", "volta.mma.f32.f16.f16.k4"])
def test_every_plan_passes(model, plan):
    a, b = normal((16, 256), 1), normal((256, 16), 2)
    testing.assert_matmul(narrow.matmul(a, b, model=model, plan=plan), a, b)


@pytest.mark.parametrize("break_it", [
    lambda d, a, b: np.zeros_like(d), lambda d, a, b: d.T, lambda d, a, b: d * np.float32(1.001), lambda d, a, b: -d,
    lambda d, a, b: (a[:, :-8].astype(np.float32) @ b[:-8].astype(np.float32)), lambda d, a, b: np.where(np.arange(d.size).reshape(d.shape) == 5, np.nan, d),
    lambda d, a, b: (d.view(np.uint32) ^ np.where(np.arange(d.size).reshape(d.shape) == 7, np.uint32(1 << 20), np.uint32(0))).view(np.float32),
])  # fmt: skip
@pytest.mark.parametrize("rigorous", [False, True])
def test_what_is_wrong_fails(break_it, rigorous):
    a, b = normal((32, 256), 1), normal((256, 32), 2)
    d = narrow.matmul(a, b, model="software.fma.f32.f16.f16")
    testing.assert_matmul(d, a, b, rigorous=rigorous)
    with pytest.raises(AssertionError, match="outputs lie beyond"):
        testing.assert_matmul(break_it(d, a, b).astype(np.float32), a, b, rigorous=rigorous)


def test_fp16_sums_do_not_pass_for_fp32():
    a, b = normal((16, 512), 3), normal((512, 16), 4)
    d = narrow.matmul(a, b, model="hopper.wgmma.f16.f16.f16")
    testing.assert_matmul(d, a, b, accumulate="fp16")
    with pytest.raises(AssertionError):
        testing.assert_matmul(d, a, b)
    truncated = narrow.matmul(a, b, model="hopper.wgmma.f32.f16.f16")
    testing.assert_matmul(truncated, a, b, accumulate="hopper.wgmma.f32.f16.f16")
    with pytest.raises(ValueError, match="accumulate"):
        testing.bound(a, b, accumulate="fp8")


@pytest.mark.parametrize("k", [64, 512, 4096, 16384])
def test_the_bound_is_near_what_is_seen(k):
    """Over all plans the errors stay below the bound, and the bound below 8 times the largest of them."""
    a, b = normal((64, k), 5), normal((k, 64), 6)
    limit = testing.bound(a, b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = [np.abs(narrow.matmul(a, b, model=model, plan=plan) - exact) for model in ("software.fma.f32.f16.f16", "software.muladd.f32.f16.f16",
              "software.pairwise.f32.f16.f16") for plan in (["chain"] if "pairwise" in model else ["chain", "slice:4", "promote:32", "even:3"])]  # fmt: skip
    largest = max(e.max() for e in errors)
    assert all((e <= limit).all() for e in errors)
    assert limit.max() <= 8 * largest
    assert (limit <= testing.bound(a, b, rigorous=True)).all()


def test_ordered_data_counts():
    """Positive products first, negative ones last: partial sums are large though the sum is not."""
    k = 4096
    a = np.ones((8, k), np.float32)
    b = np.concatenate([np.full(k // 2, 1.1), np.full(k // 2, -1.1)]).astype(np.float32)[:, None] * (1 + normal((k, 8), 1, np.float32) / 100)
    testing.assert_matmul(narrow.matmul(a, b, model="software.muladd.f32.f32.f32", plan="chain"), a, b)


def sums(a, b, order, chains=1):
    """FP32 sums of FP32 products along K in this order, in so many interleaved chains."""
    total = np.zeros((chains, a.shape[0], b.shape[1]), np.float32)
    for i, k in enumerate(order):
        total[i % chains] += a[:, k, None] * b[None, k]
    return total.sum(axis=0, dtype=np.float32)


@pytest.mark.parametrize("k", [256, 4096])
def test_data_of_few_values_counts(k):
    """Constant and quantised operands repeat their rounding errors: the bound knows it."""
    a = narrow.round(np.abs(normal((4, k), 1, np.float32)), "e2m1") * np.float32(0.1)
    b = np.ones((k, 4), np.float32) * np.float32([1, 0.5, 0.3, 0.9])
    for x, y in ((a, b), (np.full((2, k), 0.1, np.float32), np.ones((k, 2), np.float32))):
        limit, exact = testing.bound(x, y), x.astype(np.float64) @ y.astype(np.float64)
        for found in (sums(x, y, range(k)), sums(x, y, range(k)[::-1]), sums(x, y, range(k), 2)):
            assert (np.abs(found - exact) <= limit).all()


def test_what_a_test_must_not_let_pass():
    with pytest.raises(AssertionError, match="no number of fp16"):
        testing.assert_cast(lambda x: x, "fp16")

    def spoils_its_input(x):
        x[:] = 0
        return np.zeros(x.shape, np.uint8)

    with pytest.raises(AssertionError):
        testing.assert_cast(spoils_its_input, "e4m3")
    a, b = normal((8, 64), 1), normal((64, 8), 2)
    buffer = np.empty((8, 8), np.float32)

    def reuses(p, q):
        buffer[: len(p)] = len(p)
        return buffer[: len(p)]

    def wrong_in_the_middle(p, q):
        d = p.astype(np.float32) @ q.astype(np.float32)
        if len(p) == 8:
            d[3] += 1
        return d

    for fn in (reuses, wrong_in_the_middle):
        with pytest.raises(AssertionError, match="differ"):
            testing.assert_batch_invariant(fn, a, b, [1, 4, 8])
    large = np.tile(a, (1, 64)).astype(np.float16)
    with pytest.raises(AssertionError):
        testing.assert_matmul(np.zeros((8, 8), np.float16), large, np.tile(b, (64, 1)), accumulate="fp16", rigorous=True)
    infinite = a.copy()
    infinite[0, 0] = np.inf
    with np.errstate(invalid="ignore"):
        d = narrow.matmul(infinite, b, model="software.fma.f32.f16.f16")
    testing.assert_matmul(d, infinite, b, rigorous=True)
    d[0] = 0
    with pytest.raises(AssertionError):
        testing.assert_matmul(d, infinite, b, rigorous=True)


def test_what_a_test_must_let_pass():
    a, b = normal((8, 64), 1), normal((64, 8), 2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    testing.assert_matmul(narrow.round(exact * 32, "e4m3", overflow="saturate"), a, b * np.float16(32), out_format="e4m3")
    testing.assert_matmul(exact, a, b, accumulate="fp64")
    testing.assert_matmul(narrow.round(exact.astype(np.float32), "bf16"), a, b, out_format="bf16")
    testing.assert_matmul(exact[None].astype(np.float32), a[None], b[None])
    testing.assert_matmul((exact + np.arange(8)).astype(np.float32), a, b, np.arange(8, dtype=np.float32))
    testing.assert_matmul(np.zeros((2, 3), np.float32), np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32))


def test_batch_invariance():
    x, w = normal((32, 256), 1), normal((256, 16), 2)
    testing.assert_batch_invariant(lambda a, b: narrow.matmul(a, b, model="hopper.wgmma.f32.f16.f16"), x, w)
    by_size = lambda a, b: narrow.matmul(a, b, model="hopper.wgmma.f32.f16.f16", plan="chain" if len(a) < 8 else "split:64")
    with pytest.raises(AssertionError, match=r"batch of 8 rows(.|\n)*:64"):
        testing.assert_batch_invariant(by_size, x, w, [1, 4, 8, 32])


def test_cast_kernels():
    testing.assert_cast(lambda x: torch.from_numpy(x).to(torch.float16), "fp16")
    testing.assert_cast(lambda x: narrow.round(x, "e5m2"), "e5m2", inputs="fp16")
    with pytest.raises(AssertionError, match="inputs differ"):
        testing.assert_cast(lambda x: narrow.encode(x, "e4m3", rounding="nearest_away"), "e4m3", inputs="fp16")
    with pytest.raises(AssertionError, match="shape"):
        testing.assert_cast(lambda x: narrow.encode(x, "e4m3")[:-1], "e4m3")


NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, capsys):
    notebook = json.loads(path.read_text())
    names: dict = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, "committed without output"
            exec(compile("".join(cell["source"]), path.name, "exec"), names)
    assert len(capsys.readouterr().out) > 100


def test_an_epilogue_is_applied_to_the_sum_or_to_what_was_rounded():
    x = np.random.default_rng(3).standard_normal((24, 64)).astype(np.float16)
    model, bias = "hopper.wgmma.f32.f16.f16", np.linspace(-1, 1, 24).astype(np.float16)
    plain = narrow.matmul(x, x.T, bias=bias, model=model)
    relu = narrow.matmul(x, x.T, bias=bias, model=model, epilogue="bias+relu")
    assert np.array_equal(relu, np.maximum(plain, 0))
    fused = narrow.matmul(x, x.T, model=model, out_format="fp16", epilogue="gelu")
    apart = narrow.matmul(x, x.T, model=model, out_format="fp16", epilogue="round+gelu")
    assert np.array_equal(apart, narrow.op("gelu", narrow.matmul(x, x.T, model=model, out_format="fp16")))
    assert (fused != apart).any()
    assert narrow.validate(x, x.T, fused, epilogue="gelu", model=model).exact
    assert narrow.validate(x, x.T, fused, model=model).relation == "gelu"
    with pytest.raises(ValueError, match="swish"):
        narrow.matmul(x, x.T, model=model, epilogue="swish")
