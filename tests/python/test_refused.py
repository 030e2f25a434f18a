"""What would be a wrong answer without a word is refused, in one sentence."""

import numpy as np
import pytest

import narrow
from optional import optional

ml_dtypes, torch = optional("ml_dtypes"), optional("torch")

ONES = np.ones((8, 32), np.float32)
EIGHT_BITS = "hopper.wgmma.f32.e4m3.e4m3"


def fake():
    with pytest.importorskip("torch._subclasses.fake_tensor").FakeTensorMode():
        return torch.ones(3)


def in_one_place():
    return np.lib.stride_tricks.as_strided(np.zeros(7, np.float32), (4, 4), (4, 4))


@pytest.mark.parametrize("kind, words, call", [
    (ValueError, "negated view", lambda: narrow.round(torch.ones(3), "e4m3", out=torch._neg_view(torch.zeros(3)))),
    (ValueError, "conjugate", lambda: narrow.decode(np.uint8([56]), "e4m3", out=torch.zeros(1, dtype=torch.complex64).conj().imag)),
    (ValueError, "one place", lambda: narrow.round(np.ones((4, 4), np.float32), "fp16", out=in_one_place())),
    (TypeError, "out: an array", lambda: narrow.decode(np.uint8([1]), "e4m3", out=[1])),
    (ValueError, "0 to 0xff$", lambda: narrow.decode(np.uint16([300]), "e4m3")),
    (ValueError, "0 to 0xff$", lambda: narrow.decode(np.uint64([2**63]), "e4m3")),
    (ValueError, "0 to 0xf$", lambda: narrow.decode(torch.tensor([255], dtype=torch.uint8), "e2m1")),
    (ValueError, "0 to 0xffff$", lambda: narrow.dot(np.uint32([70000]), np.uint32([1]), model="hopper.wgmma.f32.f16.f16")),
    (ValueError, "0 to 0xf{16}$", lambda: narrow.decode([2**64, 0], "fp64")),
    (ValueError, "0 to 0xf{16}$", lambda: narrow.decode([-1, 2**63], "fp64")),
    (ValueError, "0 to 0xf{16}$", lambda: narrow.decode([1.5, 2], "fp64")),
    (ValueError, "no number of bf16", lambda: narrow.validate(ONES, ONES.T, np.full((8, 8), 0.1), out_format="bf16")),
    (ValueError, "nan.* is no number of e2m1", lambda: narrow.validate(ONES, ONES.T, np.full((8, 8), np.nan), out_format="e2m1")),
    (ValueError, "larger than any FP32", lambda: narrow.matmul(ONES, ONES.T, model=EIGHT_BITS, scale_a=np.full((8, 1), 1e300))),
    (ValueError, "rule says", lambda: narrow.statistics(ONES, ["mxfp4"], rounding="up")),
    (ValueError, "give scale", lambda: narrow.scale_trace({"found_inf": [1, 0, 1, 0]})),
    (ValueError, "right are 0 and 1", lambda: narrow.scale_trace({"found_inf": [300], "amax": [1.0]})),
    (TypeError, "names are needed", lambda: narrow.scale_trace([1.0], [5])),
    (TypeError, "a name is needed", lambda: narrow.scaler(None)),
    (TypeError, "amax: a number", lambda: narrow.scaler("torch").step(amax="x")),
    (ValueError, r"K agrees, not of shapes \(8, 32\)", lambda: narrow.matmul(ONES, ONES, model=EIGHT_BITS)),
    (ValueError, "out_format", lambda: narrow.validate(ONES, ONES.T, np.ones((8, 8), np.uint16))),
    (TypeError, "a: the operand", lambda: narrow.matmul(None, ONES, model=EIGHT_BITS)),
    (TypeError, "a name is needed", lambda: narrow.encode(ONES, 5)),
    (TypeError, "a number is needed", lambda: narrow.histogram([1.0]).lost("e4m3", "a")),
    (TypeError, "name: a text", lambda: narrow.statistics(ONES, ["fp16"], name=5)),
    (TypeError, "formats", lambda: narrow.statistics(ONES, None)),
    (ValueError, "axis: 1.0", lambda: narrow.quantize(ONES, "mxfp4", axis=1.0)),
    (ValueError, "axis: 9", lambda: narrow.quantize(ONES, "mxfp4", axis=9)),
    (TypeError, "FakeTensor", lambda: narrow.round(fake(), "fp16")),
    (TypeError, "by name", lambda: narrow.save("x.safetensors", {5: ONES})),
    (TypeError, "metadata", lambda: narrow.save("x.safetensors", {"a": ONES}, metadata={"a": 5})),
    (ValueError, "UTF-8", lambda: narrow.load("\udc80.safetensors")),
])  # fmt: skip
def test_refused(kind, words, call):
    with pytest.raises(kind, match=words) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1


def test_taken():
    assert narrow.decode([0xBFF0000000000000, 0], "fp64").tolist() == [-1.0, 0.0]
    assert narrow.matmul(ONES.astype(np.float64), ONES.T, model="hopper.wgmma.s32.s8.s8")[0, 0] == 32
    by_integer, by_numpy = (narrow.round([0.1], "fp16", rounding="stochastic", random_bits=n) for n in (9, np.int64(9)))
    assert by_integer == by_numpy
    assert isinstance(narrow.round(ml_dtypes.bfloat16(1.5), "bf16"), ml_dtypes.bfloat16)
    assert narrow.round(torch.nn.Parameter(torch.ones(3)).bfloat16(), "e4m3").tolist() == [1, 1, 1]


@pytest.mark.parametrize("rule", [None, "torchao_nvfp4"])
def test_tensor_scale_is_a_factor(rule):
    q = narrow.quantize(np.float32([[6, 3, 1, 0.5] * 8]), "nvfp4", rule)
    values = narrow.decode(q.codes, "e2m1") * np.repeat(q.scales, 16, 1) * np.float32(q.tensor_scale)
    assert values == pytest.approx(q.dequantize(), rel=2**-22)  # the factors are rounded in another order


def test_files_that_say_too_much(tmp_path):
    path = bytes(tmp_path / "a.safetensors")
    narrow.save(path, {"a": np.arange(4, dtype=np.uint8), "b": ONES}, metadata={"narrow.format.a": "fp16"})
    tensors = narrow.load(path)
    with pytest.raises(ValueError, match="elements of 8 bits"):
        tensors["a"].numpy()
    with pytest.raises(ValueError, match="needs a copy"):
        tensors["b"].__array__(np.float64, copy=False)
