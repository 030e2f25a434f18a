"""Arrays on a CUDA device against the host: torch's and cupy's where there is a GPU; else torch's CPU memory taken for a
device, with kernels that call the host, so that all but the kernels themselves is tested everywhere."""

import ctypes
import types

import numpy as np
import pytest

import narrow
from narrow import _device, _kernels, _narrow

torch = pytest.importorskip("torch")
HAS_GPU = _device.KERNELS is not None and torch.cuda.is_available()


def at(address, count, dtype):
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype) if count else np.empty(0, dtype)


def codes_at(address, count, size):
    return at(address, count, f"u{size}")


def product(model, plan, shape, a, b, c, d, *where):
    """By way of the host, from addresses and strides."""
    m, n, k = shape
    of_a, of_b, of_sum = _narrow.model_formats(model)

    def matrix(operand, rows, columns, turned, format):
        address, size, line, step = operand
        count = (rows - 1) * line + (columns - 1) * step + 1 if not turned else (columns - 1) * line + (rows - 1) * step + 1
        steps = (step * size, line * size) if turned else (line * size, step * size)
        words = np.lib.stride_tricks.as_strided(codes_at(address, count, size), (rows, columns), steps)
        return narrow.decode(np.ascontiguousarray(words), "fp32" if format == "tf32" else format)

    kind = {"fp32": np.float32, "fp16": np.float16}[of_sum]
    given = None if c == 0 else at(c, m * n, kind).reshape(m, n)
    result = narrow.matmul(matrix(a, m, k, False, of_a), matrix(b, k, n, True, of_b), given, model=model, plan=plan)
    at(d, m * n, kind)[:] = result.ravel()
    return True


def one_walk(done):
    assert done, "a kernel was given memory that overlaps"


MEMORY = types.SimpleNamespace(
    round=lambda p, i, o, n, seed, *where: one_walk(_narrow.round(p, at(i, n, "f4"), at(o, n, "f4"), seed)),
    encode=lambda p, i, o, size, n, seed, *where: one_walk(_narrow.encode(p, at(i, n, "f4"), codes_at(o, n, size), seed)),
    decode=lambda p, i, size, o, n, *where: one_walk(_narrow.decode(p, codes_at(i, n, size), at(o, n, "f4"))),
    statistics=lambda name, plans, x, n, *where: None,
    histogram=lambda x, n, *where: _narrow.histogram(at(x, n, "f4")),
    matmul=product,
)


class Place:
    """Puts arrays on a device and gets them back."""

    def __init__(self, name):
        self.name = name

    def put(self, array):
        if self.name == "cupy":
            return pytest.importorskip("cupy").asarray(array)
        tensor = array if isinstance(array, torch.Tensor) else torch.from_numpy(np.array(array))
        return tensor.cuda() if self.name == "torch" else tensor

    def get(self, x):
        if self.name == "cupy":
            return x.get()
        assert x.is_cuda == (self.name == "torch")
        return x.cpu().numpy() if str(x.dtype) not in narrow_dtypes else x.cpu()


narrow_dtypes = ("torch.bfloat16", "torch.float8_e4m3fn", "torch.float8_e5m2")


@pytest.fixture(params=["torch", "cupy", "memory"])
def place(request, monkeypatch):
    if request.param == "cupy":
        pytest.importorskip("cupy")
    if request.param == "memory":
        pretended = lambda x: _device.DeviceArray(x) if isinstance(x, torch.Tensor) else None
        monkeypatch.setattr(_device.DeviceArray, "where", (0, 0))
        monkeypatch.setattr(_device.DeviceArray, "place", "torch:cpu")
        monkeypatch.setattr(_device.DeviceArray, "gpu", "sm_90")
        monkeypatch.setattr(_device.DeviceArray, "host", lambda d: Host(d.x))
        monkeypatch.setattr(narrow._arrays, "on_device", pretended)
        for module in (narrow, narrow._histogram, narrow._products, _kernels):
            monkeypatch.setattr(module, "on_device", pretended)
        monkeypatch.setattr(_kernels, "KERNELS", MEMORY)
        given = narrow._arrays.given
        monkeypatch.setattr(narrow._arrays, "given", lambda x: narrow._arrays._from_torch(x.x) if isinstance(x, Host) else given(x))
    elif not HAS_GPU:
        pytest.skip("no GPU, or a build without CUDA")
    return Place(request.param)


class Host:
    """A tensor that is no longer taken for one on a device."""

    def __init__(self, x):
        self.x = x


def same(x, y):
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


CASTS = [{}, {"cast": "torch"}, {"rounding": "toward_zero"}, {"overflow": "saturate"}, {"rounding": "up"},
         {"subnormals": "flush_results"}, {"rounding": "stochastic", "seed": 7}]  # fmt: skip
FORMATS = ["fp16", "bf16", "tf32", "e4m3", "e5m2", "e4m3fnuz", "e2m1", "e8m0", "fp32"]


@pytest.mark.parametrize("format", FORMATS)
def test_casts_are_those_of_the_host(place, spread, format):
    x = spread(100_003, 1)
    on = place.put(x)
    for words in CASTS:
        if words == {"cast": "torch"} and format in ("tf32", "e2m1", "fp32"):
            continue
        codes = narrow.encode(on, format, **words)
        assert type(codes) is type(on)
        wanted = narrow.encode(x, format, **words)
        assert same(place.get(codes), wanted), words
        assert same(place.get(narrow.round(on, format, **words)), narrow.round(x, format, **words)), words
        assert same(place.get(narrow.decode(codes, format)), narrow.decode(wanted, format)), words


def test_layouts(place, spread):
    x = spread(4 * 6 * 10, 2).reshape(4, 6, 10)
    for view in [lambda a: a.swapaxes(0, 2), lambda a: a[:, ::2], lambda a: a[1:, 2:, 3:],
                 lambda a: a[0, 0, 0], lambda a: a[:0], lambda a: a[:, :1]]:  # fmt: skip
        values, on = view(x), view(place.put(x))
        for words in ({}, {"rounding": "stochastic"}):
            assert same(place.get(narrow.round(on, "e4m3", **words)), narrow.round(np.array(values), "e4m3", **words))
            assert same(place.get(narrow.encode(on, "bf16", **words)), narrow.encode(np.array(values), "bf16", **words))
    if place.name == "cupy":
        assert same(place.get(narrow.round(place.put(x)[::-1], "fp16")), narrow.round(x[::-1], "fp16"))


def test_out(place, spread):
    x = spread(600, 3).reshape(20, 30)
    wanted = narrow.round(x, "e5m2")
    on = place.put(x)
    assert narrow.round(on, "e5m2", out=on) is on and same(place.get(on), wanted)
    for out in (place.put(np.zeros((30, 20), np.float32)).T, place.put(np.zeros((20, 60), np.float32))[:, ::2]):
        assert narrow.round(place.put(x), "e5m2", out=out) is out and same(place.get(out), wanted)
    codes = place.put(np.zeros((20, 30), np.uint8))
    narrow.encode(place.put(x), "e5m2", out=codes)
    assert same(place.get(codes), narrow.encode(x, "e5m2"))
    shifted = place.put(np.concatenate([x.ravel(), np.zeros(1, np.float32)]))
    assert same(place.get(narrow.round(shifted[:-1], "e5m2", out=shifted[1:])), wanted.ravel())
    half = place.put(np.zeros((20, 30), np.float16))
    narrow.decode(codes, "e5m2", out=half)
    assert same(place.get(half), narrow.decode(narrow.encode(x, "e5m2"), "e5m2", dtype="float16"))
    for wrong, word in [(np.zeros((20, 30), np.float32), "where"), (place.put(np.zeros((30, 20), np.float32)), "shape"),
                        (place.put(np.zeros((20, 30), np.int32)), "holds"), (object(), "array")]:  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=word):
            narrow.round(place.put(x), "e5m2", out=wrong)


def test_narrow_dtypes(place, spread):
    with np.errstate(over="ignore", invalid="ignore"):
        half = spread(5000, 4).astype(np.float16)
    for format in ("e4m3", "bf16", "fp16"):
        assert same(place.get(narrow.round(place.put(half), format)), narrow.round(half, format))
        assert same(place.get(narrow.encode(place.put(half), format)), narrow.encode(half, format))
    if place.name == "cupy":
        return
    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        x = torch.from_numpy(spread(5000, 5)).to(dtype)
        for format in ("e2m1", "fp16", "e5m2"):
            got, wanted = narrow.round(place.put(x), format), narrow.round(with_numpy(x), format)
            assert str(got.dtype) == f"torch.{wanted.dtype.name}"
            assert got.cpu().view(torch.uint8).numpy().tobytes() == wanted.tobytes()


def with_numpy(x):
    """The same numbers by way of ml_dtypes, never taken for a device's."""
    words = x.view(torch.uint8 if x.element_size() == 1 else torch.int16).numpy()
    return words.view(np.dtype(getattr(pytest.importorskip("ml_dtypes"), str(x.dtype).removeprefix("torch."))))


def test_what_has_no_kernel_goes_through_the_host(place, spread):
    x = spread(300, 6).astype(np.float64)
    assert same(place.get(narrow.round(place.put(x), "fp16")), narrow.round(x, "fp16"))
    integers = np.arange(-8, 300, dtype=np.int32)
    assert same(place.get(narrow.round(place.put(integers), "e4m3")), narrow.round(integers, "e4m3"))
    out = place.put(np.zeros(300))
    assert narrow.round(place.put(x), "e4m3", out=out) is out and same(place.get(out), narrow.round(x, "e4m3"))
    q = narrow.quantize(place.put(spread(256, 7).reshape(4, 64)), "mxfp8_e4m3")
    wanted = narrow.quantize(spread(256, 7).reshape(4, 64), "mxfp8_e4m3")
    assert same(place.get(q.codes), wanted.codes) and same(place.get(q.dequantize()), wanted.dequantize())


def test_files_and_assertions(place, spread, tmp_path):
    x = spread(64, 12).reshape(8, 8)
    narrow.save(tmp_path / "x.safetensors", {"w": place.put(x)})
    assert same(np.asarray(narrow.load(tmp_path / "x.safetensors")["w"]), x)
    narrow.testing.assert_cast(lambda v: narrow.encode(place.put(np.array(v)), "e4m3"), "e4m3")
    with pytest.raises(AssertionError):
        narrow.testing.assert_cast(lambda v: narrow.encode(place.put(np.array(v)), "e4m3", overflow="saturate"), "e4m3")
    a = np.round(x.clip(-4, 4)).astype(np.float16)
    assert narrow.dot(place.put(a[0]), place.put(a[1]), model="hopper.wgmma.f32.f16.f16") == narrow.dot(
        a[0], a[1], model="hopper.wgmma.f32.f16.f16")  # fmt: skip


def test_statistics_and_histogram(place, spread):
    x = spread(100_001, 8)
    order_of_sums = 1e-5  # relative: a device adds in another order, sixteen elements in float
    for words in ({}, {"overflow": "saturate"}, {"rounding": "stochastic", "seed": 3}, {"scale": 8.0}):
        names = ["fp16", "e4m3"] + (["mxfp8_e4m3"] if "scale" in words else [])
        for got, wanted in zip(narrow.statistics(place.put(x), names, **words), narrow.statistics(x, names, **words)):
            assert got.keys() == wanted.keys()
            for key in wanted:
                if isinstance(wanted[key], float):
                    assert got[key] == pytest.approx(wanted[key], rel=order_of_sums, nan_ok=True), key
                else:
                    assert got[key] == wanted[key], (key, words)
    for data in (x, x[np.isfinite(x)], -np.abs(x[np.isfinite(x)]), x[:0], np.float32([np.nan, np.inf, -0.0])):
        got, wanted = narrow.histogram(place.put(data)), narrow.histogram(data)
        assert same(got.counts, wanted.counts) and (got.zero, got.inf, got.nan) == (wanted.zero, wanted.inf, wanted.nan)
        for format in ("fp16", "e4m3", "e8m0"):
            assert got.best_scale(format) == wanted.best_scale(format)


@pytest.mark.parametrize("model, plan, dtype", [
    ("hopper.wgmma.f32.f16.f16", "chain", "f16"), ("hopper.wgmma.f32.f16.f16", "split:48", "f16"),
    ("hopper.wgmma.f16.f16.f16", "chain", "f16"), ("hopper.wgmma.f32.e4m3.e4m3", "promote:64", "f32"),
    ("hopper.wgmma.f32.tf32.tf32", "chain", "f32"), ("software.fma.f32.f32.f32", "chain", "f32"),
    ("hopper.wgmma.f32.bf16.bf16", "chain", "f32"), ("hopper.wgmma.f32.tf32.tf32", "chain,rne", "f32"),
])  # fmt: skip
def test_matmul(place, model, plan, dtype):
    rng = np.random.default_rng(9)
    kind = np.float16 if dtype == "f16" else np.float32
    a, b = rng.standard_normal((37, 160)).astype(kind), rng.standard_normal((53, 160)).astype(kind)
    wanted = narrow.matmul(a, b.T, model=model, plan=plan)
    got = narrow.matmul(place.put(a), place.put(b).T, model=model, plan=plan)
    assert same(place.get(got), wanted)
    assert same(place.get(narrow.matmul(place.put(a)[:, ::2], place.put(b)[:, ::2].T, model=model, plan=plan)),
                narrow.matmul(a[:, ::2], b[:, ::2].T, model=model, plan=plan))  # fmt: skip
    if plan == "chain":
        c = rng.standard_normal(wanted.shape).astype(wanted.dtype)
        assert same(place.get(narrow.matmul(place.put(a), place.put(b).T, place.put(c), model=model)),
                    narrow.matmul(a, b.T, c, model=model))  # fmt: skip
    for format in ("fp16", "e2m1"):
        assert same(place.get(narrow.matmul(place.put(a), place.put(b).T, model=model, plan=plan, out_format=format)),
                    narrow.matmul(a, b.T, model=model, plan=plan, out_format=format)), format  # fmt: skip
    of_a = _narrow.model_formats(model)[0]
    kinds = {} if of_a == "tf32" else {"a_format": of_a, "b_format": of_a}
    v = narrow.validate(place.put(a), place.put(b).T, got, model=model, plan=plan, **kinds)
    assert v.exact and v.total == wanted.size


def test_without_cuda_the_error_says_so(monkeypatch):
    monkeypatch.setattr(_device, "KERNELS", None)
    there = types.SimpleNamespace(__cuda_array_interface__={})
    for call in (lambda: narrow.round(there, "fp16"), lambda: narrow.histogram(there), lambda: narrow.statistics(there)):
        with pytest.raises(TypeError, match="no CUDA"):
            call()
    monkeypatch.setattr(_device, "KERNELS", MEMORY)
    with pytest.raises(TypeError, match="cupy.asarray"):
        narrow.round(there, "fp16")


gpu = pytest.mark.skipif(not HAS_GPU, reason="no GPU, or a build without CUDA")


@gpu
def test_the_current_stream_is_used(spread):
    x = torch.from_numpy(spread(1 << 22, 10)).cuda()
    wanted = narrow.round(x, "fp16")
    stream = torch.cuda.Stream()
    for _ in range(20):
        y = torch.zeros_like(x)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            y.copy_(x)
            result = narrow.round(y, "fp16", out=torch.empty_like(y))
        stream.synchronize()
        assert torch.equal(result.view(torch.int32), wanted.view(torch.int32))


@gpu
@pytest.mark.parametrize("dtype, format", [("float16", "fp16"), ("bfloat16", "bf16"), ("float8_e4m3fn", "e4m3"),
    ("float8_e5m2", "e5m2"), ("float8_e4m3fnuz", "e4m3fnuz"), ("float8_e5m2fnuz", "e5m2fnuz"), ("float8_e8m0fnu", "e8m0")])  # fmt: skip
def test_torchs_casts_over_all_floats(dtype, format):
    """All 2^32, NaN by its code too."""
    cast = "torch-2.13" if tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 13) else "torch"
    part = 1 << 28
    for n in range(1 << 4):
        words = torch.arange(n * part, (n + 1) * part, device="cuda", dtype=torch.int64).to(torch.int32)
        x = words.view(torch.float32)
        theirs = x.to(getattr(torch, dtype))
        ours = narrow.encode(x, format, cast=cast)
        theirs = theirs.view(torch.uint8 if ours.element_size() == 1 else torch.uint16)
        differ = theirs.view(torch.int8 if ours.element_size() == 1 else torch.int16) != ours.view(
            torch.int8 if ours.element_size() == 1 else torch.int16)  # fmt: skip
        assert not differ.any().item(), [
            (hex(int(w) & 0xFFFFFFFF), hex(int(t)), hex(int(o)))
            for w, t, o in zip(words[differ][:3].tolist(), theirs.view(ours.dtype)[differ][:3].tolist(), ours[differ][:3].tolist())
        ]


@gpu
def test_a_product_of_torch_is_named():
    torch.manual_seed(1)
    a = torch.randn(256, 512, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(512, 256, device="cuda", dtype=torch.bfloat16)
    d = a @ b
    generation = {8: "A", 9: "Hopper", 10: "Blackwell", 12: "RTX Blackwell"}[torch.cuda.get_device_capability()[0]]
    assert narrow.explain(a, b, d).startswith(generation)
    narrow.testing.assert_matmul(d, a, b)
    with pytest.raises(AssertionError):
        narrow.testing.assert_matmul(torch.zeros_like(d), a, b)


def test_jax_comes_back_where_it_was(spread):
    jax = pytest.importorskip("jax")
    if jax.devices()[0].platform != "cpu" and not HAS_GPU:
        pytest.skip("a build without CUDA")
    x = spread(1000, 11)
    for device in {jax.devices()[0], jax.devices("cpu")[0]}:
        for dtype in ("float32", "bfloat16", "float16"):
            on = jax.device_put(jax.numpy.asarray(x, dtype), device)
            for got, wanted in [(narrow.round(on, "e4m3"), narrow.round(np.asarray(on), "e4m3")),
                                (narrow.encode(on, "e5m2"), narrow.encode(np.asarray(on), "e5m2"))]:  # fmt: skip
                assert got.devices() == on.devices()
                assert same(np.asarray(got).view(np.uint8), np.asarray(wanted).view(np.uint8))
        a = jax.device_put(jax.numpy.asarray(x[:64].reshape(4, 16), "bfloat16"), device)
        assert narrow.histogram(a).binades.size == narrow.histogram(np.asarray(a)).binades.size
        d = narrow.matmul(a, a.T, model="hopper.wgmma.f32.bf16.bf16")
        assert d.devices() == a.devices() and narrow.validate(a, a.T, d).exact
