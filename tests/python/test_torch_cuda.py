"""narrow.torch on a GPU: operands have the bits that they have on the CPU; hooks and traces see the same tensors."""

import warnings

import numpy as np
import pytest

import narrow

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or narrow._device.KERNELS is None:
    pytest.skip("no GPU, or a build without CUDA", allow_module_level=True)
nn, F = torch.nn, torch.nn.functional

from narrow.torch._precision import Precision, finished, turned_by_hadamard  # noqa: E402

SPECS = [
    {"format": "e4m3", "scaling": "tensor_current"}, {"format": "e5m2", "scaling": "tensor_current"},
    {"format": "int8", "scaling": "tensor_current"}, {"format": "e4m3", "scaling": "tensor_current", "rule": "te_current_pow2"},
    {"format": "e4m3", "scaling": "tensor_current", "rule": "torchao_fp8"},
    {"format": "e4m3", "scaling": "tensor_current", "rule": "torchao_fp8_pow2"},
    {"format": "e4m3", "scaling": "block_1x128"}, {"format": "e4m3", "scaling": "block_128x128"},
    {"format": "e4m3", "scaling": "block_1x128", "rule": "te_block_fp32"},
    {"format": "e4m3", "scaling": "block_128x128", "rule": "deepgemm_fp32"},
    {"format": "e4m3", "scaling": "mx"}, {"format": "e5m2", "scaling": "mx"}, {"format": "e2m1", "scaling": "mx"},
    *({"format": "e4m3", "scaling": "mx", "rule": rule}
      for rule in ("cuda_round_up", "torchao_ceil", "torchao_even", "torchao_rceil", "deepgemm")),
    {"format": "e2m1", "scaling": "nvfp4"}, {"format": "e2m1", "scaling": "nvfp4_16x16"},
    {"format": "e2m1", "scaling": "nvfp4", "rule": "torchao_nvfp4"},
    {"format": "e2m1", "scaling": "nvfp4", "rule": "te_4over6"}, {"format": "e2m1", "scaling": "nvfp4_16x16", "rule": "te_4over6_mse"},
    {"format": "e2m1", "scaling": "nvfp4", "rule": "te_4over6", "rounding": "stochastic"},
    {"format": "e2m1", "scaling": "nvfp4", "rounding": "stochastic"},
    {"format": "e4m3", "scaling": "mx", "rounding": "stochastic"},
    {"format": "e4m3", "scaling": "tensor_current", "rounding": "stochastic"},
]  # fmt: skip


def data(rows, cols, kind):
    rng = np.random.default_rng(rows * 1000 + cols)
    x = rng.standard_normal((rows, cols)).astype(np.float32) * np.exp2(rng.integers(-12, 5, (rows, 1))).astype(np.float32)
    if kind == "specials" and x.size > 8:
        x.flat[3], x.flat[x.size // 2], x.flat[7] = np.inf, np.nan, -0.0
    if kind == "tiny":
        x *= np.float32(2.0**-120)
    if kind == "zeros":
        x[:] = 0
    return torch.from_numpy(x)


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: "-".join(s.values()))
@pytest.mark.parametrize("kind", ["plain", "specials", "tiny", "zeros"])
def test_a_kernel_scales_operands_to_the_bits_of_the_cpu(spec, kind):
    p = Precision(spec)
    for rows, cols, dtype in ((1, 1, torch.float32), (3, 5, torch.bfloat16), (64, 128, torch.float32), (64, 128, torch.bfloat16),
                              (130, 260, torch.float16), (257, 36, torch.float32), (16, 1024, torch.float16)):  # fmt: skip
        x = data(rows, cols, kind).to(dtype)
        for dim in (0, 1):
            here, there = p.operand(x, dim, lambda: 9), p.operand(x.cuda(), dim, lambda: 9)
            a, b = here.values, there.values.float().cpu()
            if kind == "tiny" and there.values.dtype is torch.bfloat16:  # BF16 ends at 2^-133
                a = a.to(torch.bfloat16).float()
                b = torch.where((a - b).abs() <= 2.0**-133, a, b)
            same = (a.contiguous().view(torch.int32) == b.contiguous().view(torch.int32)) | (a.isnan() & b.isnan())
            assert bool(same.all()), (rows, cols, dtype, dim, int((~same).sum()))
            one, two = (np.float32(1 if f.decode is None else float(f.decode)) for f in (here, there))
            assert one.view(np.uint32) == two.view(np.uint32) or (np.isnan(one) and np.isnan(two))


def test_a_large_operand_has_the_bits_of_the_cpu():
    """More than the threads of a grid take at once."""
    x = data(8192, 1024, "plain").to(torch.bfloat16)
    for spec in ({"format": "e4m3", "scaling": "tensor_current"}, {"format": "e4m3", "scaling": "mx"},
                 {"format": "e2m1", "scaling": "nvfp4", "rounding": "stochastic"}):  # fmt: skip
        p = Precision(spec)
        here, there = p.operand(x, 1, lambda: 9).values, p.operand(x.cuda(), 1, lambda: 9).values
        assert torch.equal(here, there.float().cpu()), spec
    tall = data(16 * 65536 + 48, 8, "plain").to(torch.bfloat16)
    p = Precision({"format": "e2m1", "scaling": "nvfp4", "rounding": "stochastic"})
    assert torch.equal(p.operand(tall, 0, lambda: 9).values, p.operand(tall.cuda(), 0, lambda: 9).values.float().cpu())
    assert torch.equal(turned_by_hadamard(tall), turned_by_hadamard(tall.cuda()).cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_hadamard_transform_has_the_same_bits(dtype):
    x = data(37, 20, "plain").to(dtype)
    turned = turned_by_hadamard(x.cuda())
    assert turned.dtype is torch.float32 and torch.equal(turned_by_hadamard(x), turned.cpu())


@pytest.mark.parametrize("format", ["fp32", "bf16", "fp16", "e4m3", "e6m9"])
def test_products_end_with_the_bits_of_the_cpu(format):
    to = Precision({"format": format})
    for cols in (5, 8, 1020):
        d, bias = data(33, cols, "specials"), torch.randn(cols)
        for first, second in ((None, None), (0.37, 1.5), (2.0**-100, 2.0**-60), (2.0**100, 2.0**90)):
            for b in (None, bias):
                for dtype in (torch.float32, torch.bfloat16):
                    scalars = lambda device: (None if f is None else torch.tensor(f, device=device) for f in (first, second))
                    here = finished(d.clone(), *scalars("cpu"), b, to, lambda: 0, dtype)
                    on = finished(d.cuda(), *scalars("cuda"), None if b is None else b.cuda(), to, lambda: 0, dtype).cpu()
                    assert torch.equal(here.nan_to_num(777.0), on.nan_to_num(777.0)), (cols, first, second, dtype)


@pytest.mark.parametrize("name", [n for n in narrow._narrow.recipe_names() if "hopper" not in n])
def test_a_linear_gives_its_products_the_operands_of_the_cpu(name):
    def run(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(96, 64), nn.Linear(64, 32)).to(device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            narrow.torch.emulate(model, name, layers={"^1$": None}, logits=None)
        seen = {}
        model.narrow_emulation.observer = lambda place, operation, role, product, x, factor: seen.update(
            {(role, product): (factor.values.float().cpu(), None if factor.decode is None else float(factor.decode))}
        )
        torch.manual_seed(1)
        x, g = torch.randn(48, 96), torch.randn(48, 64)
        model[0](x.to(device)).backward(g.to(device))
        return seen

    here, there = run("cpu"), run("cuda")
    assert here.keys() == there.keys()
    for key, (values, decode) in here.items():
        assert torch.equal(values, there[key][0]), key
        assert decode == there[key][1] or (decode in (None, 1.0) and there[key][1] in (None, 1.0))


@pytest.mark.parametrize("name", ["bf16-amp", "fp16-amp", "fp8-current", "mxfp8", "nvfp4", "fp8-delayed", "bf16-pure"])
def test_a_stock_encoder_trains(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True), nn.Linear(32, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    narrow.torch.emulate(model, name, optimizer=optimizer)
    x, target = torch.randn(8, 16, 32, device="cuda"), torch.randint(8, (8, 16), device="cuda")
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, 1).float(), target.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_hopper_products_are_those_of_the_cpu():
    def run(device):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 16, bias=False)).to(device)
        narrow.torch.emulate(model, "fp8-current", products="hopper.wgmma", logits=None)
        x = torch.randn(32, 64).to(device).requires_grad_()
        y = model(x)
        y.backward(torch.ones_like(y))
        return [t.detach().cpu() for t in (y, x.grad, model[0].weight.grad)]

    assert all(torch.equal(a, b) for a, b in zip(run("cpu"), run("cuda")))
