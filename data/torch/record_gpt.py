#!/usr/bin/env python3
# Question: how large are the numbers of a real training run? Trains a byte-level GPT and records the binades of all
# its tensors, the values of a few, and a log of every step. Recorder works on any PyTorch model (see README.md).
# Run: python3 record_gpt.py -o FOLDER [TEXT..]   (the texts of this repository when none is named)
import argparse
import contextlib
import hashlib
import json
import math
import struct
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

KINDS = ("weight", "grad", "act", "actgrad")  # parameters, their gradients, module outputs, the gradients of these


# ---- The recorder -----------------------------------------------------------------------------------------------

def count_exponents(tensor):
    """How many magnitudes lie in [2^e, 2^(e+1)), for all e: the exponent field of FP32, counted."""
    bits = tensor.detach().float().contiguous().view(torch.int32).reshape(-1) & 0x7FFFFFFF
    if bits.numel() == 0:
        return {"count": 0, "zeros": 0, "subnormal": 0, "inf": 0, "nan": 0, "amax": 0.0, "first": 0, "binades": []}
    fields = torch.bincount(bits >> 23, minlength=256).tolist()
    zeros = int((bits == 0).sum())
    nan = int((bits > 0x7F800000).sum())
    largest = int(torch.where(bits < 0x7F800000, bits, torch.zeros_like(bits)).max())
    used = [i for i in range(1, 255) if fields[i]]
    first, last = (used[0], used[-1]) if used else (127, 126)
    return {
        "count": bits.numel(),
        "zeros": zeros,
        "subnormal": fields[0] - zeros,  # below 2^-126, the smallest normal float
        "inf": fields[255] - nan,
        "nan": nan,
        "amax": struct.unpack("<f", struct.pack("<I", largest))[0],  # of the finite ones
        "first": first - 127,  # binades[i] counts [2^(first + i), 2^(first + i + 1))
        "binades": fields[first:last + 1],
    }


def tensors_of(output):
    if torch.is_tensor(output):
        return [output]
    return [t for t in output if torch.is_tensor(t)] if isinstance(output, (tuple, list)) else []


class Recorder:
    """Counts the binades of every parameter, gradient, activation and activation gradient of one training step.

        recorder = Recorder(model)
        with recorder.step("step 300"):
            loss = model(x, y)
            loss.backward()
        recorder.save("histograms.json")

    An activation is the output of a module without children; put an nn.Identity where you want to see a tensor that
    has no module. scale: the factor on the loss; gradients are recorded as they are, that is scaled by it.
    keep(kind, name): true for tensors whose values shall stay in recorder.values until the next step.
    """

    def __init__(self, model, keep=None):
        self.model = model
        self.keep = keep or (lambda kind, name: False)
        self.steps = []
        self.values = {}

    @contextlib.contextmanager
    def step(self, label, scale=1.0, kinds=KINDS, **facts):
        entry = {"label": label, "scale": scale, **facts, "tensors": []}
        self.values = {}

        def note(kind, name, tensor):
            if kind not in kinds or not tensor.is_floating_point():
                return
            entry["tensors"].append({"kind": kind, "name": name, "shape": list(tensor.shape),
                                     "dtype": str(tensor.dtype).replace("torch.", ""), **count_exponents(tensor)})
            if self.keep(kind, name):
                self.values[kind + "." + name] = tensor.detach().clone()

        def hook(name):
            def forward(module, args, output):
                for t in tensors_of(output):
                    note("act", name, t)
                    if t.requires_grad and "actgrad" in kinds:
                        t.register_hook(lambda g: note("actgrad", name, g))
            return forward

        leaves = [(n, m) for n, m in self.model.named_modules() if next(m.children(), None) is None]
        handles = [m.register_forward_hook(hook(n)) for n, m in leaves]
        try:
            yield self
        finally:
            for h in handles:
                h.remove()
        for name, p in self.model.named_parameters():
            note("weight", name, p)
            if p.grad is not None:
                note("grad", name, p.grad)
        self.steps.append(entry)

    def save(self, path, **facts):
        """One line a tensor, so that the file can be read and compared."""
        lines = []
        for entry in self.steps:
            head = {k: v for k, v in entry.items() if k != "tensors"}
            rows = ",\n".join(json.dumps(t, separators=(",", ":")) for t in entry["tensors"])
            lines.append(json.dumps(head)[:-1] + ', "tensors": [\n' + rows + "]}")
        text = json.dumps(facts)[:-1] + (", " if facts else "") + '"steps": [\n' + ",\n".join(lines) + "]}\n"
        Path(path).write_text(text)


# ---- The model --------------------------------------------------------------------------------------------------

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.q, self.k, self.v = nn.Identity(), nn.Identity(), nn.Identity()
        self.scores, self.probs = nn.Identity(), nn.Identity()

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = self.scores(self.q(q) @ self.k(k).transpose(-2, -1))  # before 1/sqrt(d)
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        logits = (scores * (c // self.heads) ** -0.5).masked_fill(future, float("-inf"))
        probs = self.probs(F.softmax(logits, dim=-1))
        return self.proj((probs @ self.v(v)).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.residual = nn.Identity()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.up, self.gelu, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.residual(x)
        x = x + self.attn(self.ln1(x))
        return x + self.down(self.gelu(self.up(self.ln2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                into_residual = name.endswith(("attn.proj.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if into_residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, x, y):
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        logits = self.head(self.norm(h))
        return F.cross_entropy(logits.view(-1, 256), y.reshape(-1))


# ---- Training ---------------------------------------------------------------------------------------------------

class Monitor:
    """Per step: the largest gradient that autocast holds in 16 bits (it keeps embeddings and the residual stream in
    FP32), and the largest attention score."""

    def __init__(self, model):
        self.gradients, self.scores = [], []
        self.parameters = [p for m in model.modules() if isinstance(m, nn.Linear) for p in m.parameters()]
        for name, m in model.named_modules():
            if next(m.children(), None) is None and not name.endswith(("tokens", "positions", "residual")):
                m.register_forward_hook(self.hook(name.endswith("scores")))

    def hook(self, is_score):
        def forward(module, args, output):
            if is_score:
                self.scores.append(output.detach().abs().amax().float())
            if output.requires_grad:
                output.register_hook(lambda g: self.gradients.append(g.detach().abs().amax().float()))
        return forward

    def read(self):
        for p in self.parameters:
            if p.grad is not None:
                self.gradients.append(p.grad.abs().amax().float())
        found = torch.stack(self.gradients).max().item(), torch.stack(self.scores).max().item()
        self.clear()
        return found

    def clear(self):
        self.gradients, self.scores = [], []


def number(x):  # six digits, null for what JSON cannot hold
    return float(f"{x:.6g}") if math.isfinite(x) else None


def batch_at(text, seed, size, context):
    g = torch.Generator().manual_seed(seed)
    start = torch.randint(text.numel() - context - 1, (size,), generator=g)
    rows = text[(start[:, None] + torch.arange(context + 1)[None, :]).to(text.device)].long()
    return rows[:, :-1], rows[:, 1:]


def autocast(device, dtype):
    return torch.autocast(device, dtype=dtype or torch.bfloat16, enabled=dtype is not None)


def type_name(dtype):
    return str(dtype or torch.float32).replace("torch.", "")


COLUMNS = ["step", "loss", "scale", "found_inf", "grad_norm", "grad_amax", "score_amax"]


def train(o, text, name, dtype, steps, init_scale=None, growth_interval=2000, at_step=None):
    """One run; at_step(model, step, seed) is called before the steps that are recorded."""
    torch.manual_seed(o.seed)
    model = Gpt(o.layers, o.width, o.heads, o.context).to(o.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.rate, betas=(0.9, 0.95), weight_decay=0.1)
    scaler = torch.amp.GradScaler(o.device, init_scale=init_scale or 1.0, growth_interval=growth_interval,
                                  enabled=init_scale is not None)
    monitor, rows, begin = None, [], time.time()
    for step in range(steps):
        if time.time() > o.end:
            print(f"{name}: stopped at step {step}, the time is up", flush=True)
            break
        seed = o.seed * 1_000_003 + step
        if at_step is not None and step in o.record:
            at_step(model, step, seed)
        if monitor is None:
            monitor = Monitor(model)  # after the first recording; cleared before every step
        monitor.clear()
        for group in optimizer.param_groups:
            group["lr"] = o.rate * min(1.0, (step + 1) / o.warmup)
        x, y = batch_at(text, seed, o.batch, o.context)
        optimizer.zero_grad(set_to_none=True)
        with autocast(o.device, dtype):
            loss = model(x, y)
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        grad_amax, score_amax = monitor.read()
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        scaler.step(optimizer)
        scaler.update()
        found = scaler.get_scale() < before if init_scale is not None else not math.isfinite(norm)
        rows.append([step, number(loss.item()), before, int(found), number(norm), number(grad_amax / before),
                     number(score_amax)])
    took = time.time() - begin
    print(f"{name}: {len(rows)} steps in {took:.0f} s, last loss {rows[-1][1] if rows else None}", flush=True)
    return {"name": name, "dtype": type_name(dtype), "init_scale": init_scale,
            "growth_interval": growth_interval if init_scale is not None else None, "columns": COLUMNS, "rows": rows}


# ---- What is recorded -------------------------------------------------------------------------------------------

# Values are kept for these only, and of these the first rows and columns (of activations: of the first sequence).
KEEP_ROWS, KEEP_COLUMNS = 128, 256


def kept_values(layers):
    last = f"blocks.{layers - 1}"
    return {
        "grad": ["tokens.weight", "blocks.0.attn.qkv.weight", "blocks.0.up.weight", f"{last}.attn.proj.weight",
                 f"{last}.down.weight", "head.weight", "blocks.0.ln1.weight"],
        "actgrad": ["blocks.0.attn.qkv", "blocks.0.gelu", f"{last}.up", f"{last}.residual", "head"],
        "act": ["blocks.0.ln1", "blocks.0.residual", f"{last}.residual", f"{last}.ln2", f"{last}.gelu", "head"],
        "weight": ["blocks.0.attn.qkv.weight", f"{last}.up.weight"],
    }


def trimmed(tensor):
    """The first sequence, at most two heads, KEEP_ROWS rows and KEEP_COLUMNS columns; all positions of q and k."""
    t = tensor
    if t.dim() == 4:
        return t[0, :2].half().contiguous().cpu().clone()  # as autocast holds q and k
    if t.dim() == 3:
        t = t[0]
    if t.dim() == 2:
        t = t[:KEEP_ROWS, :KEEP_COLUMNS]
    return t.float().contiguous().cpu().clone()


def attention_rows(step, recorder, layers):
    rows = []
    for layer in range(layers):
        q = recorder.values[f"act.blocks.{layer}.attn.q"].float()
        k = recorder.values[f"act.blocks.{layer}.attn.k"].float()
        scores = (q @ k.transpose(-2, -1)).tril()  # the pairs that the causal mask lets through; 0 elsewhere
        for head in range(q.shape[1]):
            rows.append([step, layer, head, number(scores[:, head].abs().max().item()),
                         number(q[:, head].square().mean().sqrt().item()),
                         number(k[:, head].square().mean().sqrt().item())])
    return rows


def record(o, text, folder):
    """The recorded run: FP16 autocast with PyTorch's default scaler; at o.record, gradients of the same weights and
    batch in FP32 (what is to be represented) and in FP16 at scale 1 and 2^16 (what the GPU made of it)."""
    keep, last = kept_values(o.layers), o.layers - 1
    is_qk = lambda name: name.endswith((".attn.q", ".attn.k"))
    saved_qk = [f"blocks.{layer}.attn.{c}" for layer in (0, last) for c in "qk"]
    state = {"recorder": None, "attention": []}

    def one_pass(model, x, y, label, step, dtype, scale, kinds):
        model.zero_grad(set_to_none=True)
        facts = {"step": step, "tokens": x.numel(), "dtype": type_name(dtype)}
        with state["recorder"].step(label, scale=scale, kinds=kinds, **facts):
            with autocast(o.device, dtype):
                loss = model(x, y)
            (loss * scale).backward()
        model.zero_grad(set_to_none=True)

    def at_step(model, step, seed):
        if state["recorder"] is None:
            state["recorder"] = Recorder(model)
        recorder = state["recorder"]
        gradients = ("grad", "actgrad")
        x, y = batch_at(text, seed, o.batch, o.context)

        recorder.keep = lambda kind, name: name in keep[kind] or (kind == "act" and is_qk(name))
        one_pass(model, x, y, f"step {step}", step, None, 1.0, KINDS)
        state["attention"] += attention_rows(step, recorder, o.layers)
        if step in o.values:
            some = {k: trimmed(v) for k, v in recorder.values.items()
                    if not is_qk(k) and (step == o.values[1] or k.startswith("grad."))}
            some |= {f"act.{n}": trimmed(recorder.values[f"act.{n}"]) for n in saved_qk}
            if step == 0:
                some = {k: v for k, v in some.items() if is_qk(k)}
            save_file(some, str(folder / f"step{step}.safetensors"),
                      metadata={"step": str(step), "tokens": str(x.numel()), "made_by": "record_gpt.py"})

        recorder.keep = lambda kind, name: False
        for log2 in (0, 16):
            one_pass(model, x, y, f"step {step} in fp16 at 2^{log2}", step, torch.float16, 2.0 ** log2, gradients)
        if step == o.values[1]:
            for factor, size in ((0.25, max(1, o.batch // 4)), (4, o.batch * 4)):
                bx, by = batch_at(text, seed + 500_000, size, o.context)
                one_pass(model, bx, by, f"step {step} with {factor} times the tokens", step, None, 1.0, gradients)
            micro_batches(model, seed)
        recorder.save(folder / "histograms.json", **o.facts, attention_columns=["step", "layer", "head", "score_amax",
                      "q_rms", "k_rms"], attention=state["attention"])

    def micro_batches(model, seed):
        """Gradients of 64 micro-batches of the same weights: what gradient accumulation adds up."""
        rows = []
        for i in range(64):
            x, y = batch_at(text, seed + 600_000 + i, max(1, o.batch // 4), o.context)
            model.zero_grad(set_to_none=True)
            model(x, y).backward()
            rows.append(model.blocks[min(1, last)].attn.qkv.weight.grad[:8].reshape(-1).float().cpu())
        model.zero_grad(set_to_none=True)
        save_file({"micro.grad": torch.stack(rows).contiguous()}, str(folder / "micro_batches.safetensors"),
                  metadata={"step": str(o.values[1]), "tokens": str(max(1, o.batch // 4) * o.context),
                            "tensor": f"blocks.{min(1, last)}.attn.qkv.weight, first 8 rows",
                            "made_by": "record_gpt.py"})

    return train(o, text, "fp16", torch.float16, o.steps, init_scale=2.0 ** 16, at_step=at_step)


def read_text(paths):
    if not paths:
        root = Path(__file__).resolve().parents[2]
        paths = sorted(p for pattern in ("*.md", "*.hpp", "*.cpp") for p in root.rglob(pattern)
                       if not any(part.startswith(".") or part == "build" for part in p.relative_to(root).parts))
    return b"\n".join(Path(p).read_bytes() for p in paths)


def options():
    p = argparse.ArgumentParser(description="Train a byte-level GPT and record the numbers that it computes with.")
    p.add_argument("texts", nargs="*", help="files to train on (default: the texts of this repository)")
    p.add_argument("-o", dest="folder", required=True, help="folder for the recordings")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--context", type=int, default=256)
    p.add_argument("--batch", type=int, default=16, help="sequences a step")
    p.add_argument("--rate", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=100)
    p.add_argument("--steps", type=int, default=1001)
    p.add_argument("--short-steps", type=int, default=401, help="length of the runs with bad initial scales")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--minutes", type=float, default=3.5, help="runs that would start or go on later are cut")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    o = p.parse_args()
    o.record = [0, 10, 100, 300, 1000]
    o.values = [0, 300, 1000]  # steps whose values are kept; the middle one in full
    o.end = time.time() + 60 * o.minutes
    return o


def main():
    o = options()
    folder = Path(o.folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_float32_matmul_precision("highest")  # FP32 means FP32 here, not TF32
    raw = read_text(o.texts)
    text = torch.frombuffer(bytearray(raw), dtype=torch.uint8).to(o.device)
    o.facts = {
        "made_by": "record_gpt.py", "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0) if o.device == "cuda" else o.device,
        "model": {k: getattr(o, k) for k in ("layers", "width", "heads", "context", "batch", "rate", "warmup", "seed")},
        "text_bytes": len(raw), "text_sha256": hashlib.sha256(raw).hexdigest(),
    }
    print(o.facts, flush=True)

    runs = [record(o, text, folder)]
    plan = [("fp32", None, o.steps, None, 2000), ("bf16", torch.bfloat16, o.steps, None, 2000),
            ("fp16 without scaling", torch.float16, o.steps, None, 2000),
            ("fp16 interval 20", torch.float16, o.steps, 2.0 ** 16, 20)]
    plan += [(f"fp16 from 2^{e}", torch.float16, o.short_steps, 2.0 ** e, 20) for e in (30, 0, -10)]
    for i in range(len(plan) + 1):
        head = json.dumps(o.facts)[:-1] + ', "runs": [\n'
        bodies = []
        for run in runs:
            rows = ",\n".join(json.dumps(r, separators=(",", ":")) for r in run["rows"])
            about = json.dumps({k: v for k, v in run.items() if k != "rows"})
            bodies.append(about[:-1] + ', "rows": [\n' + rows + "]}")
        (folder / "logs.json").write_text(head + ",\n".join(bodies) + "]}\n")
        if i < len(plan):
            name, dtype, steps, scale, interval = plan[i]
            runs.append(train(o, text, name, dtype, steps, init_scale=scale, growth_interval=interval))
    for path in sorted(folder.iterdir()):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
