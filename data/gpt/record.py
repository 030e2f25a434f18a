"""Trains a GPT of 121 M parameters under precision recipes and records what its tensors look like.

    python3 corpus.py corpus                                            # once: text of Debian's packages, and its tokens
    python3 record.py --tokens corpus/tokens.npy -o runs bf16-amp fp16-amp fp8-current

Each recipe becomes a folder that `narrow report run=FOLDER` reads. The same seed gives every recipe the same start and the same
batches. Needs torch, numpy and narrow. fp32 to bf16-pure are torch's own arithmetic, fp8-scaled-mm is FP8 by torch._scaled_mm;
all others are narrow.torch.emulate, by the names of `narrow train --list-recipes`. An H200 takes 1 to 3 minutes a recipe, fp32
without TF32 and fp8-scaled-mm longer: give them --steps 200; products summed as a tensor core does (*-hopper) take hours. Folders that are complete are left.
A folder's name tells seed, rate and remedy where they are not the usual. Speeds compare only where the machine does nothing else.
"""

import argparse
import contextlib
import gc
import gzip
import json
import math
import pathlib
import time

import narrow
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

RATE = 6e-4
VOCABULARY = 23_040  # 23,000 and what makes it a multiple of 128
SCALERS = {"fp16-amp": 2.0**16, "fp16-amp-2^4": 2.0**4, "fp16-amp-2^30": 2.0**30}


class Attention(nn.Module):
    """remedy: none, qk_norm (a layer norm of queries and of keys), soft_cap (scores within 30), small_q (1/d, not 1/sqrt d)."""

    def __init__(self, width, heads, remedy):
        super().__init__()
        self.heads, self.remedy = heads, remedy
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        if remedy == "qk_norm":
            self.q_norm, self.k_norm = nn.LayerNorm(width // heads), nn.LayerNorm(width // heads)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (part.reshape(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.remedy == "qk_norm":
            q, k = self.q_norm(q), self.k_norm(k)
        if self.remedy == "soft_cap":
            scores = 30 * torch.tanh(q @ k.transpose(-1, -2) / (30 * math.sqrt(q.shape[-1])))
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            y = scores.masked_fill(mask, -math.inf).softmax(-1).to(v.dtype) @ v
        else:
            scale = 1 / q.shape[-1] if self.remedy == "small_q" else None
            y = F.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype), is_causal=True, scale=scale)
        return self.out(y.transpose(1, 2).reshape(b, t, width))


class Block(nn.Module):
    def __init__(self, width, heads, remedy):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, remedy)
        self.up, self.gelu, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, o.width), nn.Embedding(o.context, o.width)
        self.blocks = nn.Sequential(*(Block(o.width, o.heads, o.remedy) for _ in range(o.layers)))
        self.norm, self.head = nn.LayerNorm(o.width), nn.Linear(o.width, VOCABULARY, bias=False)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * o.layers) if name.endswith(("out.weight", "down.weight")) else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


# ---- FP8 by the GPU itself: E4M3 forward, E5M2 gradients, FP8_MAX / amax of the tensor


def to_fp8(x, dtype):
    """Codes, and what decodes them. As Transformer Engine's current scaling: 1 where amax is 0, Inf or NaN."""
    x, largest = x.float(), torch.finfo(dtype).max
    amax = x.abs().amax()
    scale = torch.where((amax > 0) & amax.isfinite(), (largest / amax).clamp(max=torch.finfo(torch.float32).max), torch.ones_like(amax))
    return (x * scale).clamp(-largest, largest).to(dtype), 1 / scale


class ScaledMm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, bias):
        flat = x.reshape(-1, x.shape[-1])
        (a, of_a), (b, of_b) = to_fp8(flat, torch.float8_e4m3fn), to_fp8(w, torch.float8_e4m3fn)
        ctx.save_for_backward(a, of_a, b, of_b)
        ctx.shape, ctx.has_bias = x.shape, bias is not None
        y = torch._scaled_mm(a, b.t(), of_a, of_b, out_dtype=torch.bfloat16)
        y = y if bias is None else y + bias.to(torch.bfloat16)
        return y.reshape(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, g):
        a, of_a, b, of_b = ctx.saved_tensors
        flat = g.reshape(-1, g.shape[-1])
        d, of_d = to_fp8(flat, torch.float8_e5m2)
        dx = torch._scaled_mm(d, b.t().contiguous().t(), of_d, of_b, out_dtype=torch.bfloat16).reshape(ctx.shape)
        dw = torch._scaled_mm(d.t().contiguous(), a.t().contiguous().t(), of_d, of_a, out_dtype=torch.float32)
        return dx, dw, flat.float().sum(0) if ctx.has_bias else None


class Fp8Linear(nn.Linear):
    def forward(self, x):
        return ScaledMm.apply(x.to(torch.bfloat16), self.weight, self.bias)


# ---- recipes: what is done to the model, the context of a forward pass, the scaler


def prepare(name, model, optimizer, device):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = name == "tf32"
    amp = {"bf16-amp": torch.bfloat16, "fp8-scaled-mm": torch.bfloat16, "fp16-amp-noscale": torch.float16,
           **dict.fromkeys(SCALERS, torch.float16)}  # fmt: skip
    context, scale = contextlib.nullcontext, SCALERS.get(name)
    if name in amp:
        if name == "fp8-scaled-mm":
            for block in model.blocks:
                for part in (block.attention.qkv, block.attention.out, block.up, block.down):
                    part.__class__ = Fp8Linear
        context = lambda: torch.autocast(device, amp[name])
    elif name not in ("fp32", "tf32", "fp16-pure", "bf16-pure"):
        narrow.torch.emulate(model, name, optimizer=optimizer, dtypes="narrow" if device == "cuda" else "wide")
        if model.narrow_emulation.recipe.loss_scaler not in (None, "none"):
            scale = 2.0**16
        if "logits" in name:  # the loss is outside of forward
            context = lambda: model.narrow_emulation
    return context, None if scale is None else torch.amp.GradScaler(device, init_scale=scale)


class Batches:
    """Windows of the text in an order that the seed decides, all once before any comes again; the last fiftieth is kept for tests."""

    def __init__(self, tokens, o):
        self.tokens, self.o = tokens, o
        windows = (len(tokens) - 1) // o.context
        if windows < 50:
            raise SystemExit(f"record.py: {o.tokens} has {len(tokens)} tokens; {50 * o.context + 1} are the least with a context of {o.context}")
        self.held = np.arange(windows - windows // 50, windows)
        rng, need = np.random.default_rng(o.seed), o.steps * o.batch
        order = [rng.permutation(windows - len(self.held)) for _ in range(-(-need // (windows - len(self.held))))]
        self.order = np.concatenate(order)

    def take(self, windows):
        rows = np.stack([self.tokens[w * self.o.context : (w + 1) * self.o.context + 1] for w in windows]).astype(np.int64)
        ids = torch.from_numpy(rows)
        return ids.pin_memory().to("cuda", non_blocking=True) if self.o.device == "cuda" else ids

    def step(self, n):
        return self.take(self.order[n * self.o.batch : (n + 1) * self.o.batch])


def by_step(text):
    """The records of a step in one line, a list for each key, as WatchedRun reads it (lib/narrow/tensor/watched_record.hpp): a
    quarter less when it is packed. Left out is what follows from the rest."""
    rows, steps, before = [json.loads(line) for line in text.splitlines()], {}, {}
    for row in rows:
        steps.setdefault(row["step"], []).append(row)
    lines = []
    most = 2000  # a line has a megabyte at most
    for step, tensors in ((s, all[i : i + most]) for s, all in steps.items() for i in range(0, len(all), most)):
        line = {"step": step, "tensors": len(tensors)}
        for key in ("role", "name", "dtype"):
            column = [t[key] for t in tensors]
            if column != before.get(key):
                line[key] = before[key] = column
        for key in ("zero", "subnormal", "inf", "nan"):
            if any(t[key] for t in tensors):
                line[key] = [t[key] for t in tensors]
        for key in ("scale", "first", "amax", "min_nonzero"):
            if any(key in t for t in tensors):
                line[key] = [t.get(key) for t in tensors]
        line["binades"] = [[b - 2 * below for below, b in zip([0, *t["binades"]], t["binades"])] for t in tensors]
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
    return "".join(lines)


def loss_of(model, ids, context):
    with context():
        return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1).float(), ids[:, 1:].flatten())


def train(name, tokens, o):
    marks = [f"rate{o.rate:g}"] * (o.rate != RATE) + [o.remedy] * (o.remedy != "none") + [f"seed{o.seed}"] * (o.seed != 1)
    folder = o.output / "-".join([name, *marks])
    if (folder / "run.json").exists() and "held_out_loss" in (folder / "run.json").read_text():
        print(f"{name}: {folder} is there already", flush=True)
        return
    gc.collect()  # models and their hooks are cycles
    if o.device == "cuda":
        torch.cuda.empty_cache()
    torch.manual_seed(o.seed)
    model = GPT(o).to(o.device)
    if name in ("fp16-pure", "bf16-pure"):
        model.to(torch.float16 if name == "fp16-pure" else torch.bfloat16)
    parameters = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), o.rate, betas=(0.9, 0.95), weight_decay=0.1, fused=o.device == "cuda")
    context, scaler = prepare(name, model, optimizer, o.device)
    warm = max(1, o.schedule // 10)  # a run that ends earlier has the rates of the others
    rate = lambda n: min(1.0, (n + 1) / warm) * (0.55 + 0.45 * math.cos(math.pi * max(0, n - warm) / max(1, o.schedule - warm)))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    batches = Batches(tokens, o)
    watched = np.unique(np.geomspace(1, o.steps, o.watched).astype(int)) - 1
    watch = narrow.torch.watch(model, optimizer, scaler, every=watched, formats=(), signs=False, to=folder)
    losses, norms, marks, peak = [], [], [time.perf_counter()], 0
    # After watch's own hook: what is recorded is not clipped.
    optimizer.register_step_pre_hook(lambda *_: norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).detach()))
    if o.device == "cuda":
        marks = [torch.cuda.Event(enable_timing=True)]
        marks[0].record()
    begin = time.perf_counter()
    for n in range(o.steps):
        ids = batches.step(n)
        total = 0
        for part in ids.chunk(o.parts):
            loss = loss_of(model, part, context) * len(part) / len(ids)
            (loss if scaler is None else scaler.scale(loss)).backward()
            total = total + loss.detach()
        losses.append(total)
        if scaler is None:
            optimizer.step()
        else:
            scaler.unscale_(optimizer)
            scaler.step(optimizer)  # not where a gradient is Inf or NaN
            scaler.update()
        if len(norms) < len(losses):
            norms.append(torch.full_like(total, math.inf))
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if o.device == "cuda":
            if n not in watched:  # watching takes memory of its own
                peak = max(peak, torch.cuda.max_memory_allocated())
            torch.cuda.reset_peak_memory_stats()
            marks.append(torch.cuda.Event(enable_timing=True))
            marks[-1].record()
        else:
            marks.append(time.perf_counter())
    losses, norms = (torch.stack(x).float().cpu().tolist() for x in (losses, norms))
    seconds = [a.elapsed_time(b) / 1e3 if o.device == "cuda" else b - a for a, b in zip(marks, marks[1:])]
    took = time.perf_counter() - begin
    watch.close()
    word = lambda x: x if math.isfinite(x) else str(x)
    size = o.batch * o.context
    with open(folder / "loss.jsonl", "w") as file:
        for n, (loss, norm, s) in enumerate(zip(losses, norms, seconds)):
            line = {"step": n, "loss": word(loss), "gradient_norm": word(norm), "tokens_per_second": round(size / s)}
            file.write(json.dumps(line) + "\n")
    rows = max(1, o.batch // o.parts)
    windows = batches.held[: max(rows, o.batch * 4 // rows * rows)]
    with torch.no_grad():
        held = [loss_of(model, batches.take(windows[i : i + rows]), context).item() for i in range(0, len(windows), rows)]
    about = json.loads((folder / "run.json").read_text())
    about |= {"recipe": name, "arithmetic": "emulated" if hasattr(model, "narrow_emulation") else "torch", "seed": o.seed,
              "remedy": o.remedy, "rate": o.rate, "layers": o.layers, "width": o.width, "heads": o.heads, "context": o.context,
              "parameters": parameters, "tokens_per_step": size, "steps": o.steps, "schedule": o.schedule, "held_out_loss": word(float(np.mean(held))),
              "tokens_per_second": round(size / float(np.median(seconds))),
              "peak_gib": round(peak / 2**30, 1) if o.device == "cuda" else None,
              "device": torch.cuda.get_device_name() if o.device == "cuda" else "CPU", "torch": torch.__version__}  # fmt: skip
    (folder / "run.json").write_text(json.dumps(about) + "\n")
    for log in folder.glob("*.jsonl"):
        text = log.read_text()
        with gzip.GzipFile(f"{log}.gz", "wb", 9, mtime=0) as packed:
            packed.write((by_step(text) if log.name == "tensors.jsonl" else text).encode())
        log.unlink()
    print(f"{name}: {took:.0f} s, {about['tokens_per_second']} tokens/s, peak {about['peak_gib']} GiB, loss {losses[0]:.3f} to "
          f"{np.mean(losses[-20:]):.4f}, held out {np.mean(held):.4f}, {sum(f.stat().st_size for f in folder.iterdir()) / 1e6:.2f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--tokens", required=True)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    for word, value in (("steps", 600), ("batch", 50), ("parts", 1), ("layers", 12), ("width", 768), ("heads", 12), ("context", 1024),
                        ("seed", 1), ("watched", 30), ("schedule", 0)):  # fmt: skip
        parser.add_argument(f"--{word}", type=int, default=value)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--remedy", choices=["none", "qk_norm", "soft_cap", "small_q"], default="none")
    parser.add_argument("--device", default="cuda")
    o = parser.parse_args()
    o.schedule = o.schedule or max(600, o.steps)
    tokens = np.load(o.tokens, mmap_mode="r")
    o.output.mkdir(parents=True, exist_ok=True)
    for name in o.recipes:
        train(name, tokens, o)


if __name__ == "__main__":
    main()
