"""narrow.torch.predicting: training steps that an H200 recorded (data/golden/training.tsv), computed again from seeds."""

import csv
import importlib
import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
narrow = pytest.importorskip("narrow")
import narrow.torch  # noqa: E402
from narrow.torch import _backward, predicting  # noqa: E402

GOLDEN = Path(__file__).resolve().parents[2] / "data" / "golden"
TABLE = GOLDEN / "training.tsv"


def recorded(path=TABLE):
    """(size, recipe, seed) -> rows by step, -1 for what it started from."""
    runs = {}
    if path.exists():
        for row in csv.DictReader((line for line in path.open() if not line.startswith("#")), delimiter="\t"):
            runs.setdefault((row["size"], row["recipe"], int(row["seed"])), {})[int(row["step"])] = row
    return runs


@pytest.fixture(scope="module")
def record_training():
    before = os.environ.get("NARROW_DEVICE")
    os.environ["NARROW_DEVICE"] = "cpu"
    sys.path.insert(0, str(GOLDEN))
    try:
        yield importlib.import_module("record_training")
    finally:
        sys.path.remove(str(GOLDEN))
        os.environ.pop("NARROW_DEVICE") if before is None else os.environ.update(NARROW_DEVICE=before)


def steps_of(of, size, recipe, seed, count):
    """Loss, norm and hash of the weights after each step, and the account."""
    state = of.build(recipe, seed, size)
    seen = [("-", "-", f"{of.hash_of_weights(state[0]):016X}")]
    with predicting(state[0], attention="flash2") as p:
        for step in range(count):
            loss, norm = of.train_step(*state, recipe, of.tokens_of(seed, step, size), autocast=p.autocast)
            with p.quietly():
                seen.append((of.code(loss), of.code(norm), f"{of.hash_of_weights(state[0]):016X}"))
    return seen, p.account


STEPS = int(os.environ.get("NARROW_TRAINING_STEPS", "2"))  # of 100 that were recorded: a minute and more a run
RUNS = recorded()
FEW = [run for run in RUNS if run in (("small", "fp16", 1), ("odd", "bf16", 1))]
CHOSEN = sorted(RUNS) if "NARROW_TRAINING_STEPS" in os.environ else FEW


@pytest.mark.skipif(not RUNS, reason="data/golden/training.tsv is not there: record_training.py makes it on an H200")
@pytest.mark.parametrize("run", CHOSEN, ids=lambda run: "-".join(map(str, run)))
def test_a_recorded_training_run_is_predicted_bit_for_bit(record_training, run):
    rows = RUNS[run]
    seen, account = steps_of(record_training, *run, min(STEPS, max(rows) + 1))
    for step, mine in enumerate(seen, -1):
        assert mine == tuple(rows[step][key] for key in ("loss", "norm", "weights")), f"step {step}"
    assert not account.left


# Outputs that several plans give, so that the named plan need not be the order: a dot product, FP64 sums that nothing rounds.
UNTOLD = {("1", "1", "32"), ("33", "65", "100")}


@pytest.mark.skipif(not (GOLDEN / "trees.tsv").exists(), reason="data/golden/trees.tsv is not there: record_trees.py makes it on an H200")
def test_recorded_orders_of_sums_are_those_of_the_named_plans(record_training):
    trees = importlib.import_module("record_trees")
    rows = [row for row in trees.read_trees(GOLDEN / "trees.tsv") if int(row["k"]) <= 100]
    answers = [trees.same_tree(row) for row in rows]
    differ = [row for row, answer in zip(rows, answers) if answer is False]
    assert {(r["m"], r["n"], r["k"]) for r in differ} <= UNTOLD
    assert answers.count(True) >= 50


def test_fma_rounds_once():
    generator = torch.Generator().manual_seed(1)
    a, b, c = (torch.randn(20000, generator=generator) * 2.0 ** torch.randint(-30, 30, (20000,), generator=generator) for _ in range(3))
    c[::2] = -a[::2] * b[::2] * (1 + 2.0**-20)  # cancellation
    exact = [float(x) for x in _backward._fma(a, b, c)]
    from fractions import Fraction

    import numpy as np

    for x, y, z, r in list(zip(a.tolist(), b.tolist(), c.tolist(), exact))[:4000]:
        value = Fraction(x) * Fraction(y) + Fraction(z)
        near = np.float32(r)
        for other in (np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))):
            assert abs(Fraction(float(near)) - value) <= abs(Fraction(float(other)) - value)


def test_autocast_casts_as_torch_does_on_cuda():
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 8, bias=False))
    seen = []
    for layer in model:
        layer.register_forward_hook(lambda m, args, out: seen.append((args[0].dtype, out.dtype)))
    x = torch.randn(4, 16)
    with predicting(model) as p, p.autocast(torch.float16):
        model(x)
    half, single = torch.float16, torch.float32
    assert seen == [(single, half), (half, half), (half, single), (single, half)]


def test_a_weight_is_cast_once_in_autocast():
    layer, x = torch.nn.Linear(8, 8, bias=False), torch.randn(2, 8)
    with predicting(layer) as p:
        with p.autocast():
            layer(layer(x))
        casts = sum(r.count for r in p.account if r.operation == "_to_copy")
    assert casts == 2  # the weight, and the first input


@pytest.mark.parametrize("what", ["dropout", "conv", "mask"])
def test_what_is_not_known_is_an_error_that_names_it(what):
    x = torch.randn(1, 2, 4, 16, dtype=torch.bfloat16, requires_grad=True)
    with predicting(torch.nn.Identity(), attention="flash2"):
        with pytest.raises(NotImplementedError) as error:
            if what == "dropout":
                torch.nn.functional.dropout(x, 0.5)
            elif what == "conv":
                torch.nn.functional.conv2d(x, x)
            else:
                torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(4, 4, dtype=torch.bool))
    assert {"dropout": "random numbers", "conv": "conv", "mask": "mask"}[what] in str(error.value)


X, W = torch.randn(4, 16), torch.randn(16, 16)
F = torch.nn.functional


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(torch.nn.Linear(16, 16), x, use_reentrant=True).mean().backward()


def penalised(x):
    (g,) = torch.autograd.grad(F.layer_norm(x, (16,)).pow(2).mean(), x, create_graph=True)
    return g


def switched_off(x):
    with torch.autocast("cuda", enabled=False):
        return x @ W


# What torch does otherwise on the GPU must not be answered in silence.
REFUSED = {
    "checkpoint": (checkpointed, True), "create_graph": (penalised, False), "autocast off": (switched_off, True),
    "einsum": (lambda x: torch.einsum("ij,jk->ik", x, W), True), "inner": (lambda x: torch.inner(x, W), True),
    "tensordot": (lambda x: torch.tensordot(x, W, 1), True), "multi_dot": (lambda x: torch.linalg.multi_dot([x, W]), True),
    "softmin": (lambda x: F.softmin((x @ W), -1), True), "1 / x": (lambda x: 1.0 / (x @ W), True),
    "special.softmax": (lambda x: torch.special.softmax(x @ W, -1), True),
    "native_layer_norm": (lambda x: torch.native_layer_norm(x, (16,), None, None, 1e-5), False),
    "rnn": (lambda x: torch.nn.RNN(16, 4, nonlinearity="relu")(x), False), "lstm_cell": (lambda x: torch.nn.LSTMCell(16, 4)(x), False),
    "dtype of a sum": (lambda x: (x @ W).sum(), True), "norm of every other": (lambda x: torch.linalg.vector_norm(x.flatten()[::2]), False),
    "norm of nothing": (lambda x: torch.linalg.vector_norm(x.flatten()[:0]), False),
    "gelu's gradient": (lambda x: F.gelu(x.t() * 1.0).backward(torch.ones(16, 4)), False),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_gpu_would_do_otherwise_is_refused(what):
    import torch.utils.checkpoint  # noqa: F401

    call, lowers = REFUSED[what]
    x = X.clone().requires_grad_()
    with predicting(torch.nn.Identity(), attention="flash2") as p, pytest.raises(NotImplementedError):
        if lowers:
            with p.autocast(torch.bfloat16):
                call(x)
        else:
            call(x)


def test_bad_shapes_and_targets_are_errors_as_in_torch():
    with predicting(torch.nn.Identity()) as p:
        for norm in (F.layer_norm, F.rms_norm):
            with pytest.raises(RuntimeError, match="normalized_shape"):
                norm(torch.ones(4, 8), (4,))
        for target in (-1, 8):
            with pytest.raises(IndexError, match="no column of 8"):
                F.cross_entropy(torch.ones(2, 8), torch.tensor([0, target]))
        with p.autocast():
            assert torch.softmax(input=torch.ones(2, 4).bfloat16(), dim=-1).dtype is torch.float32


def test_attention_keeps_the_kernel_of_its_forward_pass():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 16, 64, dtype=torch.bfloat16, requires_grad=True)
    with predicting(torch.nn.Identity()) as p:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            y = F.scaled_dot_product_attention(q, q, q)
        y.backward(torch.ones_like(y))
    assert "predicted: flash2, deterministic" in [r.how for r in p.account]


@pytest.mark.parametrize("inf", [False, True])
def test_a_fused_step_after_unscale_is_the_step_or_none(inf):
    def stepped(scaled):
        torch.manual_seed(0)
        layer = torch.nn.Linear(8, 4)
        optimiser = torch.optim.AdamW(layer.parameters(), fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, enabled=scaled)
        for x in (X[:, :8], X[:, 8:]):
            with predicting(layer):
                scaler.scale(F.cross_entropy(layer(x * (torch.inf if inf and scaled else 1)), torch.tensor([0, 1, 2, 3]))).backward()
                scaler.unscale_(optimiser)
                scaler.step(optimiser)
                scaler.update()
            optimiser.zero_grad()
        return [w.detach().clone() for w in layer.parameters()]

    torch.manual_seed(0)
    start = [w.detach().clone() for w in torch.nn.Linear(8, 4).parameters()]
    for a, b in zip(stepped(True), start if inf else stepped(False)):
        assert torch.equal(a, b)


def test_the_backward_pass_of_a_kernel_that_is_not_modelled_is_refused():
    q = torch.randn(1, 2, 16, 64, dtype=torch.bfloat16, requires_grad=True)
    with predicting(torch.nn.Identity(), attention="cudnn"):
        y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        with pytest.raises(NotImplementedError, match="backward pass of attention"):
            y.backward(torch.ones_like(y))


def test_gradients_are_those_of_the_cpu_but_for_roundings():
    """Another computation of the same: torch's own on the CPU in double."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(approximate="tanh"), torch.nn.LayerNorm(128), torch.nn.Linear(128, 32))
    x, y = torch.randn(48, 64), torch.randint(0, 32, (48,))
    with predicting(model):
        torch.nn.functional.cross_entropy(model(x), y).backward()
    mine = [p.grad.clone() for p in model.parameters()]
    model.double().zero_grad()
    torch.nn.functional.cross_entropy(model(x.double()), y).backward()
    for a, p in zip(mine, model.parameters()):
        assert (a.double() - p.grad).norm() <= 1e-5 * p.grad.norm()  # FP32: some hundred roundings of 2^-24
