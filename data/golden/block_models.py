"""Transformers of both usual kinds whose weights and inputs are functions of a seed, the same on every machine.

    model, inputs = build("gpt_block", "bf16", seed=1)    # on the CPU; KINDS has the names

Parameter number i (in the order of named_parameters) is product_value(1000 * seed + i, 0, index) times a scale, rounded to the type;
weights of norms are 1 + value / 4. All of it is computed on the CPU: no result of a GPU goes into an input.
"""

import record_operations as inputs_of
import torch
import torch.nn.functional as F
from torch import nn

inputs_of.DEVICE = "cpu"
VOCABULARY = 1000


class Sum(nn.Module):
    """A residual sum, as a module so that hooks see it."""

    def forward(self, x, branch):
        return x + branch


class Product(nn.Module):
    def forward(self, x, y):
        return x * y


class Attend(nn.Module):
    """Causal attention; fewer heads of keys and values than of queries are shared."""

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


def heads_of(x, heads):
    batch, tokens, width = x.shape
    return x.view(batch, tokens, heads, width // heads).transpose(1, 2)


def joined(x):
    batch, heads, tokens, size = x.shape
    return x.transpose(1, 2).reshape(batch, tokens, heads * size)


# -- as GPT-2 ---------------------------------------------------------------------------------------------------------

class GptAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.attend, self.proj = nn.Linear(width, 3 * width), Attend(), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (heads_of(t, self.heads) for t in self.qkv(x).split(x.shape[-1], dim=-1))
        return self.proj(joined(self.attend(q, k, v)))


class GptMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc, self.gelu, self.proj = nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.proj(self.gelu(self.fc(x)))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.attention, self.sum1 = nn.LayerNorm(width), GptAttention(width, heads), Sum()
        self.norm2, self.mlp, self.sum2 = nn.LayerNorm(width), GptMlp(width), Sum()

    def forward(self, x):
        x = self.sum1(x, self.attention(self.norm1(x)))
        return self.sum2(x, self.mlp(self.norm2(x)))


class Gpt(nn.Module):
    def __init__(self, width, heads, tokens, layers):
        super().__init__()
        self.embedding, self.positions, self.sum = nn.Embedding(VOCABULARY, width), nn.Embedding(tokens, width), Sum()
        self.layers = nn.ModuleList(GptBlock(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.sum(self.embedding(tokens), self.positions(torch.arange(tokens.shape[1], device=tokens.device)))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# -- as Llama -----------------------------------------------------------------------------------------------------------

class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-6)


class Rotary(nn.Module):
    """Tables of cosines and sines in double precision on the CPU, rounded to the type: no sine of a GPU is asked."""

    def __init__(self, size, tokens):
        super().__init__()
        rates = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        angles = torch.arange(tokens, dtype=torch.float64)[:, None] * rates
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos().float())
        self.register_buffer("sin", angles.sin().float())

    def forward(self, x):
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * self.cos + turned * self.sin


class LlamaAttention(nn.Module):
    def __init__(self, width, heads, kv_heads, tokens):
        super().__init__()
        size = width // heads
        self.heads, self.kv_heads = heads, kv_heads
        self.q, self.k, self.v = (nn.Linear(width, n * size, bias=False) for n in (heads, kv_heads, kv_heads))
        self.rotary_q, self.rotary_k = Rotary(size, tokens), Rotary(size, tokens)
        self.attend, self.o = Attend(), nn.Linear(width, width, bias=False)

    def forward(self, x):
        q, k = self.rotary_q(heads_of(self.q(x), self.heads)), self.rotary_k(heads_of(self.k(x), self.kv_heads))
        return self.o(joined(self.attend(q, k, heads_of(self.v(x), self.kv_heads))))


class SwiGlu(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        self.silu, self.product = nn.SiLU(), Product()

    def forward(self, x):
        return self.down(self.product(self.silu(self.gate(x)), self.up(x)))


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, tokens, inner):
        super().__init__()
        self.norm1, self.attention, self.sum1 = RmsNorm(width), LlamaAttention(width, heads, kv_heads, tokens), Sum()
        self.norm2, self.mlp, self.sum2 = RmsNorm(width), SwiGlu(width, inner), Sum()

    def forward(self, x):
        x = self.sum1(x, self.attention(self.norm1(x)))
        return self.sum2(x, self.mlp(self.norm2(x)))


class Llama(nn.Module):
    def __init__(self, width, heads, kv_heads, tokens, inner, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, kv_heads, tokens, inner) for _ in range(layers))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# -- by name --------------------------------------------------------------------------------------------------------------

# name: the model, tokens, width of the input (0: tokens of the vocabulary), scale of matrices
KINDS = {
    "gpt_block": (lambda: GptBlock(768, 12), 1024, 768, 0.04),
    "llama_block": (lambda: LlamaBlock(768, 12, 4, 1024, 2048), 1024, 768, 0.04),
    "gpt": (lambda: Gpt(256, 4, 128, 12), 128, 0, 0.05),
    "llama": (lambda: Llama(256, 4, 2, 128, 704, 12), 128, 0, 0.05),
}


def fill(model, seed, dtype, scale):
    """Weights that are functions of a seed."""
    with torch.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            v = inputs_of.values(1000 * seed + i, 0, p.numel()).reshape(p.shape)
            p.data = (v * scale if p.ndim == 2 else v * 0.1 if name.endswith("bias") else v * 0.25 + 1.0).to(dtype)
    return model.to(dtype).eval().requires_grad_(False)


def build(kind, type_name, seed):
    """(model, inputs) on the CPU."""
    make, tokens, width, scale = KINDS[kind]
    dtype = inputs_of.TYPES[type_name]
    model = fill(make(), seed, dtype, scale)
    if width:
        return model, (inputs_of.tensor(seed, 1, (1, tokens, width), dtype),)
    return model, (inputs_of.targets(seed + 2000, tokens, VOCABULARY, 0)[None],)


# -- stages ---------------------------------------------------------------------------------------------------------------

def stages(model, call):
    """(name, output) of every module that ran, in the order in which they ended; then the answer of call()."""
    seen, handles = [], []
    for name, module in model.named_modules():
        def keep(_, __, out, name=name or "model"):
            seen.append((name, out.detach().clone(memory_format=torch.contiguous_format)))
        handles.append(module.register_forward_hook(keep))
    try:
        answer = call()
    finally:
        for handle in handles:
            handle.remove()
    return seen, answer


def weights_hash(model):
    codes = torch.cat([inputs_of.codes_of(t) for t in [*model.parameters(), *model.buffers()]])
    return inputs_of.hash_of(codes)


def is_kept(kind, seed, stage):
    """Of the deep models only seed 1 keeps every module: of the others the attentions, the blocks and the end."""
    parts = stage.split(".")
    return kind.endswith("_block") or seed == 1 or len(parts) <= 2 or parts[-1] == "attend"


def first_codes(codes):
    return " ".join(f"{c:X}" for c in codes[:8].tolist())
