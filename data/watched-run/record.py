"""A small GPT learns bytes on the CPU under FP16 autocast and a loss scaler; what watch would write about it.

Run: python3 record.py FOLDER   (needs torch and narrow; some minutes)
"""

import gzip
import json
import math
import pathlib
import sys
from datetime import datetime, timezone

import narrow
import numpy as np
import torch
from torch import nn

FORMATS = ["fp16", "e4m3", "e5m2"]
STEPS, EVERY, WIDTH, CONTEXT, BATCH = 151, 50, 64, 64, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).chunk(3, dim=-1)
        self.score = q @ k.transpose(-1, -2)
        mask = torch.full((CONTEXT, CONTEXT), -math.inf).triu(1)
        x = x + self.proj((self.score / math.sqrt(WIDTH) + mask).softmax(-1) @ v)
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, WIDTH), nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))
        self.block, self.head = Block(), nn.Linear(WIDTH, 256, bias=False)

    def forward(self, x):
        return self.head(self.block(self.tokens(x) + self.places))


def record(step, role, name, tensor, scale=None):
    """One line of tensors.jsonl."""
    x = tensor.detach().float().numpy()
    h, rows = narrow.histogram(x), narrow.statistics(x, FORMATS)
    keys = ("format", "underflow", "subnormal", "overflow", "mse", "sqnr_db")
    line = {"step": step, "role": role, "name": name, "dtype": {torch.float16: "fp16"}.get(tensor.dtype, "fp32"),
            "count": x.size, "zero": h.zero, "subnormal": h.subnormal, "inf": h.inf, "nan": h.nan,
            "first": int(h.binades[0]) if len(h.binades) else 0, "negative": h.negative.tolist(),
            "positive": h.positive.tolist(), "amax": rows[0].amax, "min_nonzero": rows[0].min_nonzero,
            "formats": [{key: row[key] for key in keys} for row in rows]}
    if scale is not None:
        line["scale"] = scale
    return json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n"


def main(folder):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    corpus = pathlib.Path(__file__).resolve().parent.parent / "text" / "corpus.txt.gz"
    text = torch.from_numpy(np.frombuffer(gzip.open(corpus).read(), np.uint8).astype(np.int64))
    model = Gpt()
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", growth_interval=20)
    outputs = {}
    for name, module in linear.items():
        module.register_forward_hook(lambda m, i, out, name=name: outputs.__setitem__(name, out))
    started = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    files = {"tensors": "", "scale": "", "loss": ""}
    for step in range(STEPS):
        at = torch.randint(0, len(text) - CONTEXT - 1, (BATCH,))
        x, y = (torch.stack([text[i + k : i + k + CONTEXT] for i in at]) for k in (0, 1))
        with torch.autocast("cpu", torch.float16):
            logits = model(x)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), y.flatten())
        optimiser.zero_grad()
        watched = step % EVERY == 0
        if watched:
            for out in outputs.values():
                out.retain_grad()
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        if watched:
            for name, out in outputs.items():
                files["tensors"] += record(step, "activation", name, out)
            files["tensors"] += record(step, "score", "block", model.block.score)
            for name, out in outputs.items():
                files["tensors"] += record(step, "activation_gradient", name, out.grad, scale)
            for name, module in linear.items():
                files["tensors"] += record(step, "gradient", name + ".weight", module.weight.grad, scale)
                files["tensors"] += record(step, "parameter", name + ".weight", module.weight)
            before = {name: module.weight.detach().clone() for name, module in linear.items()}
        amax = max(float(p.grad.abs().max()) for p in model.parameters()) / scale
        scaler.step(optimiser)
        scaler.update()
        if watched:
            for name, module in linear.items():
                files["tensors"] += record(step, "update", name + ".weight", module.weight.detach() - before[name])
        found = scaler.get_scale() < scale
        row = {"step": step, "scale": scale, "found_inf": found, "amax": amax if math.isfinite(amax) else None}
        files["scale"] += json.dumps(row) + "\n"
        files["loss"] += json.dumps({"step": step, "loss": loss.item()}) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    run = {"narrow_run": 1, "narrow": narrow.__version__, "model": "Gpt", "every": EVERY, "formats": FORMATS,
           "started": started, "torch": torch.__version__.split("+")[0]}
    (folder / "run.json").write_text(json.dumps(run) + "\n")
    for name, lines in files.items():
        (folder / f"{name}.jsonl").write_text(lines)


main(pathlib.Path(sys.argv[1]))
