"""broken.py FOLDER: models with one defect each, FOLDER/<rule> or FOLDER/<rule>+<variant>, the clean models they come
from, FOLDER/clean+<layout>, and FOLDER/expected.json: folder -> rule (null for a clean one). All sides divide by 128,
so that a clean model deserves no note. Other findings may follow from a defect; none may replace its rule.
"""
import json
import sys
from pathlib import Path

import numpy as np

import samples
from layouts import E4M3, Model, Tensor, bf16, f32, nearest, nibbles, number, spread

Q, K, O = (f"model.layers.0.self_attn.{m}_proj.weight" for m in "qko")
UP, DOWN = (f"model.layers.1.mlp.{m}_proj.weight" for m in ("up", "down"))
NORM, SOURCE = "model.norm.weight", samples.plain(samples.EVEN)[0]
RULES = {}  # folder: (clean sample, edit(model) -> the index to write, None for the right one)


def rule(name, base="deepseek"):
    return lambda edit: RULES.setdefault(name, (base, edit))


def scale(change, name=Q, suffix="_scale_inv"):
    """An edit: the stored scales of the named weights become change(scales)."""
    def edit(m):
        for n in [name + suffix] if name else [n for n in m.tensors if n.endswith(suffix)]:
            t = m.tensors[n]
            m.put(n, Tensor(t.dtype, np.asarray(change(np.array(t.array)), t.array.dtype)))
    return edit


def first(value):
    """One scale, that of the first block, set to a value or to value(old)."""
    def change(s):
        s.flat[0] = value(s.flat[0]) if callable(value) else value
        return s
    return change


def indexed(change):
    """An edit of the index alone: change(index, model)."""
    def edit(m):
        index = m.index()
        change(index, m)
        return index
    return edit


def elsewhere(m, name):
    return next(file for file in m.files if file != m.file_of(name))


def drop(name):
    return lambda m: m.drop(name) and None


def quantise(m, name):
    code, s = samples.fp8(number(m.tensors[name]), (128, 128))
    m.put(name, Tensor("F8_E4M3", code))
    m.put(name + "_scale_inv", f32(s), beside=name)


# ---- codes and scales --------------------------------------------------------------------------------------------
rule("codes-without-scales")(drop(Q + "_scale_inv"))
rule("codes-without-scales+nvfp4", "ct-nvfp4")(drop(Q + "_scale"))


@rule("bare-fp8")
def _(m):  # as some exchange it: cast, not scaled, and no word of it
    m.config.pop("quantization_config")
    for name in [n for n in m.tensors if n.endswith("_scale_inv")]:
        m.drop(name)


@rule("zero-scales+later")
def _(m):  # the first block is zero and has the scale of it; that of the second has lost its codes
    code = m.tensors[Q].array.copy()
    code[:128, :128] = 0
    m.put(Q, Tensor("F8_E4M3", code))
    s = m.tensors[Q + "_scale_inv"].array.copy()
    s.flat[:2] = 0
    m.put(Q + "_scale_inv", f32(s))


rule("scale-without-codes")(drop(DOWN))
rule("scale-inverted")(scale(lambda s: 1 / s))
rule("scale-inverted+modelopt", "modelopt-nvfp4")(scale(lambda s: 1 / s, None, "weight_scale_2"))
rule("scale-inverted+ct", "ct-nvfp4")(scale(lambda s: 1 / s, None, "weight_global_scale"))
# A scale of 1 where the codes reach 448: the writer scaled and did not say by what.
rule("largest-value-unscaled", "ct-fp8-tensor")(lambda m: m.put(Q + "_scale", bf16(np.ones(1))))
rule("nan-scales")(scale(first(np.nan)))
rule("nan-scales+inf")(scale(first(np.inf)))
rule("nan-scales+e4m3", "ct-nvfp4")(scale(first(0x7F), Q, "_scale"))
rule("nan-scales+e8m0", "ct-mxfp4")(scale(first(255), Q, "_scale"))
rule("zero-scales")(scale(first(0)))
rule("zero-scales+e4m3", "modelopt-nvfp4")(scale(first(0), Q, "_scale"))
rule("subnormal-scales")(scale(first(1e-40)))
rule("negative-scales")(scale(first(lambda s: -s)))
rule("scale-grid")(scale(lambda s: s[:, :-1], DOWN))
# Counted on the packed columns: half of what the unpacked ones need.
rule("scale-grid+nvfp4", "ct-nvfp4")(scale(lambda s: s[:, : s.shape[1] // 2], DOWN, "_scale"))
rule("e8m0-in-disguise", "deepseek-ue8m0")(scale(first(lambda s: s * 1.3229), O))
rule("all-zero-tensor")(lambda m: m.put(Q, Tensor("F8_E4M3", np.zeros_like(m.tensors[Q].array))))
rule("missing-activation-scale", "modelopt-fp8")(drop(DOWN.removesuffix("weight") + "input_scale"))
rule("bad-nibble-state", "bnb-nf4")(drop(Q + ".quant_state.bitsandbytes__nf4"))


@rule("scale-beside-unquantised")
def _(m):  # named in the skip list: only the left-over scale is wrong
    m.put(DOWN, bf16(SOURCE[DOWN]))
    m.config["quantization_config"]["modules_to_not_convert"].append(DOWN.removesuffix(".weight"))


@rule("nan-codes")
def _(m):
    code = m.tensors[Q].array.copy()
    code[3, 5], code[200, 100] = 0x7F, 0xFF
    m.put(Q, Tensor("F8_E4M3", code))


@rule("mx-codes-off-by-two", "ct-mxfp4")
def _(m):
    m.config["quantization_config"]["version"] = "0.13.0"
    scale(lambda s: np.where(s > 1, s - 2, s), None, "weight_scale")(m)


@rule("constant-scales")
def _(m):
    s = number(m.tensors[Q + "_scale_inv"])
    x = number(m.tensors[Q]) * spread(s, (128, 128), SOURCE[Q].shape)
    m.put(Q, Tensor("F8_E4M3", nearest(E4M3, x / s.max())))
    m.put(Q + "_scale_inv", f32(np.full_like(s, s.max())))


@rule("fused-siblings-differ", "ct-nvfp4")
def _(m):  # a right quantisation of k_proj alone, with its own divisor
    code, s, divisor = samples.nvfp4(SOURCE[K], np.abs(SOURCE[K]).max() * 1.5)
    m.put(K + "_packed", Tensor("U8", nibbles(code)))
    m.put(K + "_scale", Tensor("F8_E4M3", nearest(E4M3, s)))
    m.put(K + "_global_scale", f32([divisor]))


@rule("fused-siblings-differ+modelopt", "modelopt-nvfp4")
def _(m):
    code, s, second = samples.nvfp4(SOURCE[UP], np.abs(SOURCE[UP]).max() * 1.5, divisor=False)
    m.put(UP, Tensor("U8", nibbles(code)))
    m.put(UP + "_scale", Tensor("F8_E4M3", nearest(E4M3, s)))
    m.put(UP + "_scale_2", f32(second))


# ---- shards ------------------------------------------------------------------------------------------------------
rule("shard-missing")(lambda m: (m.index(), m.files.pop(sorted(m.files)[1]))[0])
rule("shard-unindexed")(indexed(lambda index, m: index["weight_map"].pop(NORM)))
rule("shard-duplicate")(indexed(lambda index, m: m.files[elsewhere(m, NORM)].update({NORM: m.tensors[NORM]})))
rule("index-wrong-file")(indexed(lambda index, m: index["weight_map"].update({NORM: elsewhere(m, NORM)})))
rule("total-size")(indexed(lambda index, m: index["metadata"].update(total_size=1000)))


# ---- config against files ----------------------------------------------------------------------------------------
rule("config-says-plain")(lambda m: m.config.pop("quantization_config") and None)
rule("layout-mixed")(lambda m: m.put(Q + "_scale", m.tensors[Q + "_scale_inv"], beside=Q))
rule("should-not-be-quantised+embedding")(lambda m: quantise(m, "model.embed_tokens.weight"))
# Tied by the config, yet two different matrices are stored.
rule("tied-embeddings")(lambda m: m.config.update(tie_word_embeddings=True))
# bfloat16 has 8 significant bits; these F32 values need more.
rule("values-not-of-source")(lambda m: m.put(NORM, f32(number(m.tensors[NORM]) * (1 + 2.0**-12))))


@rule("config-says-quantised")
def _(m):
    m.put(DOWN, bf16(SOURCE[DOWN]))
    m.drop(DOWN + "_scale_inv")


@rule("configs-disagree", "modelopt-nvfp4")
def _(m):
    other = json.loads(m.other["hf_quant_config.json"])
    other["quantization"]["quant_algo"] = "FP8"
    m.other["hf_quant_config.json"] = json.dumps(other, indent=4).encode()


@rule("layout-mixed+name")
def _(m):  # every scale under the name that another layout gives it
    for tensors in m.files.values():
        for name in [n for n in tensors if n.endswith("_scale_inv")]:
            tensors[name.removesuffix("_inv")] = tensors.pop(name)


@rule("should-not-be-quantised")
def _(m):
    quantise(m, "lm_head.weight")
    m.config["quantization_config"]["modules_to_not_convert"] = []


@rule("values-not-of-source+float16")
def _(m):  # beyond 65504 and below 2^-25, in F32; every other kept tensor is float16
    m.config["torch_dtype"] = "float16"
    for name, t in m.tensors.items():
        if t.dtype == "BF16":
            m.put(name, Tensor("F16", number(t).astype("<f2")))
    x = number(m.tensors[NORM])
    x[:2] = 1e6, 1e-9
    m.put(NORM, f32(x))


def main(folder):
    folder, expected = Path(folder), {}
    for base in sorted({base for base, _ in RULES.values()}):
        samples.make(folder / f"clean+{base}", base, shapes=samples.EVEN)
        expected[f"clean+{base}"] = None
    for name, (base, edit) in RULES.items():
        model = Model(folder / f"clean+{base}")
        model.save(folder / name, edit(model))
        expected[name] = name.split("+")[0]
    samples.make(folder / "block-not-dividing", "deepseek", shapes=samples.RAGGED)
    samples.make(folder / "truncated-file", "deepseek", shapes=samples.EVEN)
    last = sorted((folder / "truncated-file").glob("*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-100])
    expected.update({name: name for name in ("block-not-dividing", "truncated-file")})
    (folder / "expected.json").write_text(json.dumps(expected, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
