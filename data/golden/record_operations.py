"""Records what PyTorch's operations return on a GPU: inputs are functions of a seed, outputs are kept as a hash.

    python data/golden/record_operations.py OUT.tsv                    # the cases of data/golden/operations.tsv
    python data/golden/record_operations.py OUT.tsv --random 300 --seed 7    # shapes and seeds drawn anew
    python data/golden/record_operations.py OUT.tsv --raw FOLDER       # all outputs too, as .npz

A row: operation, variant that was asked for, type, shape, seed, scale of x, arguments, the first kernel that ran, outputs, hash.
Input `index` of matrix 0 or 1 is product_value() of lib/narrow/golden/product_inputs.hpp times the scale, rounded to the
type; the hash is the sum of mix(code << 32 | index) modulo 2^64, NaN being the positive one with all bits set.
"""

import argparse
import datetime
import math
import os
import random
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as int64; products of int64 wrap, as those of words do
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
DEVICE = os.environ.get("NARROW_DEVICE", "cuda")


def shifted(x, bits):
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(z):
    z = z + GOLDEN
    z = (z ^ shifted(z, 30)) * -4658895280553007687  # 0xBF58476D1CE4E5B9
    z = (z ^ shifted(z, 27)) * -7723592293110705685  # 0x94D049BB133111EB
    return z ^ shifted(z, 31)


def values(seed, matrix, count):
    """product_value(seed, matrix, index) for index 0 .. count-1, on the GPU."""
    index = torch.arange(count, dtype=torch.int64, device=DEVICE)
    r = mix(index * GOLDEN + (seed * 2 + matrix))
    total = (r & 0xFFFF) + (shifted(r, 16) & 0xFFFF) + (shifted(r, 32) & 0xFFFF) + shifted(r, 48)
    return (total * 64 + (mix(r) & 63) - 131070 * 64).float() * 2.0**-21


def tensor(seed, matrix, shape, dtype, scale=1.0):
    x = values(seed, matrix, math.prod(shape))
    return (x * torch.tensor(scale, dtype=torch.float32, device=DEVICE)).reshape(shape).to(dtype)


def weight(seed, n, dtype):
    return (values(seed, 1, n) * 0.25 + 1.0).to(dtype)


def targets(seed, rows, cols, ignored):
    """A column for each row; every `ignored`-th row has none (-100)."""
    index = torch.arange(rows, dtype=torch.int64, device=DEVICE)
    t = shifted(mix(index * GOLDEN + seed * 2), 1) % cols
    return torch.where(index % ignored == ignored - 1, -100, t) if ignored else t


def codes_of(t):
    """Codes as int64, NaNs made one."""
    t = t.detach().contiguous()
    if t.dtype == torch.int32:
        return t.to(torch.int64).flatten() & 0xFFFFFFFF
    if t.dtype == torch.float64:
        return t.view(torch.int64).flatten()
    if t.dtype == torch.float32:
        bits = t.view(torch.int32).to(torch.int64) & 0xFFFFFFFF
        return torch.where(torch.isnan(t), 0x7FFFFFFF, bits).flatten()
    bits = t.view(torch.int16).to(torch.int64) & 0xFFFF
    return torch.where(torch.isnan(t), 0x7FFF, bits).flatten()


def hash_of(codes):
    index = torch.arange(codes.numel(), dtype=torch.int64, device=codes.device)
    return int(mix((codes << 32) | index).sum().item()) & 0xFFFFFFFFFFFFFFFF


# -- cases: (operation, variant, type, shape, seed, scale, {arguments}) --------------------------------------------------

BACKENDS = {"flash2": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION,
            "cudnn": SDPBackend.CUDNN_ATTENTION}


def prepare(case):
    """Inputs on the GPU, and the call that is recorded."""
    operation, variant, type_name, shape, seed, scale, arguments = case
    dtype = TYPES[type_name]
    if operation == "attention":
        b, h, g, lq, lk, d = shape
        q = tensor(seed, 0, (b, h, lq, d), dtype, scale)
        k = tensor(seed, 1, (b, g, lk, d), dtype, scale)
        v = tensor(seed + 1000, 0, (b, g, lk, d), dtype, 1.0)

        def attend():
            with sdpa_kernel(BACKENDS[variant]):
                return F.scaled_dot_product_attention(q, k, v, is_causal=bool(arguments.get("causal", 0)), enable_gqa=g != h)
        return attend
    if operation in BACKWARD: return prepare_backward(case)
    rows, cols = shape
    if arguments.get("all"):  # every code of a 16-bit type
        x = torch.arange(65536, device=DEVICE).to(torch.int32).to(torch.int16).view(dtype).reshape(shape)
    else:
        x = tensor(seed, 0, shape, dtype, scale)
    w = weight(seed, cols, dtype) if arguments.get("w") else None
    b = tensor(seed + 1000, 0, (cols,), dtype) if arguments.get("b") else None
    eps = arguments.get("eps")
    if operation == "softmax": return lambda: torch.softmax(x, -1)
    if operation == "log_softmax": return lambda: torch.log_softmax(x, -1)
    if operation == "layer_norm": return lambda: F.layer_norm(x, (cols,), w, b, eps if eps is not None else 1e-5)
    if operation == "rms_norm": return lambda: F.rms_norm(x, (cols,), w, eps)
    if operation == "gelu": return lambda: F.gelu(x)
    if operation == "gelu_tanh": return lambda: F.gelu(x, approximate="tanh")
    if operation == "silu": return lambda: F.silu(x)
    if operation == "sum": return lambda: x.sum(-1)
    if operation == "mean": return lambda: x.mean(-1)
    if operation == "cross_entropy":
        t = targets(seed + 2000, rows, cols, arguments.get("ignored", 0))
        return lambda: F.cross_entropy(x, t)
    raise SystemExit(f"unknown operation {operation}")


# Backward: which of the gradients torch.autograd.grad() gives is the result. The gradient of the output has the seed + 3000; sum_rows is what a bias gets,
# adamw and grad_norm work on as many tensors as rows, of cols elements and fewer.
BACKWARD = {"gelu_backward": "x", "gelu_tanh_backward": "x", "silu_backward": "x", "softmax_backward": "x", "log_softmax_backward": "x", "layer_norm_backward": "x",
            "layer_norm_backward_w": "w", "layer_norm_backward_b": "b", "rms_norm_backward": "x", "rms_norm_backward_w": "w", "cross_entropy_backward": "x",
            "sum_rows": "", "embedding_backward": "w", "grad_norm": "", "adamw_fused": "", "adamw_foreach": "", "attention_backward_q": "q",
            "attention_backward_k": "k", "attention_backward_v": "v"}


def lengths(rows, cols):
    """Elements of the tensors of an optimiser."""
    return [max(1, cols * (i + 1) // rows) for i in range(rows)]


def parameters(rows, cols, seed, dtype):
    found = [torch.nn.Parameter(tensor(seed + i, 0, (n,), dtype)) for i, n in enumerate(lengths(rows, cols))]
    for i, p in enumerate(found): p.grad = tensor(seed + 3000 + i, 0, tuple(p.shape), dtype)
    return found


def stepped(rows, cols, seed, dtype, fused, arguments):
    """Parameters after some steps of AdamW, as one vector."""
    found = parameters(rows, cols, seed, dtype)
    optimiser = torch.optim.AdamW(found, lr=arguments.get("lr", 1e-3), weight_decay=arguments.get("decay", 0.01), fused=fused, foreach=not fused)
    for step in range(arguments.get("steps", 1)):
        for i, p in enumerate(found): p.grad = tensor(seed + 3000 + 100 * step + i, 0, tuple(p.shape), dtype, 0.01)
        optimiser.step()
    return torch.cat([p.detach() for p in found])


def prepare_backward(case):
    """The forward is done here; the call that is recorded is the backward pass alone."""
    operation, variant, type_name, shape, seed, scale, arguments = case
    dtype = TYPES[type_name]
    name = operation.replace("_backward", "")
    if operation.startswith("attention"):
        b, h, g, lq, lk, d = shape
        leaves = {"q": tensor(seed, 0, (b, h, lq, d), dtype, scale), "k": tensor(seed, 1, (b, g, lk, d), dtype, scale), "v": tensor(seed + 1000, 0, (b, g, lk, d), dtype)}
        for leaf in leaves.values(): leaf.requires_grad_()
        with sdpa_kernel(BACKENDS[variant]):
            y = F.scaled_dot_product_attention(*leaves.values(), is_causal=bool(arguments.get("causal", 0)), enable_gqa=g != h)
        dy = tensor(seed + 3000, 0, tuple(y.shape), dtype)
        return lambda: torch.autograd.grad(y, leaves[BACKWARD[operation]], dy)[0]
    rows, cols = shape
    if operation == "grad_norm":
        found = parameters(rows, cols, seed, dtype)
        return lambda: torch.nn.utils.get_total_norm([p.grad for p in found])
    if operation.startswith("adamw"): return lambda: stepped(rows, cols, seed, dtype, operation == "adamw_fused", arguments)
    x = tensor(seed, 0, shape, dtype, scale)
    if operation == "sum_rows": return lambda: x.sum(0)
    if operation == "embedding_backward":  # rows tokens, cols wide, a table of `words` words
        words = arguments["words"]
        indices = targets(seed + 2000, rows, words, 0)
        table = torch.zeros(words, cols, dtype=dtype, device=DEVICE, requires_grad=True)
        y = F.embedding(indices, table)
        return lambda: torch.autograd.grad(y, table, x)[0]
    leaves = {"x": x, "w": weight(seed, cols, dtype) if arguments.get("w") else None, "b": tensor(seed + 1000, 0, (cols,), dtype) if arguments.get("b") else None}
    for leaf in leaves.values():
        if leaf is not None: leaf.requires_grad_()
    w, b, eps = leaves["w"], leaves["b"], arguments.get("eps", 1e-5)
    if name.startswith("layer_norm"): y = F.layer_norm(x, (cols,), w, b, eps)
    elif name.startswith("rms_norm"): y = F.rms_norm(x, (cols,), w, eps)
    elif name == "cross_entropy": y = F.cross_entropy(x, targets(seed + 2000, rows, cols, arguments.get("ignored", 0)))
    else: y = {"gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "silu": F.silu, "softmax": lambda t: torch.softmax(t, -1), "log_softmax": lambda t: torch.log_softmax(t, -1)}[name](x)
    dy = torch.ones_like(y) if y.ndim == 0 else tensor(seed + 3000, 0, tuple(y.shape), dtype)
    return lambda: torch.autograd.grad(y, leaves[BACKWARD[operation]], dy)[0]


def cases_of_backward():
    for t in TYPES:
        for op in ("gelu_backward", "gelu_tanh_backward", "silu_backward"):
            yield (op, "torch", t, (64, 500), 3, 3.0, {})
        for n in (10, 100, 128, 500, 1000, 1024, 1025, 2048, 3000, 5000, 10000, 50257):
            yield ("softmax_backward", "torch", t, (3, n), 11, 4.0, {})
            yield ("log_softmax_backward", "torch", t, (3, n), 11, 4.0, {})
        for rows, cols in ((5, 64), (5, 128), (5, 768), (5, 770), (5, 1000), (5, 1024), (3, 4096), (2, 8192), (3, 100), (2, 20000)):
            yield ("layer_norm_backward", "torch", t, (rows, cols), 21, 2.0, {"w": 1, "b": 1})
            yield ("layer_norm_backward", "torch", t, (rows, cols), 22, 2.0, {})
            yield ("rms_norm_backward", "torch", t, (rows, cols), 23, 2.0, {"w": 1})
        for rows, cols in ((5, 64), (31, 768), (32, 100), (64, 128), (100, 770), (128, 128), (512, 128), (512, 768), (1000, 256), (1024, 1024), (4096, 128), (8192, 64), (20000, 32)):
            yield ("layer_norm_backward_w", "torch", t, (rows, cols), 24, 2.0, {"w": 1, "b": 1})
            yield ("layer_norm_backward_b", "torch", t, (rows, cols), 24, 2.0, {"w": 1, "b": 1})
            yield ("rms_norm_backward_w", "torch", t, (rows, cols), 25, 2.0, {"w": 1})
            yield ("sum_rows", "torch", t, (rows, cols), 5, 1.0, {})
        for rows, cols in ((2, 8), (16, 1000), (128, 384), (512, 1000), (512, 384), (512, 512), (1000, 33), (2048, 128), (4096, 1024), (8192, 16), (65536, 8), (300, 4096), (100000, 1)):
            yield ("sum_rows", "torch", t, (rows, cols), 6, 1.0, {})
        for n, v in ((16, 100), (33, 768), (512, 1000), (20, 5000)):
            yield ("cross_entropy_backward", "torch", t, (n, v), 31, 2.0, {})
            yield ("cross_entropy_backward", "torch", t, (n, v), 32, 2.0, {"ignored": 7})
        for rows, cols, words in ((64, 128, 1000), (512, 128, 1000), (512, 64, 10), (2000, 128, 50), (3072, 32, 2), (4000, 32, 100)):
            yield ("embedding_backward", "torch", t, (rows, cols), 51, 1.0, {"words": words})
        for rows, cols in ((1, 100), (1, 512), (1, 1000), (1, 70000), (5, 3000), (30, 65536), (3, 200000), (300, 300)):
            yield ("grad_norm", "torch", t, (rows, cols), 61, 1.0, {})
        for op in ("adamw_fused", "adamw_foreach"):
            for steps in (1, 2, 3, 10):
                yield (op, "torch", t, (5, 1000), 71, 1.0, {"steps": steps})
            yield (op, "torch", t, (5, 1000), 72, 1.0, {"steps": 5, "lr": 3e-4, "decay": 0.1})
    for t in ("fp16", "bf16"):
        for part in "qkv":
            for causal in (0, 1):
                for n, d in ((16, 64), (64, 64), (100, 64), (128, 64), (200, 64), (300, 64), (128, 128), (200, 128), (100, 32), (300, 96)):
                    yield (f"attention_backward_{part}", "flash2", t, (1, 2, 2, n, n, d), 81, 1.0, {"causal": causal})
                yield (f"attention_backward_{part}", "flash2", t, (1, 1, 1, 600, 600, 64), 82, 2.0, {"causal": causal})
                yield (f"attention_backward_{part}", "flash2", t, (1, 4, 2, 150, 150, 64), 83, 1.0, {"causal": causal})
            yield (f"attention_backward_{part}", "flash2", t, (1, 2, 2, 100, 260, 64), 84, 1.0, {})
            for d in (40, 72, 192, 256): yield (f"attention_backward_{part}", "flash2", t, (1, 2, 2, 130, 130, d), 85, 1.0, {"causal": int(d != 72)})
            yield (f"attention_backward_{part}", "flash2", t, (1, 66, 66, 384, 384, 64), 86, 1.0, {"causal": 1})  # several tiles share a buffer of dq
            yield (f"attention_backward_{part}", "flash2", t, (1, 8, 1, 100, 100, 64), 87, 1.0, {"causal": 1})
            yield (f"attention_backward_{part}", "flash2", t, (1, 8, 2, 1, 300, 64), 88, 1.0, {})


def lengths_of(draw):
    """length(low, high): even on a scale of logarithms, often a multiple of what kernels ask for."""
    def length(low, high):
        n = round(math.exp(draw.uniform(math.log(low), math.log(high))))
        return max(low, n - n % draw.choice((1, 1, 4, 8, 64))) if n > 64 else n
    return length


def random_backward_cases(count, seed):
    draw = random.Random(seed)
    length = lengths_of(draw)
    for i in range(count):
        t, s, op = draw.choice(list(TYPES)), draw.randrange(10**6, 10**9), draw.choice(list(BACKWARD))
        scale = draw.choice((0.1, 1.0, 3.0))
        if op.startswith("attention"):
            h, n, d = draw.choice((1, 2, 4, 8)), length(16, 700), draw.choice((64, 64, 128, 96, 40))
            g = draw.choice([g for g in (1, 2, 4, 8) if h % g == 0])
            causal = draw.randrange(2)
            yield (op, "flash2", draw.choice(("fp16", "bf16")), (draw.choice((1, 2)), h, g, n, n if causal else length(16, 700), d), s, scale, {"causal": causal})
        elif op == "embedding_backward": yield (op, "torch", t, (length(1, 6000), length(8, 300)), s, 1.0, {"words": length(2, 3000)})
        elif op == "grad_norm": yield (op, "torch", t, (length(1, 120), length(10, 200000)), s, 1.0, {})
        elif op.startswith("adamw"): yield (op, "torch", t, (length(1, 9), length(10, 3000)), s, 1.0, {"steps": draw.randrange(1, 30), "lr": draw.choice((1e-4, 1e-3, 3e-2)), "decay": draw.choice((0.0, 0.01, 0.1))})
        elif op == "sum_rows": yield (op, "torch", t, (length(2, 100000), length(1, 2000)), s, scale, {})
        elif op.endswith(("_w", "_b")): yield (op, "torch", t, (length(1, 10000), length(8, 2000)), s, scale, {"w": 1, "b": 1} if op.startswith("layer") else {"w": 1})
        elif "norm" in op: yield (op, "torch", t, (length(1, 50), length(8, 20000)), s, scale, draw.choice(({}, {"w": 1})))
        elif op == "cross_entropy_backward": yield (op, "torch", t, (length(1, 3000), length(2, 5000)), s, scale, draw.choice(({}, {"ignored": 5})))
        else: yield (op, "torch", t, (length(1, 50), length(1, 60000 if "softmax" in op else 3000)), s, scale, {})


def cases_of_rows():
    for t in TYPES:
        for op in ("gelu", "gelu_tanh", "silu"):
            if t != "fp32": yield (op, "torch", t, (256, 256), 0, 1.0, {"all": 1})
            yield (op, "torch", t, (64, 1000), 3, 3.0, {})
        for n in (1, 2, 3, 7, 16, 31, 32, 33, 64, 100, 128, 129, 768, 1000, 1024, 1025, 2048, 2049, 3000, 4096, 4097, 8192,
                  9216, 9217, 10000, 12288, 16384, 24512, 24520, 32000, 32768, 50257, 50264, 65536, 100000):
            for op in ("softmax", "log_softmax"):
                yield (op, "torch", t, (3, n), 11, 4.0, {})
        for op in ("sum", "mean"):
            for n in (1, 2, 5, 31, 64, 100, 127, 128, 129, 136, 255, 512, 768, 1000, 1023, 2048, 3000, 4096, 4104, 8191, 8192,
                      9000, 16384, 32768, 50257, 65536, 131072, 300000):
                for rows in (1, 2, 3, 4, 8, 15, 16, 17, 100):
                    yield (op, "torch", t, (rows, n), 5, 1.0, {})
            for rows, n in ((1000, 768), (5000, 64), (2, 1 << 20), (1, 1 << 22), (4096, 8192)):
                yield (op, "torch", t, (rows, n), 5, 1.0, {})
        for n in (1, 2, 3, 4, 8, 60, 64, 100, 127, 128, 256, 508, 512, 516, 768, 770, 1000, 1023, 1024, 1536, 2048, 4096, 4098,
                  5120, 8192, 12288, 16384, 32768, 50257):
            yield ("layer_norm", "torch", t, (5, n), 21, 2.0, {"w": 1, "b": 1})
            yield ("layer_norm", "torch", t, (5, n), 22, 2.0, {})
            yield ("rms_norm", "torch", t, (5, n), 23, 2.0, {"w": 1})
            yield ("rms_norm", "torch", t, (5, n), 24, 2.0, {"w": 1, "eps": 1e-6})
            yield ("rms_norm", "torch", t, (5, n), 25, 2.0, {})
        yield ("layer_norm", "torch", t, (64, 768), 26, 1e-3, {"w": 1, "eps": 1e-3})
        yield ("layer_norm", "torch", t, (64, 768), 27, 1.0, {"w": 1, "b": 1})
        for n, v in ((1, 10), (16, 100), (32, 1000), (33, 768), (512, 768), (1000, 1000), (4096, 256), (16384, 64), (20000, 32),
                     (300, 50257)):
            yield ("cross_entropy", "torch", t, (n, v), 31, 2.0, {})
            yield ("cross_entropy", "torch", t, (n, v), 32, 2.0, {"ignored": 7})


def cases_of_attention():
    for t in ("fp16", "bf16"):
        for d in (64, 128):
            for causal in (0, 1):
                for n in (16, 17, 96, 100, 128, 129, 200, 256, 384, 512, 1000, 1024):
                    yield ("attention", "flash2", t, (1, 2, 2, n, n, d), 41, 1.0, {"causal": causal})
                yield ("attention", "flash2", t, (1, 1, 1, 2048, 2048, d), 41, 2.0, {"causal": causal})
                yield ("attention", "flash2", t, (2, 16, 16, 256, 256, d), 42, 2.0, {"causal": causal})
                yield ("attention", "flash2", t, (1, 12, 12, 1024, 1024, d), 43, 1.0, {"causal": causal})
                yield ("attention", "flash2", t, (1, 8, 2, 300, 300, d), 43, 1.0, {"causal": causal})
                for n in (16, 100, 129, 256, 512):
                    for backend in ("math", "efficient", "cudnn"):
                        yield ("attention", backend, t, (1, 2, 2, n, n, d), 44, 1.0, {"causal": causal})
            yield ("attention", "flash2", t, (1, 32, 8, 1, 2048, d), 45, 1.0, {})
            yield ("attention", "flash2", t, (1, 32, 32, 1, 777, d), 45, 1.0, {})
            yield ("attention", "flash2", t, (1, 4, 4, 100, 1000, d), 45, 1.0, {})
        for d in (8, 32, 40, 96, 192, 256):
            yield ("attention", "flash2", t, (1, 2, 2, 150, 150, d), 46, 1.0, {"causal": 1})
            yield ("attention", "flash2", t, (1, 2, 2, 600, 600, d), 46, 1.0, {})
    yield ("attention", "flash2", "bf16", (1, 1, 1, 8192, 8192, 64), 47, 1.0, {"causal": 1})
    yield ("attention", "flash2", "fp16", (1, 1, 1, 8192, 8192, 128), 47, 1.0, {})
    yield ("attention", "flash2", "bf16", (1, 20, 20, 4096, 4096, 64), 47, 1.0, {"causal": 1})


def random_cases(count, seed):
    draw = random.Random(seed)
    length = lengths_of(draw)
    for i in range(count):
        t, s = draw.choice(list(TYPES)), draw.randrange(10**6, 10**9)
        scale = draw.choice((0.01, 0.5, 1.0, 3.0, 10.0))
        kind = draw.randrange(8)
        if kind == 0: yield (draw.choice(("gelu", "gelu_tanh", "silu")), "torch", t, (length(1, 300), length(1, 3000)), s, scale, {})
        elif kind == 1: yield (draw.choice(("softmax", "log_softmax")), "torch", t, (length(1, 50), length(1, 100000)), s, scale, {})
        elif kind == 2: yield (draw.choice(("sum", "mean")), "torch", t, (length(1, 600), length(1, 200000)), s, scale, {})
        elif kind == 3: yield ("layer_norm", "torch", t, (length(1, 50), length(1, 20000)), s, scale, draw.choice(({}, {"w": 1}, {"w": 1, "b": 1}, {"w": 1, "b": 1, "eps": 1e-3})))
        elif kind == 4: yield ("rms_norm", "torch", t, (length(1, 50), length(1, 20000)), s, scale, draw.choice(({}, {"w": 1}, {"w": 1, "eps": 1e-6})))
        elif kind == 5: yield ("cross_entropy", "torch", t, (length(1, 5000), length(2, 5000)), s, scale, draw.choice(({}, {"ignored": 5})))
        else:
            b, h, n, d = draw.choice((1, 1, 2)), draw.choice((1, 2, 4, 8, 12)), length(16, 2048), draw.choice((64, 128))
            g = draw.choice([g for g in (1, 2, 4, 8, 12) if h % g == 0])
            causal = draw.randrange(2)
            m = n if causal else draw.choice((n, length(1, 2048)))
            yield ("attention", "flash2", draw.choice(("fp16", "bf16")), (b, h, g, m, n, d), s, draw.choice((0.5, 1.0, 2.0)), {"causal": causal})


# -- recording ------------------------------------------------------------------------------------------------------------

def mark():
    """A kernel that nothing else here launches: it stands before and after what is recorded."""
    torch.tril_indices(2, 2, device=DEVICE)


def recorded_kernels(calls):
    """Runs each of the calls (inputs are made by the iterator, on the GPU) and tells the kernels of each: one profile over all."""
    if DEVICE == "cpu": return [(call(), ["-"])[1] for call in calls]  # to try the script
    count = 0
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for call in calls:
            mark()
            call()
            mark()
            count += 1
        torch.cuda.synchronize()
    events = sorted((e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start)
    groups, inside = [], False
    for e in events:
        if "tril_indices" in e.name:
            inside = not inside
            if inside: groups.append([])
        elif inside and not e.name.startswith("Mem"):
            groups[-1].append(kernel_name(e.name))
    return groups if len(groups) == count else [["-"]] * count


def recorded(cases):
    """(case, codes, kernels) for each that torch takes."""
    done = []

    def calls():
        for case in cases:
            call = prepare(case)

            out = []

            def run():
                try:
                    out.append(call())
                except RuntimeError as e:
                    print(f"refused: {case}: {str(e).splitlines()[0]}", file=sys.stderr)
            yield run
            done.append((case, codes_of(out[0]) if out else None))
    names = recorded_kernels(calls())
    return [(case, codes, kernels) for (case, codes), kernels in zip(done, names) if codes is not None]


def kernel_name(name):
    """Without return type, namespaces and arguments, in at most 100 characters."""
    name = name.replace("void ", "").replace("at::native::", "").replace("(anonymous namespace)::", "").replace("pytorch_flash::", "")
    return name.split("(")[0][:100].replace(" ", "").replace("\t", " ")


def driver():
    run = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--raw")
    parser.add_argument("--only", help="attention, rows or backward (with use_deterministic_algorithms)")
    parser.add_argument("--most", type=int, default=1 << 17, help="codes of a case that go to --raw")
    options = parser.parse_args()
    if options.only == "backward":
        torch.use_deterministic_algorithms(True)
        cases = list(random_backward_cases(options.random, options.seed) if options.random else cases_of_backward())
    else:
        cases = list(random_cases(options.random, options.seed)) if options.random else [*cases_of_rows(), *cases_of_attention()]
        if options.only: cases = [c for c in cases if (c[0] == "attention") == (options.only == "attention")]
    lines = [f"# gpu {torch.cuda.get_device_name() if DEVICE != 'cpu' else 'cpu'}", f"# driver {driver() if DEVICE != 'cpu' else '-'}", f"# torch {torch.__version__}",
             f"# date {datetime.date.today()}", "# command " + " ".join(["record_operations.py", *sys.argv[2:]]),
             "operation\tvariant\ttype\tshape\tseed\tscale\targuments\tkernels\toutputs\thash"]
    raw = {}
    for start in range(0, len(cases), 200):
        for case, codes, kernels in recorded(cases[start:start + 200]):
            operation, variant, type_name, shape, seed, scale, arguments = case
            text = ",".join(f"{k}={v}" for k, v in arguments.items()) or "-"
            lines.append("\t".join([operation, variant, type_name, "x".join(map(str, shape)), str(seed), str(scale), text, (kernels or ["-"])[0][:48],
                                    str(codes.numel()), f"{hash_of(codes):016X}"]))
            if options.raw:
                raw[f"{len(lines)}"] = codes[:options.most].cpu().numpy().astype(np.uint32 if type_name == "fp32" else np.uint16)
    open(options.out, "w").write("\n".join(lines) + "\n")
    if options.raw: np.savez_compressed(options.raw, **raw)
    print(f"{len(lines) - 6} recordings of {len(cases)} cases")


if __name__ == "__main__":
    main()
