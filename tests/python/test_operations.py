"""Whole operations: the bits are the program's, arrays come back as what they were, and results name their variant."""

import numpy as np
import pytest

import narrow
from optional import optional

torch = optional("torch")
ml_dtypes = optional("ml_dtypes")

ROWS = ["softmax", "log_softmax", "layer_norm", "rms_norm", "gelu", "gelu_tanh", "silu", "sum", "mean", "cross_entropy"]


def normal(shape, seed=0, dtype=np.float16):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def operands(name, dtype=np.float16):
    more = {"layer_norm": {"w": normal(96, 2, dtype), "b": normal(96, 3, dtype), "eps": 1e-4}, "rms_norm": {"w": normal(96, 2, dtype)},
            "cross_entropy": {"target": np.array([[1, 95, 0], [-100, 7, 8]])}}  # fmt: skip
    return {"x": normal((2, 3, 96), 1, dtype), **more.get(name, {})}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_op_is_the_programs(name, dtype, program, tmp_path):
    given = operands(name, dtype)
    words = []
    for key, value in given.items():
        if key != "eps":
            np.save(tmp_path / f"{key}.npy", value)
        words += [f"--{key}", value if key == "eps" else tmp_path / f"{key}.npy"]
    said = program("op", name, *words, "-o", tmp_path / "d.npy")
    mine, theirs = narrow.op(name, **given), np.load(tmp_path / "d.npy")
    assert said["variant"] == "torch" and mine.dtype == dtype and mine.shape == theirs.shape
    assert mine.tobytes() == theirs.tobytes()
    v = narrow.validate_op(name, mine, **given)
    assert v.exact and v.variant == "torch" and v.kernel == said["kernel"] and v.equal_count == v.total == mine.size and v.max_ulp == 0
    asked = program("validate", "--op", name, *words, "--d", tmp_path / "d.npy")
    assert {key: v.record[key] for key in asked} == asked and "bit-exact" in v.report() and "torch" in repr(v)
    assert v.candidates[0].variant == "torch" and v.first_difference is None


def test_the_nearest_variant_and_where_it_differs():
    x = normal((5, 64), 4)
    d = narrow.op("gelu", x)
    d.view(np.uint16)[3, 7] ^= 1
    v = narrow.validate_op("gelu", d, x)
    assert not v.exact and v.variant == "torch" and v.equal_count == v.total - 1 and v.max_ulp == 1
    assert v.first_difference.index == [3, 7] and "not bit-exact" in v.report()
    exact = narrow.op("sum", normal((9, 1000), 5, np.float32), variant="exact")
    assert narrow.validate_op("sum", exact, normal((9, 1000), 5, np.float32)).variant == "exact"
    v = narrow.validate_op("sum", exact, normal((9, 1000), 5, np.float32), variant="torch")
    assert not v.exact and [c.variant for c in v.candidates] == ["torch"]


def test_attention(program, tmp_path):
    q, k, v = normal((2, 4, 20, 32), 1), normal((2, 2, 30, 32), 2), normal((2, 2, 30, 32), 3)
    for name, x in {"q": q, "k": k, "v": v}.items():
        np.save(tmp_path / f"{name}.npy", x)
    words = sum(([f"--{n}", tmp_path / f"{n}.npy"] for n in "qkv"), [])
    said = program("op", "attention", *words, "--scale", "0.2", "-o", tmp_path / "o.npy")
    o = narrow.op("attention", q=q, k=k, v=v, scale=0.2)
    assert said["variant"] == "cudnn" and o.shape == q.shape and o.tobytes() == np.load(tmp_path / "o.npy").tobytes()
    flash = narrow.op("attention", q=q, k=k, v=v, scale=0.2, variant="flash2")
    found = narrow.validate_op("attention", flash, q=q, k=k, v=v, scale=0.2)
    assert found.exact and {"cudnn", "flash2", "double"} <= {c.variant for c in found.candidates}
    causal = narrow.op("attention", q=q, k=q, v=q, causal=True)
    assert np.array_equal(causal[:, :, 0], q[:, :, 0]) and narrow.validate_op("attention", causal, q=q, k=q, v=q, causal=True).exact
    assert not narrow.validate_op("attention", causal, q=q, k=q, v=q).exact


def test_linear_is_matmul():
    x, w, b = normal((2, 5, 200), 1), normal((12, 200), 2), normal(12, 3)
    model = "hopper.wgmma.f32.f16.f16"
    for plan in ("chain", "split:64"):
        d = narrow.op("linear", x, w, b, variant=plan)
        expected = narrow.matmul(x.reshape(10, 200), w.T, model=model, plan=plan, bias=b, out_format="fp16")
        assert d.shape == (2, 5, 12) and d.dtype == np.float16 and np.array_equal(d.reshape(10, 12), expected)
        v = narrow.validate_op("linear", d, x, w, b, variant=plan, model=model)
        assert v.exact and v.variant == f"{model}, {plan}"
    assert np.array_equal(narrow.op("linear", x, w, model="ampere.mma.f32.f16.f16.k16").reshape(10, 12),
                          narrow.matmul(x.reshape(10, 200), w.T, model="ampere.mma.f32.f16.f16.k16", out_format="fp16"))  # fmt: skip
    wrong = narrow.op("linear", x, w, b)
    wrong[1, 4, 11] *= 2
    v = narrow.validate_op("linear", wrong, x, w, b, variant="chain", model=model)
    assert not v.exact and v.equal_count == 119 and v.first_difference.index == [1, 4, 11]


def test_arrays_come_back_as_what_they_were():
    x = normal((4, 50), 6, np.float32)
    plain = narrow.op("softmax", x)
    assert np.array_equal(narrow.op("softmax", np.asfortranarray(x)), plain)
    assert np.array_equal(narrow.op("softmax", np.repeat(x, 2, 1)[:, ::2]), plain)
    assert narrow.op("sum", x[0]).shape == () and narrow.op("sum", x[0]) == narrow.op("sum", x)[0]
    codes = narrow.encode(x, "bf16")
    numbers = narrow.op("softmax", codes, x_format="bf16")
    assert numbers.dtype == np.float32 and np.array_equal(numbers, narrow.op("softmax", x, x_format="bf16"))
    assert narrow.validate_op("softmax", numbers, codes, x_format="bf16", out_format="bf16").exact
    assert narrow.validate_op("softmax", narrow.encode(numbers, "bf16"), codes, x_format="bf16", out_format="bf16").variant == "torch"


def test_tensors_of_torch():
    x = torch.from_numpy(normal((4, 3, 64), 7, np.float32))
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        t = x.to(dtype)
        d = narrow.op("log_softmax", t)
        assert d.dtype == dtype and d.shape == t.shape and narrow.validate_op("log_softmax", d, t).exact
        assert torch.allclose(d.float(), torch.log_softmax(t.float(), -1), atol=0.05)
        assert narrow.op("mean", t.transpose(0, 1)).shape == (3, 4)
        target = torch.tensor([[0, 1, 2]] * 4)
        assert narrow.op("cross_entropy", t, target=target).shape == ()
    w = torch.ones(64)
    assert narrow.op("rms_norm", x.bfloat16(), w).dtype == torch.bfloat16
    assert narrow.op("linear", x.bfloat16(), torch.ones(8, 64).bfloat16()).shape == (4, 3, 8)


def test_arrays_of_ml_dtypes():
    x = normal((4, 64), 8, np.float32).astype(ml_dtypes.bfloat16)
    d = narrow.op("silu", x)
    assert d.dtype == x.dtype and narrow.validate_op("silu", d, x).variant == "torch"


ONES = np.ones((2, 4), np.float16)


@pytest.mark.parametrize("error, words, call", [
    (ValueError, "did you mean 'softmax'", lambda: narrow.op("sofmax", ONES)),
    (ValueError, "x is missing$", lambda: narrow.op("softmax")),
    (ValueError, "target is missing", lambda: narrow.op("cross_entropy", ONES)),
    (ValueError, "takes no w", lambda: narrow.op("softmax", ONES, ONES)),
    (ValueError, "takes no causal", lambda: narrow.op("softmax", ONES, causal=True)),
    (ValueError, "F64", lambda: narrow.op("softmax", [1.0, 2.0])),
    (ValueError, "x_format", lambda: narrow.op("softmax", ONES.view(np.uint16))),
    (ValueError, "it is empty", lambda: narrow.op("softmax", ONES[:0])),
    (ValueError, "no variant|variants of softmax", lambda: narrow.op("softmax", ONES, variant="flash2")),
    (ValueError, "4 is no column", lambda: narrow.op("cross_entropy", ONES, target=[4, 0])),
    (ValueError, "integers are needed", lambda: narrow.op("cross_entropy", ONES, target=[1.0, 0.0])),
    (ValueError, "shape", lambda: narrow.validate_op("softmax", ONES[0], ONES)),
    (ValueError, "F32", lambda: narrow.validate_op("softmax", ONES.astype(np.float32), ONES)),
    (ValueError, "every output is NaN", lambda: narrow.validate_op("silu", ONES * np.float16(np.nan), ONES)),
    (TypeError, "d: the result", lambda: narrow.validate_op("softmax", None, ONES)),
    (TypeError, "name", lambda: narrow.op(3, ONES)),
    (TypeError, "eps", lambda: narrow.op("rms_norm", ONES, eps="x")),
    (TypeError, "variant", lambda: narrow.op("softmax", ONES, variant=3)),
])  # fmt: skip
def test_refused(error, words, call):
    with pytest.raises(error, match=words):
        call()
