# Question: which loss, which gradients and which loss curves does PyTorch give in FP32 for the models of narrow train?
# Run: python3 record_reference.py [FOLDER] with torch, numpy and safetensors; writes reference.safetensors and
# reference.json into FOLDER (this one when not given). FP32 and FP64 on the CPU: no TF32, no autocast, one thread.
#
# The transformer is a small pre-norm GPT (exact-erf GELU, LayerNorm with bias, eps 1e-5, untied head without bias); the
# MLP has ReLUs; the CNN has convolutions without bias, BatchNorm and ReLUs, and is recorded with channels last. Initial values are random everywhere, biases and norms included, so that no gradient is zero by symmetry.
import gzip
import io
import json
import pathlib
import sys

import numpy
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY, WIDTH, HEADS, LAYERS, CONTEXT = 256, 48, 4, 2, 32
LM_BATCH, DIGITS_BATCH, STEPS = 4, 64, 50
# Every optimiser of the curves; matrices decay, vectors do not. clip: largest global norm of the gradients, 0 for none.
OPTIMISERS = {
    "sgd": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "clip": 0.0},
    "adamw": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip": 0.0},
    "adamw-clipped": {"lr": 1e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip": 0.5},
}


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape

        def heads(y):  # [batch, length, width] -> [batch, heads, length, width / heads]
            return y.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)

        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        context = functional.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v
        return self.output(context.transpose(1, 2).reshape(batch, length, WIDTH))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(functional.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH, eps=1e-5), Attention()
        self.norm2, self.mlp = nn.LayerNorm(WIDTH, eps=1e-5), Mlp()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Parameter(torch.empty(VOCABULARY, WIDTH))
        self.position_embedding = nn.Parameter(torch.empty(CONTEXT, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.final_norm = nn.LayerNorm(WIDTH, eps=1e-5)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def loss(self, batch):  # tokens [batch, context + 1]: every byte predicts the next
        tokens, targets = batch[:, :-1], batch[:, 1:]
        x = self.token_embedding[tokens] + self.position_embedding
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.final_norm(x)).view(-1, VOCABULARY), targets.reshape(-1))


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)])

    def loss(self, batch):  # rows of 64 pixels 0..16 and a label
        x = batch[:, :64].to(self.layers[0].weight.dtype) / 16
        for layer in self.layers[:-1]:
            x = functional.relu(layer(x))
        return functional.cross_entropy(self.layers[-1](x), batch[:, 64])


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(1, 8, 3, padding=1, bias=False),
                                           nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(16)])
        self.head = nn.Linear(256, 10)

    def loss(self, batch):  # as above; the head sees the 16 channels of a place, then those of the next
        x = batch[:, :64].to(self.head.weight.dtype).view(-1, 1, 8, 8) / 16
        for convolution, norm in zip(self.convolutions, self.norms):
            x = functional.relu(norm(convolution(x)))
        return functional.cross_entropy(self.head(x.permute(0, 2, 3, 1).flatten(1)), batch[:, 64])


def channels_last(p):  # [outputs, inputs, height, width] -> [outputs, height, width, inputs]
    return p.permute(0, 2, 3, 1) if p.dim() == 4 else p


def initialise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name and name.endswith("weight"):
                p.copy_(1 + 0.1 * noise)
            elif p.dim() == 1:
                p.copy_(0.05 * noise)
            else:
                p.copy_((0.1 if isinstance(model, Transformer) else p[0].numel() ** -0.5) * noise)
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def restore(model, initial):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(initial[name])
    for norm in getattr(model, "norms", []):
        norm.reset_running_stats()
    model.train()


def make_optimiser(model, kind):
    options = {key: value for key, value in OPTIMISERS[kind].items() if key != "clip"}
    decay = options.pop("weight_decay")
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    if kind == "sgd":
        return torch.optim.SGD(groups, foreach=False, **options)
    options["betas"] = tuple(options["betas"])
    return torch.optim.AdamW(groups, foreach=False, **options)


def curve(model, initial, batches, kind):  # the loss before each of the steps, and after the last one on batch 0 (eval)
    restore(model, initial)
    optimiser, losses = make_optimiser(model, kind), []
    for batch in batches:
        optimiser.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        if OPTIMISERS[kind]["clip"]:
            nn.utils.clip_grad_norm_(model.parameters(), OPTIMISERS[kind]["clip"])
        optimiser.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses.append(model.loss(batches[0]).item())
    return losses


def record(task, model, batches, seed, tensors, results):
    initial = initialise(model, seed)
    tensors.update({f"{task}.initial.{name}": channels_last(value) for name, value in initial.items()})
    if task != "cnn":  # which sees those of the digits
        tensors[f"{task}.batches"] = batches.to(torch.uint8)
    results[task] = {"losses": [], "curves": {}, "curves_float64": {}}
    for i in range(2):
        model.zero_grad()
        loss = model.loss(batches[i])
        loss.backward()
        results[task]["losses"].append(loss.item())
        tensors.update(
            {f"{task}.gradient.{i}.{name}": channels_last(p.grad.clone()) for name, p in model.named_parameters()})
    for kind in OPTIMISERS:
        results[task]["curves"][kind] = curve(model, initial, batches, kind)
        tensors.update({f"{task}.after.{kind}.{name}": value.clone()
                        for name, value in model.named_buffers() if "running" in name})
        # The same run in FP64 from the same start: how far FP32 itself moves a curve.
        results[task]["curves_float64"][kind] = curve(model.double(), initial, batches, kind)
        model.float()


def text_batches():  # this file is the text: window after window, 50 batches
    text = torch.frombuffer(bytearray(pathlib.Path(__file__).read_bytes()), dtype=torch.uint8).long()
    starts = [(i * 131) % (len(text) - CONTEXT - 1) for i in range(STEPS * LM_BATCH)]
    return torch.stack([text[s:s + CONTEXT + 1] for s in starts]).view(STEPS, LM_BATCH, CONTEXT + 1)


def digit_batches():  # the first rows of the set, around again where they end
    with gzip.open(HERE.parent / "digits" / "digits.csv.gz") as file:
        rows = numpy.loadtxt(io.TextIOWrapper(file), delimiter=",", dtype=numpy.int64)
    order = numpy.arange(STEPS * DIGITS_BATCH) % len(rows)
    return torch.from_numpy(rows[order]).view(STEPS, DIGITS_BATCH, 65)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    torch.set_num_threads(1)
    shape = {"vocabulary": VOCABULARY, "width": WIDTH, "heads": HEADS, "layers": LAYERS, "context": CONTEXT}
    results = {"torch": torch.__version__, "device": "cpu", "threads": 1, "command": "python3 record_reference.py",
               "shape": shape, "steps": STEPS, "optimisers": OPTIMISERS}
    tensors = {}
    record("lm", Transformer(), text_batches(), 1, tensors, results)
    record("digits", Digits(), digit_batches(), 2, tensors, results)
    record("cnn", Cnn(), digit_batches(), 3, tensors, results)
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    save_file(tensors, folder / "reference.safetensors", metadata={"torch": torch.__version__, "device": "cpu"})
    (folder / "reference.json").write_text(json.dumps(results, indent=1) + "\n")
    for task in ("lm", "digits", "cnn"):
        for kind in OPTIMISERS:
            single, double = results[task]["curves"][kind], results[task]["curves_float64"][kind]
            worst = max(abs(a - b) for a, b in zip(single, double))
            print(f"{task} {kind}: loss {single[0]:.6f} -> {single[-1]:.6f}, FP32 and FP64 differ by at most {worst:.2e}")


main()
