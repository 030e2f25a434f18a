"""The scale rules of checkpoints against the package that writes them, where it is installed: codes, scales and factor."""

import numpy as np
import pytest

import narrow

torch = pytest.importorskip("torch")
helpers = pytest.importorskip("compressed_tensors.quantization.utils.helpers")
forward = pytest.importorskip("compressed_tensors.quantization.lifecycle.forward_helpers")
from compressed_tensors.quantization import QuantizationArgs  # noqa: E402

FORMATS = {
    "nvfp4:ct_nvfp4": (dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, scale_dtype=torch.float8_e4m3fn), 16, "e2m1"),
    "mxfp4:ct_mx": (dict(num_bits=4, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8), 32, "e2m1"),
    "mxfp8_e4m3:ct_mx": (dict(num_bits=8, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8), 32, "e4m3"),
    "fp8_row:ct_fp8": (dict(num_bits=8, type="float", strategy="channel"), 256, "e4m3"),
    "int8_row:ct_int": (dict(num_bits=8, type="int", strategy="channel"), 256, "int8"),
    "int4_1x32:ct_int": (dict(num_bits=4, type="int", strategy="group", group_size=32), 32, "int4"),
    "int4_1x128:ct_int": (dict(num_bits=4, type="int", strategy="group", group_size=128), 128, "int4"),
}  # fmt: skip


def tensors():
    rng = np.random.default_rng(3)
    for spread in (0.02, 1.0, 1e-30, 1e30):
        yield (rng.standard_normal((6, 256)) * spread).astype(np.float32)
    x = (rng.integers(-64, 65, (6, 256)) * 0.125).astype(np.float32)  # ties, zeros
    x[1], x[2, :32], x[3, 40] = 0, -0.0, -0.0
    yield x
    yield np.zeros((2, 256), np.float32)
    yield np.ldexp(rng.standard_normal((6, 256)), rng.integers(-140, 100, (6, 256))).astype(np.float32)


@pytest.mark.parametrize("name", FORMATS)
def test_compressed_tensors_writes_the_same_bits(name):
    settings, block, element = FORMATS[name]
    args = QuantizationArgs(symmetric=True, **settings)
    for x in tensors():
        data = torch.from_numpy(x)
        blocks = data.reshape(x.shape[0], -1, block)
        factor = helpers.generate_gparam(data.amin(), data.amax()) if name.startswith("nvfp4") else None
        scale, zero = helpers.calculate_qparams(blocks.amin(-1), blocks.amax(-1), args, global_scale=factor)
        low, high = helpers.calculate_range(args, "cpu")
        wanted = forward._quantize(blocks.clone(), scale.unsqueeze(-1).float(), zero.unsqueeze(-1), low, high, args,
                                   global_scale=factor)  # fmt: skip
        q = narrow.quantize(x, name)
        assert np.array_equal(np.asarray(q.scales).ravel(), scale.float().numpy().ravel())
        assert np.array_equal(narrow.decode(np.asarray(q.codes), element).ravel().view(np.uint32),
                              (wanted.float().numpy().ravel() + (0 if element.startswith("int") else -0.0)).view(np.uint32))  # fmt: skip
        decoded = forward._dequantize(wanted, scale.unsqueeze(-1).float(), None, global_scale=factor)
        assert np.array_equal(np.asarray(q.dequantize()).ravel(), decoded.float().numpy().ravel())
        if factor is not None:
            assert q.tensor_scale == pytest.approx(1 / float(factor), rel=1e-6)
