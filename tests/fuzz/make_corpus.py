"""Writes the seed corpora: small good files of each kind, from which the fuzzers start. Usage: make_corpus.py FOLDER"""
import io
import json
import os
import struct
import sys
import zipfile
import zlib

TYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
         "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
         "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}


def put(folder, kind, name, data):
    os.makedirs(f"{folder}/{kind}", exist_ok=True)
    open(f"{folder}/{kind}/{name}", "wb").write(data)


def ramp(count):
    return bytes(i % 251 for i in range(count))


def safetensors(entries, metadata=None):
    header, at = {} if metadata is None else {"__metadata__": metadata}, 0
    for name, (dtype, shape) in entries.items():
        count = TYPES[dtype]
        for n in shape:
            count *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count // 8]}
        at += count // 8
    text = json.dumps(header, separators=(",", ":")).encode()
    return text, ramp(at)


STATE = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [2, 64], "nested_blocksize": 256,
                    "nested_dtype": "float32", "nested_offset": 0.5})
W, GROUP = "m.weight", lambda **words: {"config_groups": {"group_0": {"weights": words}}}
LAYOUTS = {  # quantization_config, and the parts of one weight
    "deepseek": ({"quant_method": "fp8", "weight_block_size": [2, 2]},
                 {W: ("F8_E4M3", [3, 5]), W + "_scale_inv": ("F32", [2, 3])}),
    "fp4_experts": ({}, {W: ("I8", [2, 16]), "m.scale": ("F8_E8M0", [2, 1])}),
    "ct_nvfp4": ({}, {W + "_packed": ("U8", [2, 8]), W + "_scale": ("F8_E4M3", [2, 1]), W + "_global_scale": ("F32", [1])}),
    "ct_mxfp8": ({}, {W: ("F8_E4M3", [2, 32]), W + "_scale": ("U8", [2, 1]), "m.input_scale": ("F32", [1])}),
    "ct_block": (GROUP(strategy="block", block_structure=[2, 2]), {W: ("F8_E4M3", [3, 5]), W + "_scale": ("BF16", [2, 3])}),
    "ct_int8": ({}, {W: ("I8", [2, 3]), W + "_scale": ("BF16", [2, 1]), W + "_zero_point": ("I8", [2, 1])}),
    "ct_int4": (GROUP(num_bits=4, strategy="group", group_size=4),
                {W + "_packed": ("I32", [2, 1]), W + "_scale": ("F32", [2, 2]), W + "_shape": ("I64", [2]),
                 W + "_zero_point": ("I32", [1, 2])}),
    "modelopt": ({"quant_method": "modelopt"}, {W: ("U8", [2, 8]), W + "_scale": ("F8_E4M3", [2, 1]), W + "_scale_2": ("F32", [])}),
    "mxfp4": ({}, {"m_blocks": ("U8", [2, 1, 16]), "m_scales": ("U8", [2, 1])}),
    "nf4": ({}, {W: ("U8", [64, 1]), W + ".absmax": ("U8", [2]), W + ".quant_map": ("F32", [16]),
                 W + ".nested_absmax": ("F32", [1]), W + ".nested_quant_map": ("F32", [256]),
                 W + ".quant_state.bitsandbytes__nf4": ("U8", [len(STATE)])}),
    "bnb_int8": ({}, {W: ("I8", [2, 3]), "m.SCB": ("F32", [2])}),
}


def layout(config, entries):
    text, data = safetensors(entries)
    data = bytearray(data)
    for name, fixed in ((W + "_shape", struct.pack("<QQ", 2, 8)), (W + ".quant_state.bitsandbytes__nf4", STATE.encode())):
        if name in entries:
            begin = json.loads(text)[name]["data_offsets"][0]
            data[begin : begin + len(fixed)] = fixed
    return json.dumps(config).encode() + b"\n" + text + b"\0" + bytes(data)


def gguf(types):
    """One row of 32 values of each type: (number, bytes of its block)."""
    word = lambda text: struct.pack("<Q", len(text)) + text
    head = b"GGUF" + struct.pack("<IQQ", 3, len(types), 3)
    head += word(b"general.alignment") + struct.pack("<II", 4, 32) + word(b"a") + struct.pack("<I", 8) + word(b"text")
    head += word(b"list") + struct.pack("<IIQ", 9, 5, 2) + ramp(8)
    for i, (number, _) in enumerate(types):
        head += word(b"t%d" % i) + struct.pack("<IQQIQ", 2, 32, 1, number, 128 * i)
    return head + bytes(-len(head) % 32) + b"".join(ramp(size) + bytes(128 - size) for _, size in types)


def npy(descr, shape, data, fortran=False, version=1):
    text = repr({"descr": descr, "fortran_order": fortran, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def archive(members, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zip_file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            with zip_file.open(info, "w", force_zip64=method == zipfile.ZIP_STORED) as member:
                member.write(data)
    return file.getvalue()


def main(folder):
    every = {f"w.{dtype}": (dtype, [2, 4]) for dtype in TYPES}
    for name, (text, data) in {
        "every_type": safetensors(every),
        "metadata": safetensors({"a": ("F32", [3]), "b": ("U8", [])}, {"format": "pt", "note": "\u00e4\n"}),
        "scalar_and_empty": safetensors({"s": ("F32", []), "e": ("F64", [3, 0]), "o": ("U8", [3]), "x": ("F32", [2])}),
        "blocks": safetensors(
            {"q": ("F4", [2, 48]), "q.scale": ("F8_E4M3", [2, 3]), "q.scale2": ("F32", [1]), "m": ("U8", [9]),
             "m.scale": ("F8_E8M0", [2])},
            {"narrow.block_format.q": "nvfp4:te_nvfp4", "narrow.scale2.q": "factor", "narrow.block_format.m": "bfp8x8"}),
        "nothing": (b"{}", b""),
    }.items():
        put(folder, "safetensors", name, struct.pack("<Q", len(text)) + text + data)
        put(folder, "safetensors", name + "_json", text + b"\0" + data)
    for word in ["<f2", "<f4", "<f8", ">f4", "<c8", "|i1", ">i2", "<i8", "|u1", "<u2", "<u4", "|b1"]:
        count = 6 * int(word[2:])
        put(folder, "npy", word.translate(str.maketrans("<>|", "lbn")), npy(word, (2, 3), ramp(count)))
    put(folder, "npy", "fortran", npy("<f4", (3, 2), ramp(24), True))
    put(folder, "npy", "scalar", npy("<f4", (), ramp(4), version=2))
    put(folder, "npy", "vector", npy("<f4", (5,), ramp(20), version=3))
    put(folder, "npy", "dict", b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n" + ramp(12))
    arrays = {"a.npy": npy("<f4", (9,), ramp(36)), "b.npy": npy("<u2", (2, 2), ramp(8), True)}
    put(folder, "npz", "stored", archive(arrays, zipfile.ZIP_STORED))
    put(folder, "npz", "deflated", archive(arrays, zipfile.ZIP_DEFLATED))
    put(folder, "npz", "nothing", archive({}, zipfile.ZIP_STORED))
    put(folder, "npz", "member", b"S" + arrays["a.npy"])
    large = npy("<f4", (4000,), bytes(16000))
    for name, data in {"small_stream": arrays["a.npy"], "large_stream": large}.items():
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
        stream = squeeze.compress(data) + squeeze.flush()
        put(folder, "npz", name, b"D" + struct.pack("<I", len(data))[:3] + b"\0" + stream)
    header, data = safetensors({"x": ("F32", [2, 3]), "h": ("F16", [5]), "d": ("F64", [2])})
    for code, (name, file) in enumerate({
        "json": header + b"\0" + data, "fortran": npy("<f4", (3, 2, 4), ramp(96), True), "double": npy(">f8", (3,), ramp(24)),
        "archive": archive({"a.npy": npy("<f2", (4, 2), ramp(16), True)}, zipfile.ZIP_DEFLATED),
        "member": b"Z" + npy("<f4", (5, 7), ramp(140), True)}.items()):
        put(folder, "cast", name, bytes([7 * code]) + file)
    a, data_a = safetensors({"w": ("F32", [3])}, {"format": "pt"})
    b, data_b = safetensors({"v": ("U8", [4]), "u": ("BF16", [2])})
    index = json.dumps({"metadata": {"total_size": 20}, "weight_map": {"w": "a", "v": "b", "u": "b"}}).encode()
    put(folder, "sharded", "good", b"\0".join([index, a, b, bytes([len(data_a)]) + data_a + data_b]))
    put(folder, "sharded", "lies", b"\0".join([index.replace(b'"b"}', b'"../b"}'), a, b, b"\x01"]))
    texts(folder)


def texts(folder):
    """Recipes, logs of steps, recordings, and changes to a checkpoint (as fuzz_checkpoint.cpp takes them)."""
    precision = {"format": "e4m3", "rounding": "stochastic", "random_bits": 8, "scaling": "tensor_current"}
    model = {"accumulation": "model", "model": "hopper.mma.f32.f16.f16", "plan": "chain"}
    recipe = {"base": "fp16-amp", "name": "mine", "what": "a", "loss_scaler": "torch:init=2^10",
              "operations": {"linear": {"weights": precision, "gradients": "e5m2", "forward": model},
                             "norm": {"arithmetic": "bf16"}},
              "training": {"parameters": "bf16", "kahan": True}, "delayed": {"margin": 1, "history": 4}}
    deepspeed = {"train_batch_size": 32, "fp16": {"enabled": True, "initial_scale_power": 8}, "gradient_clipping": 1.0,
                 "zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 0.004}}}
    rows = [[0, 2.5, 65536, 0], [1, 2.4, 65536, 1]]
    tensor = {"kind": "grad", "amax": 1e-3, "inf": 0, "nan": 0}
    origin = {"gpu": "NVIDIA H200", "driver": "580", "toolkit": "13.0", "date": "2026-11-15", "command": "narrow gpu"}
    share = {"gpu": "NVIDIA H200", "sm": 90, "driver": "580", "toolkit": "13.0", "cublas": "13.1", "narrow": "0.1.0",
             "date": "2026-11-15", "seed": 1}
    first = {"step": 0, "tensor": "sum of gradients", "operation": 0, "role": 0, "in_model": False}
    watched = {"step": 0, "role": "gradient", "name": "w", "dtype": "fp32", "count": 4, "zero": [0, 1], "subnormal": [0, 0],
               "inf": [0, 0], "nan": [0, 0], "first": -25, "negative": [0, 1], "positive": [2, 0], "amax": 5e-8,
               "min_nonzero": 3e-8, "scale": 8.0, "formats": [{"format": "fp16", "underflow": 0, "subnormal": 3,
                                                               "overflow": 0, "mse": 1e-16, "sqnr_db": 3.5}]}
    run, step = {"narrow_run": 1, "model": "m", "formats": ["fp16"]}, {"step": 0, "scale": 8.0, "found_inf": False}
    watched_run = [json.dumps(run), 2 * (json.dumps(watched) + "\n") + '{"step"', json.dumps(step) + "\n",
                   '{"step": 0, "loss": "nan"}\n']
    packed = {"step": 0, "tensors": 2, "role": ["gradient", "score"], "name": ["w", "s"], "dtype": ["fp16", "fp32"], "zero": [1, 0],
              "scale": [8, None], "first": [-2, 5], "amax": [1.5, None], "min_nonzero": [0.25, None], "binades": [[1, 0, 3], []]}
    again = {"step": 9, "tensors": 2, "first": [0, 1], "binades": [[3, -6, 2], [0, 1, -1]]}
    packed_run = ['{"narrow_run": 1, "formats": []}', json.dumps(packed) + "\n" + json.dumps(again) + "\n"]
    lines = lambda fields: "".join(f"# {key} {value}\n" for key, value in fields.items())
    for name, (config, entries) in LAYOUTS.items():
        put(folder, "layout", name, layout(config, entries))
    put(folder, "gguf", "blocks", gguf([(0, 128), (1, 64), (30, 64), (8, 34), (2, 18), (3, 20), (6, 22), (7, 24), (20, 18), (39, 17), (12, 0)]))
    for kind, seeds in {
        "recipe": {"own": json.dumps(recipe), "deepspeed": json.dumps(deepspeed), "nothing": "{}",
                   "fsdp": "fsdp:param_dtype=bfloat16,reduce_dtype=float32,keep_low_precision_grads=True",
                   "megatron": "megatron:--fp16 --initial-loss-scale 65536 --hysteresis=4"},
        "scale_log": {"csv": "step,amax,found_inf,scale\n0,1e-3,0,1024\n# a\n2,inf,1,\n", "rows": json.dumps(rows),
                      "lines": '{"step": 0, "scale": 8, "found_inf": false}\n{"step": 1, "scale": 4, "found_inf": 1}\n',
                      "runs": ":b\n" + json.dumps({"runs": [{"name": "a", "rows": []}, {"name": "b", "dtype": "float16",
                                                   "columns": ["step", "amax"], "rows": [[0, 1], [1, None]]}]}),
                      "passes": json.dumps({"steps": [{"step": 0, "scale": 2, "dtype": "float32", "tensors": [tensor]}]})},
        "watched_run": {"good": "\0".join(watched_run), "gradients": "\0".join(watched_run[:2]), "packed": "\0".join(packed_run)},
        "recording": {"golden": lines({**origin, "instruction": "mma.m16n8k16.f16.f16.f16", "seed": 1, "tiles": 2,
                                       "full": 64}) + "C9C1713EC6292ED3 95F3021D1F4835B4\n" + "3C00" * 64 + "\n",
                      "share": lines(share) + "convert cvt a | inputs 65536 0 977C215330A9352E\n"
                               "instruction mma.m16n8k16.f16.f16.f16 2 1\ntiles C9C1713EC6292ED3\n"
                               "dot " + "3C00" * 16 + " " + "4000" * 16 + " A341 FC00\nend 1 1 1 1\n"},
        "checkpoint": {"progress": "P" + json.dumps({"optimiser_steps": 4, "first_nonfinite": first, "broke": 3}),
                       "nothing": "P" + json.dumps({"optimiser_steps": 4, "first_nonfinite": None, "broke": None}),
                       "edits": "\x10\x01a\xf0\xffb", "header": '{"__metadata__":{"checksum":"00000000","run":"{}"}}\0',
                       "raw": "Rabc"},
    }.items():
        for name, text in seeds.items():
            put(folder, kind, name, text.encode("latin-1"))


main(sys.argv[1])
