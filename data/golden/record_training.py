"""Records training steps of a small GPT on a GPU: losses, gradient norms and a hash of the weights, step by step.

    python data/golden/record_training.py OUT.tsv                     # on an H200: data/golden/training.tsv
    python data/golden/record_training.py OUT.tsv --steps 1 --trace OUT    # every ATen operation of the first step too, with its tensors

Weights and tokens are functions of a seed (block_models.py). Recipes: bf16 and fp16 are autocast over FP32 weights, fp16 with GradScaler; clipping at
a norm of 1, AdamW. Attention is FLASH_ATTENTION, and torch.use_deterministic_algorithms(True) holds. A row: size of the model, recipe, seed, step, loss, gradient norm (both as codes of
FP32), loss scale, hash of all weights after the step (hash_of of record_operations.py).
"""

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what deterministic algorithms ask for; on this GPU the usual size
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import block_models as models
import numpy as np
import record_operations as operations
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = os.environ.get("NARROW_DEVICE", "cuda")
SIZES = {"small": (128, 2, 64, 2, 4), "odd": (192, 3, 100, 3, 5)}  # width, heads, tokens, layers, batch
RECIPES = {"bf16": (torch.bfloat16, False), "fp16": (torch.float16, True)}  # autocast's dtype, whether the loss is scaled


def build(recipe, seed, size="small"):
    """Model, optimiser, scaler. bf16 takes AdamW's fused kernel and fp16 the foreach ones."""
    dtype, scaled = RECIPES[recipe]
    model = models.fill(models.Gpt(*SIZES[size][:4]), seed, torch.float32, 0.05).to(DEVICE).train().requires_grad_(True)
    fused = recipe == "bf16"
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused, foreach=not fused)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**16, growth_interval=20, enabled=scaled)
    return model, optimiser, scaler


def tokens_of(seed, step, size="small"):
    """Rows of tokens, one more than the model takes: each follows from the one before it but for one in four, so that there is something to learn."""
    _, _, length, _, batch = SIZES[size]
    draw = models.inputs_of.targets(seed + 5000 + step, batch * (length + 1), models.VOCABULARY, 0).reshape(batch, length + 1)
    tokens = draw.clone()
    for i in range(1, length + 1):
        tokens[:, i] = torch.where(draw[:, i] % 4 == 0, draw[:, i], (tokens[:, i - 1] * 7 + 3) % models.VOCABULARY)
    return tokens


@contextlib.contextmanager
def as_recorded(dtype):
    with torch.autocast(DEVICE, dtype), (sdpa_kernel(SDPBackend.FLASH_ATTENTION) if DEVICE != "cpu" else contextlib.nullcontext()):
        yield


def train_step(model, optimiser, scaler, recipe, tokens, trace=contextlib.nullcontext(), autocast=as_recorded):
    """Loss and gradient norm of one step; trace sees all of it but the optimiser. autocast: of narrow.torch.predicting() where that is asked."""
    with trace:
        tokens = tokens.to(DEVICE)
        with autocast(RECIPES[recipe][0]):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, models.VOCABULARY), tokens[:, 1:].reshape(-1))
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimiser)
    scaler.update()
    optimiser.zero_grad(set_to_none=True)
    return loss.detach(), norm


class Trace(TorchDispatchMode):
    """Every ATen operation, with the tensors that went in and came out; tensors are kept once, by content."""

    def __init__(self):
        super().__init__()
        self.calls, self.tensors = [], {}

    def keep(self, t):
        if not isinstance(t, torch.Tensor): return t if isinstance(t, (int, float, bool, str, type(None))) else str(t)
        flat = t.detach().contiguous()
        kind = str(t.dtype).removeprefix("torch.")
        wide = flat.view(torch.int16) if t.dtype in (torch.bfloat16, torch.float16) else flat
        array = wide.cpu().numpy()
        name = hashlib.sha1(array.tobytes() + kind.encode()).hexdigest()[:16]
        self.tensors.setdefault(name, array)
        return {"tensor": name, "dtype": kind, "shape": list(t.shape), "stride": list(t.stride()), "device": t.device.type}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.is_view or "view" in func.name(): return func(*args, **kwargs)
        inputs = tree_map(self.keep, [args, kwargs])
        out = func(*args, **kwargs)
        after = [self.keep(t) for t in tree_flatten([args, kwargs])[0] if isinstance(t, torch.Tensor)] if func._schema.is_mutable else []
        self.calls.append({"name": func.name(), "in": inputs, "out": tree_map(self.keep, out), "after": after})
        return out


    def save(self, prefix, kernels):
        """PREFIX-0.npz, .. of some 14 MB; the first one holds the list of calls."""
        parts, size = [{"calls": np.frombuffer(json.dumps({"calls": self.calls, "kernels": kernels}).encode(), np.uint8)}], 0
        for name, array in self.tensors.items():
            size += array.nbytes
            if size > 18 << 20:
                parts.append({})
                size = array.nbytes
            parts[-1][name] = array
        for i, part in enumerate(parts): np.savez_compressed(f"{prefix}-{i}.npz", **part)


def kernels_of(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        call()
        torch.cuda.synchronize()
    events = sorted((e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start)
    return [operations.kernel_name(e.name) for e in events if not e.name.startswith("Mem")]


def hash_of_weights(model):
    return operations.hash_of(torch.cat([operations.codes_of(p) for p in model.parameters()]))


def code(t):
    return f"{int(operations.codes_of(t.float().reshape(1))[0]):08X}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--trace", help="PREFIX: PREFIX-RECIPE-0.npz, .. for the first step of seed 1")
    options = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    lines = [f"# gpu {torch.cuda.get_device_name() if DEVICE != 'cpu' else 'cpu'}", f"# driver {operations.driver() if DEVICE != 'cpu' else '-'}", f"# torch {torch.__version__}",
             f"# date {datetime.date.today()}", "# command " + " ".join(["record_training.py", *sys.argv[2:]]), "size\trecipe\tseed\tstep\tloss\tnorm\tscale\tweights"]
    for recipe in options.recipes.split(","):
        for seed in map(int, options.seeds.split(",")):
            state = build(recipe, seed, options.size)
            lines.append("\t".join([options.size, recipe, str(seed), "-1", "-", "-", f"{state[2].get_scale():g}", f"{hash_of_weights(state[0]):016X}"]))
            for step in range(options.steps):
                trace = Trace() if options.trace and step == 0 and seed == 1 else None
                scale = state[2].get_scale()
                loss, norm = train_step(*state, recipe, tokens_of(seed, step, options.size), trace or contextlib.nullcontext())
                lines.append("\t".join([options.size, recipe, str(seed), str(step), code(loss), code(norm), f"{scale:g}", f"{hash_of_weights(state[0]):016X}"]))
                if trace: trace.save(f"{options.trace}-{recipe}", [] if DEVICE == "cpu" else kernels_of(lambda: train_step(*build(recipe, seed, options.size), recipe, tokens_of(seed, step, options.size))))
    with open(options.out, "w") as file: file.write("\n".join(lines) + "\n")
    print(f"{len(lines) - 6} rows, losses {lines[7].split(chr(9))[4]} to {lines[-1].split(chr(9))[4]}")


if __name__ == "__main__":
    main()
