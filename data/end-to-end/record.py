#!/usr/bin/env python3
"""Times whole training steps of a GPT, and memory-bound operations, on the GPU at hand.

    python3 record.py --out DIR      # writes DIR/steps.tsv and DIR/elementwise.tsv; about ten minutes on an H200; rows that
                                     # DIR/steps.tsv has already are kept, so that a run can be ended and taken up

A step is forward, backward, clipping and AdamW (fused) on random tokens, as a plain PyTorch program writes it: attention
by scaled_dot_product_attention, everything else module by module. Time is the mean of the steps after the first ones,
by CUDA events; memory is torch.cuda.max_memory_allocated() over the same steps. `mode` compiled: torch.compile of the
model. Each row runs in a process of its own, so that no allocator keeps what another row left.
"""
import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

# layers, width, heads, context, vocabulary, sequences a step
MODELS = {
    "gpt-125m": (12, 768, 12, 1024, 32000, 16),
    "gpt-370m": (24, 1024, 16, 1024, 32000, 16),
    "gpt-1.4b": (24, 2048, 16, 2048, 32000, 4),
}
RECIPES = ["fp32", "tf32", "bf16-amp", "fp16-amp", "bf16-pure", "fp8-current"]
LIMIT = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


def to_fp8(x, dtype):
    """Codes and the factor that undoes their scale: one scale for the tensor, from its own largest value."""
    amax = x.abs().amax().float().clamp(min=1e-12)
    scale = LIMIT[dtype] / amax
    return (x.float() * scale).clamp(-LIMIT[dtype], LIMIT[dtype]).to(dtype), amax / LIMIT[dtype]


def product(a, b_transposed, a_scale, b_scale):
    """a [m, k] times b [k, n], given as b^T [n, k]: the layout that the FP8 instruction takes."""
    return torch._scaled_mm(a, b_transposed.t(), a_scale, b_scale, out_dtype=torch.bfloat16)


class Fp8Product(torch.autograd.Function):
    """y = x w^T with E4M3 operands; gradients in E5M2. Transposed codes are copied: both operands must run along k."""

    @staticmethod
    def forward(ctx, x, w):
        rows = x.reshape(-1, x.shape[-1])
        xq, xs = to_fp8(rows, torch.float8_e4m3fn)
        wq, ws = to_fp8(w, torch.float8_e4m3fn)
        ctx.save_for_backward(xq, xs, wq, ws)
        ctx.shape = x.shape
        return product(xq, wq, xs, ws).reshape(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, dy):
        xq, xs, wq, ws = ctx.saved_tensors
        gq, gs = to_fp8(dy.reshape(-1, dy.shape[-1]), torch.float8_e5m2)
        dx = product(gq, wq.t().contiguous(), gs, ws).reshape(ctx.shape)
        dw = product(gq.t().contiguous(), xq.t().contiguous(), gs, xs)
        return dx, dw


class Fp8Linear(nn.Linear):
    def forward(self, x):
        y = Fp8Product.apply(x.to(torch.bfloat16), self.weight)
        return y if self.bias is None else y + self.bias.to(y.dtype)


class Block(nn.Module):
    def __init__(self, width, heads, linear):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.up, self.down = linear(width, 4 * width), linear(4 * width, width)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary, linear, recompute):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, linear) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.recompute = recompute
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(self.norm(x))


def one_row(name, recipe, recompute, mode, steps):
    layers, width, heads, context, vocabulary, batch = MODELS[name]
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("highest" if recipe == "fp32" else "high")
    linear = Fp8Linear if recipe == "fp8-current" else nn.Linear
    with torch.device("cuda"):
        model = Gpt(layers, width, heads, context, vocabulary, linear, recompute == "full")
    if recipe == "bf16-pure":
        model = model.bfloat16()
    count = sum(p.numel() for p in model.parameters())
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=recipe == "fp16-amp")
    low = {"bf16-amp": torch.bfloat16, "fp8-current": torch.bfloat16, "fp16-amp": torch.float16}.get(recipe)
    run = torch.compile(model) if mode == "compiled" else model
    generator = torch.Generator("cuda").manual_seed(2)

    def step():
        text = torch.randint(vocabulary, (batch, context + 1), device="cuda", generator=generator)
        with torch.autocast("cuda", low, enabled=low is not None):
            logits = run(text[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    for _ in range(max(3, steps // 3)):
        loss = step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(steps):
        loss = step()
    last.record()
    torch.cuda.synchronize()
    ms = first.elapsed_time(last) / steps
    return [name, count, batch, context, recipe, recompute, f"{ms:.3f}", f"{batch * context / ms * 1e3:.0f}",
            torch.cuda.max_memory_allocated(), f"{loss.item():.4f}", mode, layers, width, heads, vocabulary]


def elementwise():
    """Best of 30: bytes are those that the operation must read and write once."""
    rows, cols = 8192, 8192
    n = rows * cols
    weight = torch.ones(cols, device="cuda")
    targets = torch.randint(cols, (rows,), device="cuda")
    for dtype, name in ((torch.float32, "fp32"), (torch.bfloat16, "bf16"), (torch.float16, "fp16")):
        x, y = (torch.randn(rows, cols, device="cuda").to(dtype) for _ in range(2))
        w = weight.to(dtype)
        size = x.element_size()
        for operation, run, moved in (
            ("copy", lambda: x.clone(), 2 * n * size),
            ("add", lambda: x + y, 3 * n * size),
            ("relu", lambda: F.relu(x), 2 * n * size),
            ("gelu", lambda: F.gelu(x), 2 * n * size),
            ("layer_norm", lambda: F.layer_norm(x, (cols,), w, w), 2 * n * size),
            ("softmax", lambda: F.softmax(x, -1), 2 * n * size),
            ("cross_entropy", lambda: F.cross_entropy(x, targets), n * size),
        ):
            best = math.inf
            for _ in range(30):
                first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                first.record()
                run()
                last.record()
                torch.cuda.synchronize()
                best = min(best, first.elapsed_time(last))
            yield [operation, n, name, f"{best * 1e3:.2f}", f"{moved / best / 1e6:.1f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--row", help="(one row in this process, as JSON)")
    args = parser.parse_args()
    if args.row:
        print("ROW " + json.dumps(one_row(*json.loads(args.row))), flush=True)
        return

    head = (f"# gpu: {torch.cuda.get_device_name()}\n# torch: {torch.__version__}\n# cuda: {torch.version.cuda}\n"
            "# script: data/end-to-end/record.py\n")
    args.out.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(map(str, row)) for row in elementwise()]
    (args.out / "elementwise.tsv").write_text(
        head + "operation\telements\tformat\tmicroseconds\tgigabytes_per_second\n" + "\n".join(lines) + "\n")

    plan = [(m, r, "none", "eager") for m in MODELS for r in RECIPES]
    plan += [(m, r, "full", "eager") for m in ("gpt-370m", "gpt-1.4b") for r in ("fp32", "bf16-amp")]
    plan += [("gpt-370m", r, "none", "compiled") for r in RECIPES]
    plan += [("gpt-1.4b", r, "none", "compiled") for r in ("bf16-amp", "fp8-current")]
    steps_file = args.out / "steps.tsv"
    lines = [line for line in steps_file.read_text().splitlines() if line.startswith("gpt-")] if steps_file.exists() else []
    done = {tuple(line.split("\t")[i] for i in (0, 4, 5, 10)) for line in lines}
    for name, recipe, recompute, mode in plan:
        if (name, recipe, recompute, mode) in done:
            continue
        steps = 6 if recipe == "fp32" else 15
        ran = subprocess.run([sys.executable, __file__, "--row", json.dumps([name, recipe, recompute, mode, steps])],
                             capture_output=True, text=True)
        found = [line for line in ran.stdout.splitlines() if line.startswith("ROW ")]
        if not found:
            sys.exit(f"{name} {recipe} {recompute} {mode}: no result\n{ran.stderr[-3000:]}")
        lines.append("\t".join(map(str, json.loads(found[0][4:]))))
        print(lines[-1], flush=True)
        steps_file.write_text(
            head + "model\tparameters\tbatch\tcontext\trecipe\trecompute\tstep_ms\ttokens_per_second\tmax_memory_bytes\t"
            "final_loss\tmode\tlayers\twidth\theads\tvocabulary\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
