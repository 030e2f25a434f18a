"""samples.py FOLDER: one small clean model of every layout, FOLDER/<name>, and the plain BF16 models they come from."""
import sys
import zlib
from pathlib import Path

import numpy as np

from layouts import (BNB_FP4, E2M1, E4M3, IQ4_NL, NF4, bf16, gguf_bytes, nearest, number, spread, store,
                     write_bitsandbytes, write_compressed_tensors, write_deepseek, write_gguf, write_model,
                     write_modelopt, write_mxfp4)

# hidden, query rows, key and value rows, intermediate. RAGGED: no side divides by 128, 436 not even by 8.
EVEN, RAGGED = (256, 256, 128, 384), (320, 200, 40, 436)
LAYERS, VOCABULARY, EXPERTS = 2, 72, 3
LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
SIBLINGS = ({"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj"})


def random(name, shape, scale=0.02):
    """BF16 values that depend on the name alone. Rows differ in size, and blocks of 128 x 128 by 4 in turn, so that no
    grid of scales is constant, not even one of powers of two."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    x = draw.standard_normal(shape) * scale * draw.uniform(0.5, 2, (*shape[:-1], 1))
    tile = (np.arange(shape[-1]) // 128 + np.arange(shape[-2] if len(shape) > 1 else 1)[:, None] // 128) % 2
    x = (x * 4.0**-tile).reshape(shape)
    return number(bf16(x.astype(np.float32)))


def plain(shapes):
    """(weights to quantise, tensors to keep, config) of a toy llama."""
    hidden, query, key, inner = shapes
    linear, keep = {}, {}
    sizes = dict(zip(LINEAR, [(query, hidden), (key, hidden), (key, hidden), (hidden, query), (inner, hidden),
                              (inner, hidden), (hidden, inner)]))
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for module, shape in sizes.items():
            name = f"{at}{'self_attn' if module in LINEAR[:4] else 'mlp'}.{module}.weight"
            linear[name] = random(name, shape)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            keep[f"{at}{norm}.weight"] = bf16(1 + random(at + norm, (hidden,)).astype(np.float32))
        keep[f"{at}self_attn.q_proj.bias"] = bf16(random(at + "bias", (query,)))
    linear["model.layers.1.self_attn.o_proj.weight"][:128, :128] = 0  # an all-zero block is legal in every layout
    keep["model.norm.weight"] = bf16(1 + random("norm", (hidden,)).astype(np.float32))
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        keep[name] = bf16(random(name, (VOCABULARY, hidden)))
    heads = query // (key if query % 64 else 64)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
              "intermediate_size": inner, "num_hidden_layers": LAYERS, "num_attention_heads": heads,
              "num_key_value_heads": max(1, key * heads // query), "head_dim": query // heads, "vocab_size": VOCABULARY,
              "attention_bias": True, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    return linear, keep, config


def plain_moe():
    """gpt-oss names; experts as [E, N, K], the orientation in which they are quantised."""
    hidden, inner, experts, keep = 256, 96, {}, {}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for name, shape in (("gate_up_proj", (EXPERTS, 2 * inner, hidden)), ("down_proj", (EXPERTS, hidden, inner))):
            experts[f"{at}mlp.experts.{name}"] = random(at + name, shape)
            keep[f"{at}mlp.experts.{name}_bias"] = bf16(random(at + name + "b", shape[:2]))
        keep[at + "mlp.router.weight"] = bf16(random(at + "router", (EXPERTS, hidden)))
        for proj in LINEAR[:4]:
            keep[f"{at}self_attn.{proj}.weight"] = bf16(random(at + proj, (hidden, hidden)))
        keep[at + "input_layernorm.weight"] = bf16(1 + random(at, (hidden,)).astype(np.float32))
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        keep[name] = bf16(random(name, (VOCABULARY, hidden)))
    config = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": hidden,
              "intermediate_size": inner, "num_hidden_layers": LAYERS, "num_local_experts": EXPERTS,
              "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 64, "vocab_size": VOCABULARY,
              "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    return experts, keep, config


# ---- quantisers: the scale rules of facts/checkpoints.md ---------------------------------------------------------
def tiles(x, block):
    """x as [grid rows, grid columns, elements of a block], zero-padded: zeros change no largest value."""
    rows, columns = block
    x = np.pad(x, [(0, -x.shape[0] % rows), (0, -x.shape[1] % columns)])
    x = x.reshape(x.shape[0] // rows, rows, x.shape[1] // columns, columns)
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def largest(x, block):
    return np.abs(tiles(x, block)).max(-1)


def fp8(x, block, dtype="F32", zero=1.0, power_of_two=False):
    block = (block[0] or x.shape[0], block[1] or x.shape[1])
    s = (largest(x, block) / 448).astype(np.float32).astype(np.float64)
    if dtype == "F8_E8M0" or power_of_two:  # up, so that nothing overflows
        s = 2.0 ** np.ceil(np.log2(np.where(s == 0, 1, s))) * (s != 0)
    s = number(store(np.where(s == 0, zero, s), dtype))
    return nearest(E4M3, x / spread(s, block, x.shape)), s


def nvfp4(x, amax, divisor=True):
    """codes, E4M3 block scales, and G = 448*6/amax (a divisor) or amax/2688 (a factor)."""
    tensor = np.float32(2688) / np.float32(amax) if divisor else np.float32(amax) / np.float32(2688)
    factor = 1 / float(tensor) if divisor else float(tensor)
    s = E4M3[nearest(E4M3, largest(x, (1, 16)) / 6 / factor)]
    s = np.where(s == 0, .125 if divisor else 1.0, s)
    return nearest(E2M1, x / (spread(s, (1, 16), x.shape) * factor)), s, tensor


def mx(x, table, ceil=False):
    amax = largest(x.reshape(-1, x.shape[-1]), (1, 32))
    top = np.nanmax(table)
    exponent = np.ceil(np.log2(np.where(amax == 0, 1, amax) / top)) if ceil else \
        np.floor(np.log2(np.where(amax == 0, 1, amax) / 1.75 * 2)) - np.floor(np.log2(top))
    code = np.where(amax == 0, 0, 127 + exponent)
    wide = spread(2.0 ** (code - 127), (1, 32), (amax.shape[0], x.shape[-1])).reshape(x.shape)
    return nearest(table, x / wide), code


def integer(x, bits, group, symmetric, dtype):
    """u = q + 2^(b-1) for packing (8 bits: the two's complement byte); asymmetric: zero point on the signed scale."""
    block, half = (1, group or x.shape[1]), 2 ** (bits - 1)
    t = tiles(x, block)
    low, high = np.minimum(t.min(-1), 0), np.maximum(t.max(-1), 0)
    s = np.maximum(-low, high) / ((2 * half - 1) / 2) if symmetric else (high - low) / (2 * half - 1)
    s = number(store(np.where(s == 0, 2.0**-7, s).astype(np.float32), dtype))
    zero = None if symmetric else np.clip(np.rint(-half - low / s), -half, half - 1)
    q = np.rint(x / spread(s, block, x.shape) + (0 if symmetric else spread(zero, block, x.shape)))
    q = np.clip(q, -half, half - 1).astype(np.int8)
    codes = q.view(np.uint8) if bits == 8 else (q + half).astype(np.uint8)
    return (codes, s) if symmetric else (codes, s, zero)


def bnb(x, table, blocksize, nested=None):
    flat = x.ravel()
    rows = np.pad(flat, (0, -len(flat) % blocksize)).reshape(-1, blocksize)
    absmax = np.abs(rows).max(1).astype(np.float32).astype(np.float64)
    scales = absmax
    if nested:
        centred = absmax - float(nested[1])
        outer = np.array([np.abs(centred[i : i + 256]).max() for i in range(0, len(centred), 256)], np.float32)
        outer_of = np.repeat(outer, 256)[: len(centred)].astype(np.float64)
        code = nearest(nested[0].astype(np.float64), centred / outer_of)
        decode = lambda: nested[0].astype(np.float64)[code] * outer_of + float(nested[1])
        code = code + (decode() < 0).astype(np.uint8)  # the absmax of an all-zero block may land just below 0
        scales, absmax = (code, outer), decode()
    order = np.argsort(table, kind="stable")
    sorted_ = table[order].astype(np.float64)
    ratio = rows / np.where(absmax == 0, 1, absmax)[:, None]
    picked = order[np.searchsorted((sorted_[1:] + sorted_[:-1]) / 2, ratio, "left")]  # a tie takes the lower code
    return picked.ravel()[: len(flat)].reshape(x.shape).astype(np.uint8), scales


def gguf(x, kind):
    t = tiles(x, (1, 32)).reshape(-1, 32)
    amax, low, high = np.abs(t).max(1), t.min(1), t.max(1)
    signed = t[np.arange(len(t)), np.abs(t).argmax(1)]
    if kind == "MXFP4":
        codes, d = mx(x, E2M1)
        codes = np.where(codes == 8, 0, codes).reshape(-1, 32)  # ggml reads code 8 as +0; its writers give 0
        return gguf_bytes(kind, codes.astype(np.uint8), d.ravel())
    half = lambda v: v.astype(np.float16).astype(np.float64)
    over = lambda v, d: v / np.where(d == 0, 1, d)[:, None]
    if kind == "IQ4_NL":
        d = half(signed / -127)
        return gguf_bytes(kind, nearest(IQ4_NL, over(t, d)), d)
    if kind == "Q8_0":
        d = half(amax / 127)
        return gguf_bytes(kind, np.clip(np.rint(over(t, d)), -128, 127).astype(np.int8).view(np.uint8), d)
    steps = 16 if kind[1] == "4" else 32
    if kind.endswith("_1"):
        d, m = half((high - low) / (steps - 1)), half(low)
        return gguf_bytes(kind, np.clip(np.rint(over(t - m[:, None], d)), 0, steps - 1).astype(np.uint8), d, m)
    d = half(signed / (-steps / 2))
    return gguf_bytes(kind, np.clip(np.rint(over(t, d)) + steps / 2, 0, steps - 1).astype(np.uint8), d)


# ---- the samples -------------------------------------------------------------------------------------------------
def shared_largest(linear):
    """Largest value over fused siblings: q/k/v and gate/up must share their global scale."""
    out = {}
    for name, x in linear.items():
        at, module = name.removesuffix(".weight").rsplit(".", 1)
        kin = next((s for s in SIBLINGS if module in s), {module})
        out[name] = max(np.abs(linear[f"{at}.{m}.weight"]).max() for m in kin)
    return out


def arguments(bits, kind, strategy, **more):
    return {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True, "dynamic": False, **more}


DYNAMIC = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
NESTED = ((np.linspace(-1, 1, 256) * np.abs(np.linspace(-1, 1, 256))).astype(np.float32), np.float32(.0625))


def make(folder, name, shapes=None):
    """Write sample `name`; shapes overrides the default sides."""
    kind, _, rest = name.partition("-")
    wide = shapes or (RAGGED if name in RAGGED_SAMPLES else EVEN)
    linear, keep, config = plain_moe() if name in ("mxfp4", "plain-moe") else plain(wide)
    each = lambda f: {n: f(x) for n, x in linear.items()}
    give = (folder, config)
    if kind == "plain":
        other = {"tokenizer.json": b'{"version": "1.0"}\n', "generation_config.json": b'{"do_sample": false}\n'}
        write_model(folder, {}, {**keep, **each(bf16)}, None, config, None, other, shards=2)
    elif kind == "deepseek":
        dtype = {"bf16": "BF16", "e8m0": "F8_E8M0"}.get(rest, "F32")
        more = {"scale_fmt": "ue8m0"} if rest in ("e8m0", "ue8m0") else {}
        write_deepseek(folder, each(lambda x: fp8(x, (128, 128), dtype, power_of_two=rest == "ue8m0")), keep, config,
                       scale=dtype, shards=2, **more)
    elif kind == "fp8":
        scalar = lambda x: (lambda c, s: (c, s.reshape(())))(*fp8(x, (0, 0)))
        names = ("_scale_inv", "activation_scale") if rest == "inv" else ("_scale", "input_scale")
        write_deepseek(folder, each(scalar), keep, config, block=None, suffix=names[0], activation=names[1])
    elif kind == "ct":
        make_ct(rest, linear, keep, *give)
    elif kind == "modelopt":
        shared = shared_largest(linear)
        algorithm = {"fp8": "FP8", "channel": "FP8_PER_CHANNEL_PER_TOKEN", "pb": "fp8_pb_wo"}.get(rest, rest.upper())
        block = {"fp8": (0, 0), "channel": (1, 0), "pb": (128, 128)}.get(rest)
        coded = each(lambda x: fp8(x, block)) if block else each(lambda x: mx(x, E4M3, ceil=True)) if rest == "mxfp8" \
            else {n: nvfp4(x, shared[n], divisor=False) for n, x in linear.items()}
        write_modelopt(folder, coded, keep, config, algorithm, shards=2)
    elif kind == "mxfp4":
        skip = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
        write_mxfp4(folder, each(lambda x: mx(x, E2M1)), keep, config, skip)
    elif kind == "bnb":
        what, _, double = rest.partition("-")
        size = 4096 if rest == "fp4" else 64  # 4096: the last block of a weight is short
        nested = NESTED if double else None
        coded = each(lambda x: bnb(x, NF4 if what == "nf4" else BNB_FP4, size, nested)) if what != "int8" else \
            each(lambda x: (np.rint(x / largest(x, (1, x.shape[1])) * 127).astype(np.int8).view(np.uint8),
                            largest(x, (1, x.shape[1]))))
        write_bitsandbytes(folder, coded, keep, config, what, size, nested)
    elif kind == "gguf":
        Path(folder).mkdir(parents=True, exist_ok=True)
        kinds = ("Q8_0", "Q4_0", "MXFP4", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "F16", "BF16", "F32")
        tensors = {n: ("F32", t.array.shape, number(t).astype("<f4").tobytes()) for n, t in keep.items()}
        for i, (n, x) in enumerate(linear.items()):
            k = kinds[i % len(kinds)]
            data = store(x, k).array.tobytes() if k in ("F16", "BF16", "F32") else gguf(x, k)
            tensors[n] = (k, x.shape, data)
        write_gguf(Path(folder) / "model.gguf", tensors, {"general.architecture": "llama", "general.alignment": 32,
                                                          "llama.rope.freq_base": 10000.0})


def make_ct(rest, linear, keep, folder, config):
    each = lambda f: {n: f(x) for n, x in linear.items()}
    write = lambda coded, form, weights, activations, **more: write_compressed_tensors(
        folder, coded, keep, config, form, weights, activations, **more)
    form, _, how = rest.partition("-")
    if form == "fp8":
        block = {"tensor": (0, 0), "channel": (1, 0), "block": (128, 128)}[how]
        shape = (lambda s: s.reshape(-1)) if how == "tensor" else (lambda s: s)
        coded = each(lambda x: (lambda c, s: (c, shape(s)))(*fp8(x, block, "BF16", zero=2.0**-7)))
        more, acts = ({"block_structure": [128, 128]}, {**DYNAMIC, "strategy": "group", "group_size": 128}) \
            if how == "block" else ({}, DYNAMIC)
        write(coded, "float-quantized", arguments(8, "float", how, **more), acts)
    elif form == "nvfp4":
        shared = shared_largest(linear)
        args = arguments(4, "float", "tensor_group", group_size=16, scale_dtype="torch.float8_e4m3fn")
        write({n: nvfp4(x, shared[n]) for n, x in linear.items()}, "nvfp4-pack-quantized", args,
              {**args, "dynamic": "local"}, shards=2)
    elif form in ("mxfp4", "mxfp8"):
        bits = int(form[-1])
        args = arguments(bits, "float", "group", group_size=32, scale_dtype="torch.uint8")
        write(each(lambda x: mx(x, E2M1 if bits == 4 else E4M3)), f"mxfp{bits}-" + ("pack-quantized" if bits == 4 else
              "quantized"), args, {**args, "dynamic": True})
    else:
        bits, symmetric = int(form[3:]), "asym" not in how
        group = 128 if "group" in how else None
        args = arguments(bits, "int", "group" if group else "channel", symmetric=symmetric)
        args.update({"group_size": group} if group else {})
        # F32 scales where a BF16 product of the 9-bit q - zero would round twice in the package that checks us
        dtype = "F32" if bits == 8 and not symmetric else "BF16"
        write(each(lambda x: integer(x, bits, group, symmetric, dtype)), "int-quantized" if bits == 8 else
              "pack-quantized", args, {**DYNAMIC, "type": "int"} if bits == 8 else None, scale=dtype)


RAGGED_SAMPLES = ("deepseek", "deepseek-bf16", "deepseek-e8m0", "deepseek-ue8m0", "fp8-tensor", "fp8-inv",
                  "ct-fp8-tensor", "ct-fp8-channel", "ct-fp8-block", "ct-int8-channel", "ct-int8-asym",
                  "ct-int4-channel", "ct-int4-channel-asym", "modelopt-fp8", "modelopt-channel", "bnb-nf4",
                  "bnb-nf4-double", "bnb-fp4", "bnb-fp4-double", "bnb-int8", "plain-ragged")
SAMPLES = RAGGED_SAMPLES + ("plain", "plain-moe", "deepseek-even", "ct-nvfp4", "ct-mxfp4", "ct-mxfp8", "ct-int4-group",
                            "ct-int4-group-asym", "ct-int3-group", "modelopt-pb", "modelopt-nvfp4", "modelopt-mxfp8",
                            "mxfp4", "gguf")


def main(folder):
    for name in SAMPLES:
        make(Path(folder) / name, name)


if __name__ == "__main__":
    main(sys.argv[1])
