"""narrow.torch.watch: its records against tensors that were captured by other means, and what it leaves behind."""

import copy
import ctypes
import gzip
import json
import os
import pickle
import signal
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest

import narrow
from narrow import _device, _kernels

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import narrow.torch  # noqa: E402
from narrow.torch import _tallies  # noqa: E402

FORMATS = ["fp16", "e4m3", "e5m2"]
HAS_GPU = _device.KERNELS is not None and torch.cuda.is_available()
ATTENTION = F.scaled_dot_product_attention
GRADIENTS = ("gradient", "activation_gradient")


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(width), Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, width=8, checkpoints=None):
        super().__init__()
        torch.manual_seed(1)
        self.embedding, self.h = nn.Embedding(11, width), nn.ModuleList([Block(width), Block(width)])
        self.head = nn.Linear(width, 11, bias=False)
        self.checkpoints = checkpoints

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.h:
            x = block(x) if self.checkpoints is None else checkpoint(block, x, use_reentrant=self.checkpoints)
        return self.head(x)


def batch(step):
    return torch.randint(0, 11, (3, 6), generator=torch.Generator().manual_seed(step))


def loss_of(model, step):
    tokens = batch(step)
    return F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def train(model, optimizer, steps, scaler=None, watch=None, passes=1):
    losses = []
    for step in range(steps):
        for n in range(passes):
            loss = loss_of(model, step * passes + n)
            (loss if scaler is None else scaler.scale(loss)).backward()
        losses.append(loss.item())
        if watch is not None:
            watch.log(loss)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
    return losses


def lines(folder, log):
    """The whole lines of a log, read by nothing of narrow."""
    path = os.path.join(folder, log)
    if not os.path.exists(path):
        return []
    with open(path, "rb") as file:
        *whole, torn = file.read().split(b"\n")

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in whole]


def by_name(folder, step=None):
    found = {}
    for row in lines(folder, "tensors.jsonl"):
        if step is None or row["step"] == step:
            key = row["role"], row["name"]
            assert key not in found or step is None, key
            found[key] = row
    return found


def check(row, pieces):
    """A record against the public functions; with one piece to the last bit."""
    x = torch.cat([p.detach().float().flatten() for p in pieces]).numpy()
    h = narrow.histogram(x)
    assert row["count"] == x.size == sum(row["negative"]) + sum(row["positive"]) + sum(
        sum(row[k]) for k in ("zero", "subnormal", "inf", "nan"))  # fmt: skip
    assert row["negative"] == h.negative.tolist() and row["positive"] == h.positive.tolist()
    assert not row["negative"] or row["first"] == h.binades[0]
    for kind in ("zero", "subnormal", "inf", "nan"):
        assert tuple(row[kind]) == getattr(h, kind), kind
    rows = narrow.statistics(x, FORMATS)
    assert [r["format"] for r in row["formats"]] == FORMATS
    for got, wanted in zip(row["formats"], rows):
        keys = ("underflow", "subnormal", "overflow") + (("mse", "sqnr_db") if len(pieces) == 1 else ())
        assert {k: got[k] for k in keys} == {k: wanted[k] for k in keys}
        assert (row["amax"], row["min_nonzero"]) == (wanted.amax, wanted.min_nonzero)


def hooks(model):
    places = [d for m in model.modules() for d in (m._forward_hooks, m._forward_pre_hooks, m._backward_hooks)]
    return sum(len(d) for d in places) + sum(len(p._backward_hooks or ()) for p in model.parameters())


@pytest.mark.parametrize("passes", [1, 2])
def test_records_are_of_the_tensors(tmp_path, passes):
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    w = narrow.torch.watch(model, optimizer, scaler, every=1, to=tmp_path / "run")
    seen = {}
    note = lambda role, name, x: seen.setdefault((role, name), []).append(x.detach().clone())

    def keep(name):
        def hook(module, arguments, output):
            note("activation", name, output)
            output.register_hook(lambda g: note("activation_gradient", name, g))

        return hook

    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(keep(name))
    for n in range(passes):
        scaler.scale(loss_of(model, n)).backward()
    for name, p in model.named_parameters():
        note("parameter", name, p)
        note("gradient", name, p.grad)
    scaler.step(optimizer)
    for name, p in model.named_parameters():
        note("update", name, p.detach() - seen["parameter", name][0])
    scaler.update()
    w.close()
    rows = by_name(tmp_path / "run", 0)
    scores = {key for key in rows if key[0] == "score"}
    assert set(rows) - scores == set(seen) and len(seen) == 3 * 22 + 2 * 14
    assert scores == {("score", f"h.{i}.attn scores of head 0 of row 0") for i in (0, 1)}
    for key, pieces in seen.items():
        assert len(pieces) == (passes if key[0].startswith("activation") else 1)
        check(rows[key], pieces)
        assert rows[key]["dtype"] == "fp32" and rows[key].get("scale") == (1024.0 if key[0] in GRADIENTS else None)
    q, k = ([t.chunk(3, -1)[i][0, :, :4] for t in seen["activation", "h.1.attn.qkv"]] for i in (0, 1))
    check(rows["score", "h.1.attn scores of head 0 of row 0"], [a @ b.T * 0.5 for a, b in zip(q, k)])


def test_training_is_the_same_and_nothing_is_left(tmp_path):
    def run(watched, scaler):
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2) if scaler else None
        before = dict(scaler.__dict__) if scaler else {}
        folder = tmp_path / f"run{bool(scaler)}"
        w = narrow.torch.watch(model, optimizer, scaler, every=3, to=folder) if watched else None
        assert not watched or hooks(model) > 0
        losses = train(model, optimizer, 7, scaler, w)
        assert not watched or (hooks(model) == 0 and w.step == 7), "step 7 is not watched"
        losses += train(model, optimizer, 2, scaler, w)
        if watched:
            assert hooks(model) > 0, "step 9 is"
            w.close()
            w.close()
            assert hooks(model) == 0
            assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks
            assert scaler is None or scaler.__dict__.keys() == before.keys()
        return losses, [p.detach().numpy().tobytes() for p in model.parameters()]

    for scaler in (False, True):
        assert run(True, scaler) == run(False, scaler)
    folder = tmp_path / "runTrue"
    assert sorted({row["step"] for row in lines(folder, "tensors.jsonl")}) == [0, 3, 6]
    assert [row["step"] for row in lines(folder, "scale.jsonl")] == list(range(9))
    assert [row["scale"] for row in lines(folder, "scale.jsonl")] == [2.0 ** (10 + n // 2) for n in range(9)]
    assert [row["step"] for row in lines(folder, "loss.jsonl")] == list(range(9))
    head = json.loads((folder / "run.json").read_text())
    assert head["narrow_run"] == 1 and head["model"] == "Model" and head["every"] == 3 and head["formats"] == FORMATS
    assert lines(tmp_path / "runFalse", "scale.jsonl") == []


def test_skipped_steps_and_the_largest_gradient(tmp_path, program):
    """A step that overflows has its scaled gradients, Inf included, and no update."""
    model = nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
    with narrow.torch.watch(model, optimizer, scaler, every=1, to=tmp_path / "run"):
        for size in (1.0, 2.0**10, 2.0):
            scaler.scale(model(torch.full((1, 4), size)).sum()).backward()
            if size == 2.0:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    scales = lines(tmp_path / "run", "scale.jsonl")
    assert [(r["scale"], r["found_inf"], r["amax"]) for r in scales] == [
        (2.0**120, False, 1.0), (2.0**120, True, None), (2.0**119, False, 2.0)]  # fmt: skip
    overflow, after = by_name(tmp_path / "run", 1), by_name(tmp_path / "run", 2)
    assert overflow["gradient", "weight"]["inf"] == [0, 4] and overflow["gradient", "weight"]["scale"] == 2.0**120
    assert overflow["gradient", "weight"]["amax"] is None and ("update", "weight") not in overflow
    assert after["gradient", "weight"]["amax"] == 2.0**120 and after["update", "weight"]["count"] == 4
    assert program("scale-trace", "--events", tmp_path / "run" / "scale.jsonl")


def test_fused_optimizers_take_scaled_gradients(tmp_path):
    model = nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.Adam(model.parameters(), 0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with narrow.torch.watch(model, optimizer, scaler, to=tmp_path / "run"):
        scaler.scale(model(torch.ones(1, 4)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    row = by_name(tmp_path / "run")["gradient", "weight"]
    assert (row["amax"], row["scale"]) == (8.0, 8.0)


def test_gradients_of_closures(tmp_path):
    model = nn.Linear(4, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)

    def closure():
        loss = model(torch.ones(1, 4)).sum()
        loss.backward()
        return loss

    with narrow.torch.watch(model, optimizer, to=tmp_path / "run"):
        optimizer.step(closure)
    rows = by_name(tmp_path / "run")
    assert rows["gradient", "weight"]["amax"] == 1.0 and rows["update", "weight"]["count"] == 4


class Odd(nn.Module):
    """Outputs of all kinds."""

    def forward(self, x):
        bad = torch.tensor([np.nan, -np.inf, np.inf, 0.0, -0.0, 1e-40, 1e30])
        return {"pair": (x * 2, [x.to(torch.bfloat16)]), "whole": torch.arange(3), "none": None, "bad": bad,
                "empty": x[:0], "wide": torch.tensor([1e300, 1e-3], dtype=torch.float64), "complex": x * 1j,
                "eight": torch.tensor([1.0, 448.0]).to(torch.float8_e4m3fn)}  # fmt: skip


def test_outputs_of_all_kinds(tmp_path):
    model = Odd()
    x = torch.randn(3, 4, requires_grad=True)
    with narrow.torch.watch(model, to=tmp_path / "run", every=1) as w:
        out = model(x[:, ::2])
        (out["pair"][0].sum() + out["pair"][1][0].float().sum()).backward()
        w.end_step()
        with torch.no_grad():
            model(x)
        w.end_step()
    rows = by_name(tmp_path / "run", 0)
    seen = {name: row["dtype"] for (role, name), row in rows.items() if role == "activation"}
    assert seen == {"Odd[pair][0]": "fp32", "Odd[pair][1][0]": "bf16", "Odd[bad]": "fp32", "Odd[empty]": "fp32",
                    "Odd[wide]": "fp64", "Odd[eight]": "e4m3"}  # fmt: skip
    for name, tensor in [("pair][0", out["pair"][0]), ("pair][1][0", out["pair"][1][0]), ("bad", out["bad"]),
                         ("empty", out["empty"]), ("wide", out["wide"].float()), ("eight", out["eight"])]:  # fmt: skip
        check(rows["activation", f"Odd[{name}]"], [tensor])
    assert rows["activation", "Odd[empty]"]["amax"] is None and rows["activation", "Odd[wide]"]["inf"] == [0, 1]
    assert rows["activation_gradient", "Odd[pair][0]"]["count"] == 6
    without_gradients = by_name(tmp_path / "run", 1)
    assert ("activation", "Odd[bad]") in without_gradients, "no evaluation, as there is no optimizer"


def test_tensors_without_numbers_are_left_out_and_named(tmp_path):
    class Sparse(nn.Module):
        def forward(self, x):
            return x.to_sparse()

    model = nn.Sequential(nn.Embedding(5, 2, sparse=True), Sparse())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.warns(UserWarning) as said, narrow.torch.watch(model, optimizer, to=tmp_path / "run", every=1):
        for _ in range(2):
            model(torch.tensor([1, 2])).to_dense().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    texts = [str(w.message) for w in said]
    assert sum("activation 1 is left out" in t and "sparse" in t for t in texts) == 1
    assert sum("gradient 0.weight is left out" in t for t in texts) == 1
    roles = {role for role, _ in by_name(tmp_path / "run")}
    assert roles == {"parameter", "update", "activation", "activation_gradient"}


def test_frozen_and_shared_parameters(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[2].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with narrow.torch.watch(model, optimizer, to=tmp_path / "run"):
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    names = lambda role: {name for r, name in by_name(tmp_path / "run") if r == role}
    assert names("parameter") == {"0.weight", "0.bias", "1.bias", "2.weight", "2.bias"}
    assert names("gradient") == names("update") == {"0.weight", "0.bias", "1.bias"}


def test_updates_of_narrow_parameters_are_exact(tmp_path):
    model = nn.Linear(64, 64).to(torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    before = model.weight.detach().float()
    with narrow.torch.watch(model, optimizer, to=tmp_path / "run"):
        model(torch.randn(4, 64, dtype=torch.bfloat16)).square().sum().backward()
        optimizer.step()
    row = by_name(tmp_path / "run")["update", "weight"]
    assert row["dtype"] == "fp32"
    check(row, [model.weight.detach().float() - before])


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_count_once(tmp_path, reentrant):
    rows = []
    for how in (None, reentrant):
        model, folder = Model(checkpoints=how), tmp_path / f"run{how}"
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with narrow.torch.watch(model, optimizer, to=folder):
            if how:  # else no input of the first block asks for a gradient
                model.embedding.weight.requires_grad_()
            train(model, optimizer, 1)
        rows.append(by_name(folder))
    assert rows[0] == rows[1]


def test_evaluation_is_left_out(tmp_path):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with narrow.torch.watch(model, optimizer, to=tmp_path / "run"):
        with torch.no_grad():
            model(batch(5))
            model.head(torch.ones(1, 8))
        train(model, optimizer, 1)
    rows = by_name(tmp_path / "run")
    assert rows["activation", "head"]["count"] == 3 * 6 * 11
    assert rows["score", "h.0.attn scores of head 0 of row 0"]["count"] == 36


def test_attention_of_torch(tmp_path):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    x = torch.randn(3, 5, 8)
    weight, bias = layer.self_attn.in_proj_weight.detach().clone(), layer.self_attn.in_proj_bias.detach().clone()
    with narrow.torch.watch(layer, optimizer, every=1, to=tmp_path / "run"):
        for narrower in (False, True):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrower):
                layer(x).sum().backward()
            optimizer.step()
    rows, narrower = by_name(tmp_path / "run", 0), by_name(tmp_path / "run", 1)
    name = "self_attn scores of head 0 of row 0"
    projected = F.linear(x.transpose(0, 1), weight, bias)[:, 0]
    check(rows["score", name], [projected[:, :4] @ projected[:, 8:12].T * 0.5])
    assert narrower["activation", "linear1"]["dtype"] == "bf16" and narrower["score", name]["dtype"] == "fp32"
    assert ("activation", "self_attn[0]") in rows


def test_scores_of_long_rows_are_bounded(tmp_path):
    class Long(nn.Sequential):
        def forward(self, x):
            return F.scaled_dot_product_attention(query=x, key=x, value=x, scale=0.25)

    x = torch.randn(1, 1030, 4)
    model = Long(nn.Identity())
    with narrow.torch.watch(model, to=tmp_path / "run") as w, pytest.warns(UserWarning, match="no output"):
        model(x)
        w.end_step()
    row = by_name(tmp_path / "run")["score", "Long scores of row 0, last 1024 queries"]
    check(row, [x[0, -1024:] @ x[0].T * 0.25])


def test_filters(tmp_path):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with narrow.torch.watch(model, optimizer, to=tmp_path / "run", include=["attn", r"^head"], exclude="bias$"):
        train(model, optimizer, 1)
    names = {name for _, name in by_name(tmp_path / "run")}
    linear = {f"h.{i}.attn.{part}" for i in (0, 1) for part in ("qkv", "out")} | {"head"}
    assert names == linear | {f"{n}.weight" for n in linear} | {f"h.{i}.attn scores of head 0 of row 0" for i in (0, 1)}


def test_refusals(tmp_path):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text("{}")
    narrow.torch.watch(model, optimizer, to=tmp_path / "run").close()
    for words, sentence in [
        ({"formats": ["fp17"]}, "fp17"),
        ({"formats": ["mxfp8_e4m3"]}, "without blocks"), ({"formats": None}, "format"), ({"every": 0}, "every: 0"),
        ({"every": 2.5}, "every: 2.5"), ({"every": [1, -2]}, "every: -2"), ({"every": []}, "every: no step"), ({"every": "all"}, "every: 'all'"),
        ({"step": -1}, "step: -1"), ({"include": "nowhere"}, "include: 'nowhere' is found in no name"),
        ({"exclude": "("}, "exclude: "), ({"exclude": ""}, "leave nothing"), ({"to": tmp_path / "file"}, "is a file"),
        ({"to": tmp_path / "full"}, "not empty"),
        ({"to": tmp_path / "run"}, "resume=True"), ({"to": tmp_path / "other", "resume": True}, "does not describe"),
        ({"to": tmp_path / "run", "resume": True, "formats": ["fp16"]}, "formats: "), ({"model": 3}, "model: "),
        ({"optimizer": 3}, "optimizer: "), ({"scaler": 3}, "scaler: "),
        ({"optimizer": torch.optim.SGD([nn.Parameter(torch.ones(1))], 0.1)}, "no parameter of the model"),
    ]:  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=sentence.replace("(", r"\(")):
            narrow.torch.watch(**{"model": model, "optimizer": optimizer, "to": tmp_path / "new", **words})
        assert hooks(model) == 0 and not (tmp_path / "new").exists()
    with narrow.torch.watch(model, optimizer, to=tmp_path / "new") as w:
        with pytest.raises(RuntimeError, match="end_step"):
            w.end_step()
        for loss in ("x", None, torch.ones(2)):
            with pytest.raises(TypeError, match="loss: one number"):
                w.log(loss)
        with pytest.raises(ValueError, match="step: -1"):
            w.log(1.0, -1)


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
import torch, narrow.torch
from test_torch_watch import Model, train
torch.set_num_threads(1)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
w = narrow.torch.watch(model, optimizer, torch.amp.GradScaler("cpu"), every=2, to=sys.argv[1])
append, count = w._folder.append, 0

def counted(log, line):
    global count
    append(log, line)
    count += 1
    if count == 300:
        os.write(w._folder._files["tensors.jsonl"], line.encode()[:20])  # as far as it came
        os.kill(os.getpid(), signal.SIGKILL)

w._folder.append = counted
train(model, optimizer, 100, w._scaler, w)
"""


def test_killed_and_resumed(tmp_path):
    here, package = os.path.dirname(__file__), os.path.dirname(os.path.dirname(narrow.__file__))
    command = [sys.executable, "-c", KILLED, tmp_path / "run", here, package]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    kept = {log: lines(tmp_path / "run", log) for log in ("tensors.jsonl", "scale.jsonl", "loss.jsonl")}
    assert sum(map(len, kept.values())) == 300 and len(kept["tensors.jsonl"]) > 200
    assert not (tmp_path / "run" / "tensors.jsonl").read_bytes().endswith(b"\n")
    last = max(rows[-1]["step"] for rows in kept.values())
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    with pytest.raises(ValueError, match=f"step: {last}, but"):
        narrow.torch.watch(model, optimizer, to=tmp_path / "run", resume=True, step=last)
    with narrow.torch.watch(model, optimizer, every=2, to=tmp_path / "run", resume=True) as w:
        assert w.step == last + 1
        train(model, optimizer, 2, None, w)
    rows = lines(tmp_path / "run", "tensors.jsonl")
    assert rows[: len(kept["tensors.jsonl"])] == kept["tensors.jsonl"]
    assert {row["step"] for row in rows[len(kept["tensors.jsonl"]) :]} == {last + 2 - last % 2}
    with narrow.torch.watch(model, optimizer, to=tmp_path / "run", resume=True, step=1000) as w:
        assert w.step == 1000


def test_a_full_disk_ends_the_watching_not_the_training(tmp_path, monkeypatch):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    w = narrow.torch.watch(model, optimizer, scaler, every=1, to=tmp_path / "run")
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: 9 if b'"update"' in data else None]))
    with pytest.warns(UserWarning, match="no longer watched"):
        train(model, optimizer, 2, scaler, w)
    assert hooks(model) == 0 and "update" not in scaler.__dict__ and w.step == 1
    roles = {role for role, _ in by_name(tmp_path / "run")}
    assert "parameter" in roles and "update" not in roles


def test_a_pass_that_fails(tmp_path):
    class Fails(nn.Sequential):
        def forward(self, x):
            x = super().forward(x)
            if x.isnan().any():
                raise ArithmeticError
            return F.scaled_dot_product_attention(x, x, x)

    model = Fails(nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with narrow.torch.watch(model, optimizer, to=tmp_path / "run") as w:
        with pytest.raises(ArithmeticError):
            model(torch.full((1, 2), np.nan))
        assert w._stack == [] and F.scaled_dot_product_attention is ATTENTION
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert by_name(tmp_path / "run")["score", "Fails scores"]["count"] == 1
    with narrow.torch.watch(model, optimizer, to=tmp_path / "run2") as w:
        model[0].register_forward_hook(lambda *_: w.close())
        model(torch.ones(1, 2))
        assert F.scaled_dot_product_attention is ATTENTION and hooks(model) == 1


def test_two_watches_of_one_scaler(tmp_path):
    model = nn.Linear(2, 2)
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cpu")
    first, second = (narrow.torch.watch(model, optimizer, scaler, every=1, to=tmp_path / name) for name in "ab")
    step = lambda: (scaler.scale(model(torch.ones(1, 2)).sum()).backward(), scaler.step(optimizer), scaler.update())
    step()
    first.close()
    step()
    second.close()
    step()
    assert [len(lines(tmp_path / name, "scale.jsonl")) for name in "ab"] == [1, 2]
    assert hooks(model) == 0 and first._tallies.take() == second._tallies.take() == {}


def test_memory_is_not_kept(tmp_path):
    import gc
    import weakref

    kept = []

    class Kept(nn.Module):
        def forward(self, x):
            y = x * 2
            kept.append(weakref.ref(y))
            return y

    model = nn.Sequential(nn.Linear(4, 4), Kept(), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    w = narrow.torch.watch(model, optimizer, every=1, to=tmp_path / "run")
    for _ in range(3):
        model(torch.ones(1, 4)).sum().backward()
        assert kept[-1]() is None, "nothing holds an output beyond its pass"
        optimizer.step()
        assert w._before == {} and w._tallies._tallies == {}
    gone = weakref.ref(w)
    del w, model, optimizer
    gc.collect()
    assert gone() is None


def test_a_compiled_step_of_the_optimizer(tmp_path):
    """It rounds in another order than the step that is not compiled; watching changes nothing of that."""
    bits = []
    for is_watched in (False, True):
        torch._dynamo.reset()
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        w = narrow.torch.watch(model, optimizer, every=2, to=tmp_path / "run") if is_watched else None
        step = torch.compile(optimizer.step, backend="eager")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for n in range(3):
                loss_of(model, n).backward()
                step()
                optimizer.zero_grad()
        assert not [s for s in said if "Dynamo does not know" in str(s.message)], "the hooks are not traced"
        bits.append([p.detach().numpy().tobytes() for p in model.parameters()])
    w.close()
    assert bits[0] == bits[1] and w.step == 3
    assert [len(by_name(tmp_path / "run", n)) for n in range(3)] == [3 * 22 + 2 * 14 + 2, 0, 3 * 22 + 2 * 14 + 2]


@pytest.mark.parametrize("part", ["whole", "block"])
def test_compiled_models(tmp_path, part):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = train(model, optimizer, 3)
    torch._dynamo.reset()
    model = Model()
    call = torch.compile(model, backend="eager", fullgraph=True) if part == "whole" else model
    if part == "block":
        model.h[0].compile(backend="eager", fullgraph=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    w = narrow.torch.watch(call, optimizer, every=2, to=tmp_path / "run")
    with w, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert train(call, optimizer, 3) == losses
    rows = by_name(tmp_path / "run", 2)
    assert any("no output of a module" in str(s.message) for s in said) == (part == "whole")
    assert ("update", "h.0.attn.qkv.weight") in rows and (("activation", "head") in rows) == (part == "block")
    assert ("activation", "h.0.attn.qkv") not in rows


def test_code_without_hooks(tmp_path):
    """Scripted modules take none, and in transformations of torch.func tensors have no memory."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    scripted = torch.jit.script(model)
    with pytest.warns(UserWarning, match="no output"), narrow.torch.watch(scripted, to=tmp_path / "a") as w:
        scripted(torch.ones(1, 3))
        w.end_step()
    with pytest.warns(UserWarning, match="torch.func") as said, narrow.torch.watch(model, to=tmp_path / "b") as w:
        call = lambda p: torch.func.functional_call(model, p, (torch.ones(1, 3),)).sum()
        torch.func.grad(call)(dict(model.named_parameters()))
        torch.vmap(model)(torch.ones(4, 3))
        w.end_step()
    assert ["torch.func" in str(s.message) for s in said] == [True, True], "once for outputs and once for gradients"
    for name in "ab":
        assert {role for role, _ in by_name(tmp_path / name)} == {"parameter"}


def test_chosen_steps_and_packed_logs(tmp_path, program):
    """Steps as numpy's geomspace gives them; what gzip made of the folder says the same."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    steps = np.unique(np.geomspace(1, 20, 5).astype(int))
    with narrow.torch.watch(model, optimizer, every=steps, to=tmp_path / "run") as w:
        for _ in range(25):
            w.log(model(torch.ones(1, 2)).sum())
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert sorted({row["step"] for row in lines(tmp_path / "run", "tensors.jsonl")}) == steps.tolist()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["every"] == steps.tolist()
    before = program("stats", tmp_path / "run", "--json")
    for log in ("tensors.jsonl", "loss.jsonl"):
        path = tmp_path / "run" / log
        (tmp_path / "run" / (log + ".gz")).write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert program("stats", tmp_path / "run", "--json") == before
    with pytest.raises(ValueError, match="gunzip"):
        narrow.torch.watch(model, optimizer, every=steps, to=tmp_path / "run", resume=True)


@pytest.mark.parametrize("where", ["host", "device", "gpu"])
def test_binades_alone(tmp_path, program, request, where):
    """Without signs and formats a record has the same counts, largest and smallest values."""
    if where == "device":
        request.getfixturevalue("memory")
    if where == "gpu" and not HAS_GPU:
        pytest.skip("no GPU, or a build without CUDA")
    for folder, words in (("whole", {}), ("small", {"formats": (), "signs": False, "tensorboard": Writer()})):
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 300), nn.ReLU(), nn.Linear(300, 1, bias=False)).to("cuda" if where == "gpu" else "cpu")
        optimizer = torch.optim.SGD(model.parameters(), 1e-3)
        x = torch.tensor([[1.0, -2e-3, 3e-40], [float("inf"), 1.0, 2.0]], device=next(model.parameters()).device)
        with narrow.torch.watch(model, optimizer, every=1, to=tmp_path / folder, **words):
            model(x[:1]).sum().backward()
            model(x).sum().backward()
            optimizer.step()
    whole, small = (lines(tmp_path / folder, "tensors.jsonl") for folder in ("whole", "small"))
    assert len(whole) == len(small) == 3 * 3 + 2 * 3
    for a, b in zip(whole, small):
        assert b["binades"] == [n + p for n, p in zip(a["negative"], a["positive"])] and b["first"] == a["first"]
        assert all(b[key] == sum(a[key]) for key in ("zero", "subnormal", "inf", "nan"))
        for key in ("amax", "min_nonzero"):
            assert (b[key] is None) == (a[key] is None) and (b[key] is None or np.float32(b[key]) == np.float32(a[key]))
        assert b["count"] == a["count"] and b["formats"] == [] and "negative" not in b
    assert {row["inf"] for row in small} != {0}
    said = [program("histogram", tmp_path / folder, "--json") for folder in ("whole", "small")]
    assert [[(r["tensor"], r["exponent"], r["negative"] + r["positive"]) for r in rows] for rows in said][0] == [
        (r["tensor"], r["exponent"], r["positive"]) for r in said[1]
    ]


def test_losses(tmp_path):
    with narrow.torch.watch(nn.Linear(1, 1), to=tmp_path / "run", every=10, step=1) as w:
        w.log(2)
        w.end_step()
        w.log(torch.tensor([0.5]))
        w.log(np.float32(np.nan))
        w.log(float("-inf"), step=7)
        assert w.folder == str(tmp_path / "run") and w.step == 2
        # not closed by hand: what is logged is there
        assert lines(w.folder, "loss.jsonl") == [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 0.5},
                                                 {"step": 2, "loss": "nan"}, {"step": 7, "loss": "-inf"}]  # fmt: skip
    w.log(1.0)
    assert len(lines(w.folder, "loss.jsonl")) == 4


class Writer:
    """What is used of a SummaryWriter."""

    def __init__(self):
        self.scalars, self.histograms, self.state = {}, {}, ""

    def add_scalar(self, tag, value, step):
        self.scalars[tag, step] = value

    def add_histogram_raw(self, tag, **words):
        assert len(words["bucket_limits"]) == len(words["bucket_counts"])
        assert words["num"] == sum(words["bucket_counts"])
        self.histograms[tag, words["global_step"]] = words

    def flush(self):
        self.state = "flushed"


def test_tensorboard(tmp_path):
    model = nn.Linear(2, 1, bias=False)
    model.weight.data = torch.tensor([[4.0, -1e-9]])
    optimizer, writer = torch.optim.SGD(model.parameters(), 0.1), Writer()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with narrow.torch.watch(model, optimizer, scaler, to=tmp_path / "run", tensorboard=writer) as w:
        loss = model(torch.ones(1, 2)).sum()
        scaler.scale(loss).backward()
        w.log(loss)
        scaler.step(optimizer)
        scaler.update()
    assert writer.scalars["parameter/weight/amax", 0] == 4.0
    assert writer.scalars["parameter/weight/lost in fp16", 0] == 0.5
    assert writer.scalars["scale", 0] == 4.0 and writer.scalars["loss", 0] == 4.0
    words = writer.histograms["parameter/weight/log2", 0]
    assert (words["min"], words["max"], words["num"]) == (-30, 3, 2) and writer.state == "flushed"


def test_tensorboard_that_is_installed_or_not(tmp_path):
    model = nn.Linear(2, 1)
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        with pytest.raises(ValueError, match="tensorboard: it is not installed"):
            narrow.torch.watch(model, to=tmp_path / "run", tensorboard=True)
        assert not (tmp_path / "run").exists()
        return
    with narrow.torch.watch(model, to=tmp_path / "run", tensorboard=True) as w:
        model(torch.ones(1, 2))
        w.end_step()
    assert list((tmp_path / "run" / "tensorboard").iterdir())


# ---- the way over a device: torch's CPU memory taken for one, with kernels that keep what they were given


class Kernels:
    """Records hold the number of a list of arrays; what is read must have been zero before."""

    def __init__(self):
        self.lists, self.where = [], []

    counts_bytes = 8

    def tally_bytes(self, tally):
        return 24

    def has_statistics(self, plan):
        return plan.name != "e8m0"

    def decode(self, plan, x, size, to, count, *where):
        assert size in (1, 2, 4), "kernels take no others"
        codes = np.frombuffer((ctypes.c_char * (count * size)).from_address(x), f"u{size}")
        narrow._narrow.decode(plan, codes, np.frombuffer((ctypes.c_char * (count * 4)).from_address(to), np.float32))

    def tallies_codes(self, plan):
        return plan.name == "bf16"

    def tally(self, tally, x, numbers, count, records, counts, device, stream):
        assert ctypes.c_uint64.from_address(counts).value == 0
        slot = ctypes.c_uint64.from_address(records)
        if slot.value == 0:
            self.lists.append([])
            slot.value = len(self.lists)
        data = np.empty(count, np.float32)
        if numbers is None:
            ctypes.memmove(data.ctypes.data, x, data.nbytes)
        else:
            self.decode(numbers, x, 2, data.ctypes.data, count)
        self.lists[slot.value - 1].append(data)
        self.where.append((device, stream))

    def read_tally(self, tally, records):
        for array in self.lists[ctypes.c_uint64.from_address(records).value - 1]:
            tally.add(array)


@pytest.fixture
def memory(monkeypatch):
    kernels = Kernels()
    monkeypatch.setattr(_device.DeviceArray, "where", (0, 7))
    monkeypatch.setattr(_tallies, "on_device", lambda x: _device.DeviceArray(x))
    for module in (_tallies, _kernels):
        monkeypatch.setattr(module, "KERNELS", kernels)
    monkeypatch.setattr(_tallies, "SLOTS", 5)
    _tallies._codes.cache_clear()
    kernels.waits = []
    monkeypatch.setattr(_tallies, "wait", kernels.waits.append)
    return kernels


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_records_on_a_device(tmp_path, memory, dtype):
    def run(folder):
        model = Model().to(dtype)
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        with narrow.torch.watch(model, optimizer, every=2, to=tmp_path / folder):
            losses = train(model, optimizer, 1, passes=2)
            waited = len(memory.waits)
            losses += train(model, optimizer, 1, passes=2)
            assert len(memory.waits) == waited, "a step that is not watched waits for nothing"
            return losses + train(model, optimizer, 1, passes=2)

    losses = run("device")
    assert set(memory.where) == {(0, 7)} and len(memory.lists) == 2 * (3 * 22 + 2 * 14 + 2)
    with pytest.MonkeyPatch.context() as host:
        host.setattr(_tallies, "on_device", lambda x: None)
        count = len(memory.lists)
        assert repr(run("host")) == repr(losses) and len(memory.lists) == count
    assert lines(tmp_path / "device", "tensors.jsonl") == lines(tmp_path / "host", "tensors.jsonl")
    assert len(lines(tmp_path / "host", "tensors.jsonl")) == 2 * (3 * 22 + 2 * 14 + 2)


def test_formats_without_a_kernel(memory):
    facts = {"layout": torch.strided, "is_nested": False, "is_quantized": False, "is_cuda": True,
             "dtype": torch.float32, "device": types.SimpleNamespace(type="cuda")}  # fmt: skip
    Tensor = type("Tensor", (), facts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "Tensor", Tensor)
        patch.setattr(torch._C._functorch, "is_functorch_wrapped_tensor", lambda x: False)
        assert "e8m0" in _tallies.Tallies(["fp16", "e8m0"]).why_not(Tensor())
        patch.setattr(_tallies, "KERNELS", None)
        assert "no CUDA" in _tallies.Tallies(["fp16"]).why_not(Tensor())


@pytest.mark.skipif(not HAS_GPU, reason="no GPU, or a build without CUDA")
def test_on_a_gpu(tmp_path):
    """Counts are those of the host; sums are of another order."""
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    seen = {}
    w = narrow.torch.watch(model, optimizer, scaler, every=2, to=tmp_path / "run")
    for name, module in model.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda m, a, o, name=name: seen.update({name: seen.get(name, o.detach().clone())}))
    for step in range(4):
        tokens = batch(step).cuda()
        torch.cuda.set_sync_debug_mode("error" if step in (1, 2) else "default")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())
        scaler.scale(loss).backward()
        w.log(loss)
        torch.cuda.set_sync_debug_mode("default")  # scaler.step() asks for found_inf itself
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    w.close()
    rows = by_name(tmp_path / "run", 0)
    assert len({role for role, _ in rows}) == 6
    for name, x in seen.items():
        row, x = rows["activation", name], x.float().cpu().numpy()
        h = narrow.histogram(x)
        assert row["negative"] == h.negative.tolist() and row["positive"] == h.positive.tolist()
        for got, wanted in zip(row["formats"], narrow.statistics(x, FORMATS)):
            assert all(got[k] == wanted[k] for k in ("underflow", "subnormal", "overflow"))
        assert row["count"] == x.size and row["amax"] == float(np.abs(x).max())
    assert [r["step"] for r in lines(tmp_path / "run", "scale.jsonl")] == [0, 1, 2, 3]
    assert len(lines(tmp_path / "run", "loss.jsonl")) == 4


def test_a_page_about_a_run_without_gradients(tmp_path):
    model = nn.Linear(4, 3)
    with torch.no_grad(), narrow.torch.watch(model, to=tmp_path / "run") as w:
        model(torch.randn(5, 4))
        w.end_step()
        with pytest.warns(UserWarning, match="gradient_underflow: .*no gradients were watched"):
            page = w.page(tmp_path / "page")
    assert "no gradients were watched" in open(page).read()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="no folder can be made there"):
        w.page(tmp_path / "file")


def test_a_watched_model_is_copied_and_pickled_without_its_watch(tmp_path):
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    with narrow.torch.watch(model, optimizer, to=tmp_path / "run") as w:
        counts = lambda: {key: tally.json() for key, tally in w._tallies._tallies.items()}
        y, seen = model(batch(0)), counts()
        assert any(key.role == "activation" for key in seen)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert torch.equal(other(batch(0)), y)
            other(batch(0)).sum().backward()
        assert counts() == seen
