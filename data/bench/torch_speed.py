"""Speed of narrow.torch on a GPU: python data/bench/torch_speed.py [--tokens 32768] [--layers 12]

A GPT of 124 M parameters (12 layers, width 768, vocabulary 50304) in plain torch; a step is forward, backward and AdamW.
Ratios are to the step under autocast to BF16, in the same run; best of several.
"""

import argparse
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

import narrow

parser = argparse.ArgumentParser()
parser.add_argument("--tokens", type=int, default=32768)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--exact", action="store_true", help="also the products of Hopper's tensor cores, bit for bit, on few tokens")
parser.add_argument("--peer", metavar="DIR", help="also microxcaling's MXFP8, from the folder of its repository")
parser.add_argument("--casts", action="store_true", help="also torch's own casts and their speed")
options = parser.parse_args()
width, vocabulary = 768, 50304


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.reshape(b, t, 12, 64).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(options.length, width)
        self.blocks = nn.Sequential(*(Block() for _ in range(options.layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def make():
    torch.manual_seed(0)
    model = GPT().cuda()
    return model, torch.optim.AdamW(model.parameters(), 3e-4, fused=True)


ids = torch.randint(vocabulary, (max(1, options.tokens // options.length), options.length + 1), device="cuda")


def step(model, optimizer, autocast, ids=ids):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    return loss


def timed(run, times=options.steps):
    run(), run()
    best = 1e9
    for _ in range(times):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def mean_of_fifty(model, optimizer):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        step(model, optimizer, True)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / 50


print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {ids.shape[0]} x {options.length} tokens", flush=True)
model, optimizer = make()
base = timed(lambda: step(model, optimizer, True))
print(f"| bf16 autocast | {base * 1e3:.1f} ms | 1 | {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB |", flush=True)

if hasattr(narrow.torch, "watch"):
    with tempfile.TemporaryDirectory() as folder:
        w = narrow.torch.watch(model, optimizer=optimizer, every=1, to=folder + "/run")
        watched = timed(lambda: step(model, optimizer, True), 3)
        w.close()
        print(f"| watched step | {watched * 1e3:.1f} ms | {watched / base:.2f} |", flush=True)
        w = narrow.torch.watch(model, optimizer=optimizer, every=50, to=folder + "/run50")
        step(model, optimizer, True)
        many = mean_of_fifty(model, optimizer)
        w.close()
    plain = mean_of_fifty(model, optimizer)
    print(f"| watch every=50, 50 steps | {many * 1e3:.1f} ms | {many / plain:.3f} of {plain * 1e3:.1f} |", flush=True)
del model, optimizer
torch.cuda.empty_cache()

for recipe, dtypes in [(r, d) for d in ("narrow", "wide") for r in ("bf16-amp", "fp8-current", "mxfp8", "fp8-block", "nvfp4")]:
    model, optimizer = make()
    narrow.torch.emulate(model, recipe, optimizer=optimizer, dtypes=dtypes)
    torch.cuda.reset_peak_memory_stats()
    t = timed(lambda: step(model, optimizer, False), 3)
    print(f"| emulate {recipe}, {dtypes} dtypes | {t * 1e3:.1f} ms | {t / base:.2f} | {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB |", flush=True)
    del model, optimizer
    torch.cuda.empty_cache()

if options.exact:
    few = ids[:1, :257]
    model, optimizer = make()
    plain = timed(lambda: step(model, optimizer, True, few), 3)
    narrow.torch.emulate(model, "bf16-amp", products="hopper.wgmma")
    t = timed(lambda: step(model, optimizer, False, few), 1)
    print(f"| bf16 products as Hopper sums them, 256 tokens | {t * 1e3:.0f} ms | {t / plain:.0f} of {plain * 1e3:.1f} ms |", flush=True)

if options.peer:
    sys.path.insert(0, options.peer)
    import mx

    words = {"scale_bits": 8, "w_elem_format": "fp8_e4m3", "a_elem_format": "fp8_e4m3", "block_size": 32, "custom_cuda": False}
    specs = mx.finalize_mx_specs(mx.MxSpecs(words))
    model, optimizer = make()
    for block in model.blocks:
        for name, linear in list(block.named_children()):
            if isinstance(linear, nn.Linear):
                theirs = mx.Linear(linear.in_features, linear.out_features, mx_specs=specs).cuda()
                theirs.load_state_dict(linear.state_dict())
                setattr(block, name, theirs)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, fused=True)
    few = ids[: max(1, len(ids) // 8)]  # its rounding in Python keeps many copies
    plain_model, plain_optimizer = make()
    plain = timed(lambda: step(plain_model, plain_optimizer, True, few), 3)
    t = timed(lambda: step(model, optimizer, False, few), 3)
    narrow.torch.emulate(plain_model, "mxfp8", optimizer=plain_optimizer, layers={"head": None})  # as theirs
    ours = timed(lambda: step(plain_model, plain_optimizer, False, few), 3)
    print(f"| mxfp8 by microxcaling, {len(few)} x {options.length} tokens | {t * 1e3:.0f} ms | {t / plain:.1f} of {plain * 1e3:.1f} ms; narrow's {ours / plain:.1f} |", flush=True)
    del model, optimizer, plain_model, plain_optimizer
    torch.cuda.empty_cache()

if options.casts:
    x = torch.randn(2**28, device="cuda")
    y = torch.empty_like(x, dtype=torch.uint8)
    ours = timed(lambda: narrow.encode(x, "e4m3", overflow="saturate", out=y))
    theirs = timed(lambda: x.to(torch.float8_e4m3fn))
    print(f"| encode e4m3, 2^28 floats, beside torch's cast | {ours * 1e6:.0f} us | {ours / theirs:.2f} of {theirs * 1e6:.0f} us |", flush=True)
