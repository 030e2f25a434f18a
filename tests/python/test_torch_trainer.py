"""emulate beside `narrow train`: torch models with the trainer's parameters and batches end where the trainer ends."""

import functools
import statistics

import numpy as np
import pytest

import narrow

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional

SEEDS, WINDOW = 5, 20  # the trainer's final loss is the mean of its last 20 steps
DIGITS, TEXT = 60, 40  # steps
SIZES = (1, 32, 2, 32)  # of the byte GPT: layers, width, heads, context
RECIPES = ["fp32", "tf32", "bf16-amp", "fp16-amp", "fp8-current", "fp8-delayed", "fp8-block", "mxfp8", "nvfp4", "int8",
           "bf16-pure-kahan", "fp8-current-residual"]  # fmt: skip


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value", "output")})
        self.mlp = nn.ModuleDict({"up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})

    def forward(self, x):
        n, t, width = x.shape
        h = self.norm1(x)
        q, k, v = (self.attention[name](h).reshape(n, t, SIZES[2], -1).transpose(1, 2) for name in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + self.attention["output"](y)
        return x + self.mlp["down"](F.gelu(self.mlp["up"](self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        layers, width, _, context = SIZES
        self.token_embedding, self.position_embedding = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.final_norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, ids):
        x = self.token_embedding(ids) + self.position_embedding.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))


def load(model, parameters):
    """The trainer's numbers by the trainer's names; its embeddings have no ".weight"."""
    named = dict(model.named_parameters())
    assert len(named) == len(parameters)
    with torch.no_grad():
        for name, values in parameters.items():
            p = named[name] if name in named else named[name + ".weight"]
            p.copy_(torch.from_numpy(values).reshape(p.shape))


def trained(model, recipe, start, rate, decay, clip):
    load(model, start["parameters"])
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]  # fmt: skip
    optimizer = torch.optim.AdamW(groups, rate, betas=(0.9, 0.95), eps=1e-8)
    e = narrow.torch.emulate(model, recipe, optimizer=optimizer).narrow_emulation
    scaler = torch.amp.GradScaler("cpu", enabled=e.recipe.loss_scaler == "torch")
    losses = []
    for inputs, targets in start["batches"]:
        x = torch.from_numpy(inputs)
        optimizer.zero_grad()
        with e:
            loss = F.cross_entropy(model(x.long() if x.dtype == torch.int32 else x).flatten(0, -2), torch.from_numpy(targets).flatten().long())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return statistics.fmean(losses[-WINDOW:])


@functools.lru_cache(maxsize=None)
def start(task):
    sizes = SIZES if task == "lm" else None
    return narrow._narrow.training_start(task, 1, TEXT if task == "lm" else DIGITS, sizes)


@pytest.mark.parametrize("task", ["digits", "lm"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_training_ends_where_the_trainer_ends(task, recipe, program):
    words = ["--layers", SIZES[0], "--width", SIZES[1], "--heads", SIZES[2], "--context", SIZES[3]] if task == "lm" else []
    seeds = ",".join(str(seed + 1) for seed in range(SEEDS))
    rows = program("train", "--task", task, "--recipe", recipe, "--seed", seeds, "--steps", TEXT if task == "lm" else DIGITS, *words)
    ends = [row["final_loss"] for row in rows]
    spread = statistics.stdev(ends)
    if task == "lm":
        found = trained(Gpt(), recipe, start(task), 1e-3, 0.1, 1.0)
    else:
        found = trained(Mlp(), recipe, start(task), 2e-3, 0.01, 0.0)
    assert spread > 0 and np.isfinite(found)
    assert abs(found - ends[0]) <= 3 * spread, (found, ends)
    if recipe == "fp32":  # nothing is rounded: only the order of sums differs
        assert found == pytest.approx(ends[0], rel=1e-4)
