"""What the numbers in a quantised checkpoint mean, straight from the layouts' documents (facts/checkpoints.md).

read(path)  -> {name: float32 array}, the exact value of every logical tensor, rounded once.
codes(path) -> {name: Coded}, before any arithmetic. write_* make small checkpoints from given codes and scales.
Slow and obvious on purpose: it shares nothing with the library that it judges.
"""
import fnmatch
import json
import re
import struct
from collections import namedtuple
from fractions import Fraction
from pathlib import Path

import numpy as np


# ---- element formats, from their definitions ---------------------------------------------------------------------
def minifloat(exponent_bits, mantissa_bits, bias, nan=()):
    """value = (-1)^s * 1.m * 2^(e-bias), or 0.m * 2^(1-bias) where e = 0; the codes in `nan` are NaN."""
    width = 1 + exponent_bits + mantissa_bits
    table = np.empty(1 << width)
    for code in range(1 << width):
        mantissa = code & ((1 << mantissa_bits) - 1)
        exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
        significand = mantissa + (1 << mantissa_bits if exponent else 0)
        magnitude = significand * 2.0 ** (max(exponent, 1) - bias - mantissa_bits)
        table[code] = np.nan if code in nan else -magnitude if code >> (width - 1) else magnitude
    return table


E4M3 = minifloat(4, 3, 7, nan=(0x7F, 0xFF))  # OCP OFP8: no infinity, one NaN per sign, largest value 448
E2M1 = minifloat(2, 1, 1)                    # OCP MX: no specials, largest value 6
E8M0 = np.append(2.0 ** (np.arange(255.0) - 127), np.nan)
INT8 = np.arange(256).astype(np.uint8).view(np.int8).astype(np.float64)
UNSIGNED = np.arange(256.0)
NF4 = np.float32([-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                  -0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725,
                  0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                  0.7229568362236023, 1])
BNB_FP4 = np.float32([0, .0625, 8, 12, 4, 6, 2, 3, 0, -.0625, -8, -12, -4, -6, -2, -3]) / np.float32(12)
IQ4_NL = np.float64([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])

# Stored types: numpy holds BF16 and the 8-bit floats as their bits.
STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "F8_E4M3": "u1", "F8_E8M0": "u1", "U8": "u1",
          "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "BOOL": "u1"}
FLOATS = ("F64", "F32", "F16", "BF16")
Tensor = namedtuple("Tensor", "dtype array")


def number(tensor):
    """The values of a stored tensor, exact in float64 (but for I64 beyond 2^53, which no layout has)."""
    if tensor.dtype == "BF16":
        return (tensor.array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if tensor.dtype in ("F8_E4M3", "F8_E8M0"):
        return (E4M3 if tensor.dtype == "F8_E4M3" else E8M0)[tensor.array]
    return tensor.array.astype(np.float64)


def store(values, dtype):
    """Nearest value of a stored type, ties to even. float32 in between would round twice, so BF16 goes by bits of
    float32 only after a check that float32 holds the input."""
    values = np.asarray(values, np.float64)
    if dtype == "BF16":
        assert np.array_equal(values, values.astype(np.float32), equal_nan=True)
        bits = np.atleast_1d(values.astype(np.float32)).view(np.uint32).reshape(values.shape)
        return Tensor(dtype, ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))
    if dtype in ("F8_E4M3", "F8_E8M0"):
        return Tensor(dtype, nearest(E4M3 if dtype == "F8_E4M3" else E8M0, values))
    return Tensor(dtype, values.astype(STORED[dtype]))


def nearest(table, values):
    """Code of the nearest value, the even code at a tie, the largest beyond the range. A table with a sign bit puts
    its magnitudes first, so that code + len/2 is the negative value."""
    signed = len(table) > 1 and table[len(table) // 2] == 0 and table[0] == 0
    magnitudes = table[: len(table) // 2] if signed else table
    magnitudes = magnitudes[~np.isnan(magnitudes)]
    middle = (magnitudes[1:] + magnitudes[:-1]) / 2
    size = np.abs(values) if signed else values
    low, high = np.searchsorted(middle, size, "left"), np.searchsorted(middle, size, "right")
    code = np.where(low % 2 == 0, low, high)  # low = high unless size is a middle; then one of the two is even
    return (code + np.where(signed & np.signbit(values), len(table) // 2, 0)).astype(np.uint8)


# ---- codes and the one product -----------------------------------------------------------------------------------
# value[r, c] = (table[codes[r, c]] - zero[b]) * scales[b] * factor + add[b], b = (r // block rows, c // block columns).
# Leading axes of 3-D weights fold into r. factor is a Fraction: a decode factor s, or 1/G where the file has a divisor.
# bitsandbytes: block (0, n) means n consecutive elements of the flat weight, one scale each.
Coded = namedtuple("Coded", "codes scales factor block table zero add", defaults=(None, None))


def spread(grid, block, shape):
    rows = np.repeat(np.atleast_2d(grid), block[0], axis=0)[: shape[0]]
    wide = np.repeat(rows, block[1], axis=1)[:, : shape[1]]
    assert wide.shape == shape, f"scales {np.shape(grid)} with blocks {block} do not cover {shape}"
    return wide


def values(c):
    """The exact value rounded once to float32. Why float64 in between is harmless:
    table has at most 8 significant bits (24 for bitsandbytes), scales 24, a factor 24 more with scales of 4:
    every product has at most 48 bits, exact in 53. zero is an integer below 2^8. d*q + m of GGUF are multiples of
    2^-24 below 2^21. A quotient n/G is rounded to 53 bits first; n and G of at most 32 and 24 bits keep it, unless it
    is exact, at least 2^-50 (relative) from any point midway between two float32, so the second rounding sees the
    same side. bitsandbytes' nested scales are float32 numbers: what its own two roundings make of product and offset."""
    shape = c.codes.reshape(-1, c.codes.shape[-1]).shape
    codes = c.codes.reshape(shape)
    x = np.asarray(c.table, np.float64)[codes]
    if c.zero is not None:
        x = x - spread(c.zero, c.block, shape)
    x = x * spread(c.scales, c.block, shape)
    divisor = 1 / c.factor if c.factor else Fraction(1)
    x = x * float(c.factor) if Fraction(float(c.factor)) == c.factor else x / float(divisor)
    if c.add is not None:
        x = x + spread(c.add, c.block, shape)
    with np.errstate(over="ignore"):
        return x.astype(np.float32).reshape(c.codes.shape)


def low_first(bytes_):
    return np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(*bytes_.shape[:-1], -1)


def unpack_words(words, bits, count, axis):
    """Elements of `bits` bits, element i at bit i*bits of the little-endian words along an axis."""
    words = np.moveaxis(words, axis, -1)
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    stream = stream[..., : count * bits].reshape(*words.shape[:-1], count, bits)
    return np.moveaxis((stream << np.arange(bits, dtype=np.uint8)).sum(-1).astype(np.uint8), -1, axis)


def pack_words(codes, bits, axis):
    codes = np.moveaxis(codes, axis, -1)
    stream = (codes[..., None] >> np.arange(bits, dtype=np.uint8) & 1).reshape(*codes.shape[:-1], -1)
    stream = np.pad(stream, [(0, 0)] * (codes.ndim - 1) + [(0, -stream.shape[-1] % 32)])
    words = np.packbits(stream, axis=-1, bitorder="little").view("<i4")
    return np.ascontiguousarray(np.moveaxis(words, -1, axis))


# ---- files -------------------------------------------------------------------------------------------------------
def load_safetensors(path):
    data = Path(path).read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[8 + size + begin : 8 + size + end], STORED.get(entry["dtype"], "u1"))
        shape = entry["shape"] if entry["dtype"] in STORED else array.shape  # F4: packed bytes
        tensors[name] = Tensor(entry["dtype"], array.reshape(shape))
    return tensors


def save_safetensors(path, tensors):
    header, blobs, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name, t in sorted(tensors.items(), key=lambda item: (-item[1].array.itemsize, item[0])):
        blob = np.ascontiguousarray(t.array).tobytes()  # widest first: every tensor is aligned to its own width
        header[name] = {"dtype": t.dtype, "shape": list(t.array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


class Model:
    """A model folder in memory: files {file: {name: Tensor}}, config, and other files as bytes."""

    def __init__(self, folder=None):
        self.files, self.config, self.other = {}, {}, {}
        for path in sorted(Path(folder).iterdir()) if folder else ():
            if path.suffix == ".safetensors":
                self.files[path.name] = load_safetensors(path)
            elif path.name == "config.json":
                self.config = json.loads(path.read_text())
            elif path.name != "model.safetensors.index.json":
                self.other[path.name] = path.read_bytes()

    @property
    def tensors(self):
        return {name: t for file in self.files.values() for name, t in file.items()}

    def file_of(self, name):
        return next(file for file, tensors in self.files.items() if name in tensors)

    def put(self, name, tensor, beside=None):
        self.files[self.file_of(beside or name)][name] = tensor

    def drop(self, name):
        return self.files[self.file_of(name)].pop(name)

    def index(self):
        size = sum(t.array.nbytes for t in self.tensors.values())
        weight_map = {name: file for file, tensors in self.files.items() for name in sorted(tensors)}
        return {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))}

    def save(self, folder, index=None):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for file, tensors in self.files.items():
            save_safetensors(folder / file, tensors)
        for file, data in self.other.items():
            (folder / file).write_bytes(data)
        (folder / "config.json").write_text(json.dumps(self.config, indent=2) + "\n")
        if index or len(self.files) > 1:
            text = json.dumps(index or self.index(), indent=2) + "\n"
            (folder / "model.safetensors.index.json").write_text(text)


# ---- reading -----------------------------------------------------------------------------------------------------
# Scales of activations and caches are not part of any weight.
ACTIVATION = ("input_scale", "input_global_scale", "activation_scale", "k_scale", "v_scale")


def layout_of(config, names):
    method = config.get("quantization_config", {}).get("quant_method")
    if method:
        return {"fp8": "deepseek"}.get(method, method)
    return "bitsandbytes" if any(".quant_state.bitsandbytes__" in n for n in names) else None


def grid2(scale, shape):
    """Scales as a matrix, and the block that makes it cover a tensor with scalar or per-row scales."""
    s = number(scale)
    if s.size == 1:
        return s.reshape(1, 1), shape
    assert s.size == shape[0], f"{s.shape} scales for {shape}"
    return s.reshape(-1, 1), (1, shape[1])


def deepseek(tensors, config):
    block = config.get("weight_block_size")
    for name, t in tensors.items():
        if t.dtype == "F8_E4M3":
            suffix = "_scale_inv" if name + "_scale_inv" in tensors else "_scale"
            scale = tensors[name + suffix]
            # The block is the config's: 200 rows in 2 blocks are 128 + 72, not 100 + 100.
            s, b = (number(scale), tuple(block)) if block else grid2(scale, t.array.shape)
            yield name, Coded(t.array, s, Fraction(1), b, E4M3), [name, name + suffix]


def ct_arguments(config, module):
    for group in config["config_groups"].values():
        for target in group["targets"]:
            named = re.match(target[3:], module) if target.startswith("re:") else module.endswith(target)
            if target == "Linear" or named:
                return group["weights"], group.get("format") or config["format"]
    raise ValueError(f"no config group for {module}")


def compressed_tensors(tensors, config):
    for name, scale in tensors.items():
        if not name.endswith(".weight_scale"):
            continue
        module = name.removesuffix(".weight_scale")
        part = {s: tensors.get(f"{module}.weight{s}") for s in
                ("", "_packed", "_scale", "_global_scale", "_zero_point", "_shape")}
        used = [f"{module}.weight{s}" for s, t in part.items() if t is not None]
        args, form = ct_arguments(config, module)
        stored = part["_packed"] or part[""]
        factor, zero, bits = Fraction(1), None, args["num_bits"]
        if form in ("nvfp4-pack-quantized", "mxfp4-pack-quantized"):
            codes, table = low_first(stored.array), E2M1
        elif form == "pack-quantized":
            shape = [int(n) for n in part["_shape"].array]
            codes, table = unpack_words(stored.array, bits, shape[1], 1), np.arange(2.0**bits) - 2 ** (bits - 1)
        else:
            codes, table = stored.array.view(np.uint8), INT8 if stored.dtype == "I8" else E4M3
        s = E8M0[scale.array] if form.startswith("mxfp") else number(scale)
        strategy = args.get("strategy") or ("group" if args.get("group_size") else "tensor")
        if strategy in ("tensor", "channel"):
            s, block = grid2(scale, codes.shape)
        else:
            block = tuple(args["block_structure"]) if strategy == "block" else (1, args["group_size"])
        if part["_global_scale"]:
            factor = 1 / Fraction(float(part["_global_scale"].array.ravel()[0]))  # a divisor
        if part["_zero_point"]:
            zero = part["_zero_point"].array
            if form == "pack-quantized":
                zero = unpack_words(zero, bits, codes.shape[0], 0).astype(np.float64) - 2 ** (bits - 1)
            zero = zero.astype(np.float64).reshape(s.shape)
        yield module + ".weight", Coded(codes, s, factor, block, table, zero), used


def modelopt(tensors, config):
    for name, scale in tensors.items():
        if not name.endswith(".weight_scale"):
            continue
        weight = name.removesuffix("_scale")
        t, second, factor = tensors[weight], tensors.get(weight + "_scale_2"), Fraction(1)
        if second:
            factor = Fraction(float(second.array.ravel()[0]))
        if t.dtype == "U8":
            c = Coded(low_first(t.array), number(scale), factor, (1, 16), E2M1)
        elif scale.dtype == "U8":
            c = Coded(t.array, E8M0[scale.array], factor, (1, 32), E4M3)
        elif scale.array.ndim == 4:
            c = Coded(t.array, number(scale)[:, 0, :, 0], factor, (128, 128), E4M3)
        else:
            c = Coded(t.array, *(lambda s, b: (s, factor, b))(*grid2(scale, t.array.shape)), E4M3)
        yield weight, c, [weight, name] + ([weight + "_scale_2"] if second else [])


def mxfp4(tensors, config):
    for name, blocks in tensors.items():
        if match := re.fullmatch(r"(.*)([._])blocks", name):
            scales = match[1] + match[2] + "scales"
            codes = low_first(blocks.array)  # [..., K/32, 32]
            codes = codes.reshape(*codes.shape[:-2], -1)
            s = E8M0[tensors[scales].array]
            yield match[1], Coded(codes, s.reshape(-1, s.shape[-1]), Fraction(1), (1, 32), E2M1), [name, scales]


def bitsandbytes(tensors, config):
    for name, t in tensors.items():
        module = name.removesuffix(".weight")
        if name.endswith(".weight") and t.dtype == "I8":
            s = number(tensors[module + ".SCB"]).reshape(-1, 1)
            yield name, Coded(t.array.view(np.uint8), s, Fraction(1, 127), (1, t.array.shape[1]), INT8), [
                name, module + ".SCB", module + ".weight_format"]
        key = next((k for k in tensors if k.startswith(name + ".quant_state.bitsandbytes__")), None)
        if not key:
            continue
        state = json.loads(tensors[key].array.tobytes())
        bytes_ = np.ascontiguousarray(t.array).view(np.uint8).ravel()
        codes = np.stack([bytes_ >> 4, bytes_ & 15], -1).ravel()  # first element in the high nibble
        codes = codes[: int(np.prod(state["shape"]))].reshape(state["shape"])
        absmax = tensors[name + ".absmax"]
        used = [name, key, name + ".absmax", name + ".quant_map"]
        s = number(absmax)
        if name + ".nested_absmax" in tensors:
            used += [name + ".nested_absmax", name + ".nested_quant_map"]
            outer, table = (number(tensors[n]).astype(np.float32) for n in used[-2:])
            outer = np.repeat(outer, state["nested_blocksize"])[: absmax.array.size]
            s = (table[absmax.array.ravel()] * outer + np.float32(state["nested_offset"])).astype(np.float64)
        yield name, Coded(codes, s, Fraction(1), (0, state["blocksize"]), number(tensors[name + ".quant_map"])), used


# ---- GGUF --------------------------------------------------------------------------------------------------------
# type: (id, bytes per block of 32, table, where d and m lie, bytes before the quants). All halves-first but Q8_0.
GGUF_BLOCKS = {"Q4_0": (2, 18, UNSIGNED[:16] - 8, "d"), "Q4_1": (3, 20, UNSIGNED[:16], "dm"),
               "Q5_0": (6, 22, UNSIGNED[:32] - 16, "dh"), "Q5_1": (7, 24, UNSIGNED[:32], "dmh"),
               "Q8_0": (8, 34, INT8, "d"), "IQ4_NL": (20, 18, IQ4_NL, "d"), "MXFP4": (39, 17, E2M1, "e")}
GGUF_PLAIN = {"F32": (0, "F32"), "F16": (1, "F16"), "BF16": (30, "BF16")}
FIELD = {"d": 2, "m": 2, "h": 4, "e": 1}
SCALARS = "BbHhIif?..Qqd"


def gguf_value(data, at, kind):
    if kind == 8:
        (n,) = struct.unpack_from("<Q", data, at)
        return data[at + 8 : at + 8 + n].decode(), at + 8 + n
    if kind == 9:
        kind, n = struct.unpack_from("<IQ", data, at)
        at, out = at + 12, []
        for _ in range(n):
            value, at = gguf_value(data, at, kind)
            out.append(value)
        return out, at
    form = "<" + SCALARS[kind]
    return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)


def gguf_tensors(path):
    """{name: (type name, shape slowest first, bytes)}"""
    data = Path(path).read_bytes()
    magic, version, n_tensors, n_kv = struct.unpack_from("<4sIQQ", data)
    assert magic == b"GGUF" and version == 3
    at, meta, infos = 24, {}, []
    for _ in range(n_kv):
        key, at = gguf_value(data, at, 8)
        meta[key], at = gguf_value(data, at + 4, struct.unpack_from("<I", data, at)[0])
    for _ in range(n_tensors):
        name, at = gguf_value(data, at, 8)
        (n,) = struct.unpack_from("<I", data, at)
        dims = struct.unpack_from(f"<{n}Q", data, at + 4)
        kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * n)
        at += 4 + 8 * n + 12
        infos.append((name, dims[::-1], kind, offset))
    alignment = meta.get("general.alignment", 32)
    start = at + -at % alignment
    names = {row[0]: name for rows in (GGUF_BLOCKS, GGUF_PLAIN) for name, row in rows.items()}
    out = {}
    for name, shape, kind, offset in infos:
        kind, count = names[kind], int(np.prod(shape))
        size = count // 32 * GGUF_BLOCKS[kind][1] if kind in GGUF_BLOCKS else \
            count * np.dtype(STORED[GGUF_PLAIN[kind][1]]).itemsize
        out[name] = (kind, shape, data[start + offset : start + offset + size])
    return out


def gguf_coded(kind, shape, data):
    _, size, table, fields = GGUF_BLOCKS[kind]
    blocks, at, part = np.frombuffer(data, np.uint8).reshape(-1, size), 0, {}
    for f in fields:
        part[f] = np.ascontiguousarray(blocks[:, at : at + FIELD[f]])
        at += FIELD[f]
    quants = blocks[:, at:]
    codes = quants if kind == "Q8_0" else np.concatenate([quants & 15, quants >> 4], 1)  # halves of the block
    if "h" in part:
        codes = codes + 16 * np.unpackbits(part["h"], axis=1, bitorder="little")
    half = {f: part[f].view("<f2").astype(np.float64).reshape(*shape[:-1], -1) for f in "dm" if f in part}
    scales = half["d"] if "d" in half else E8M0[part["e"]].reshape(*shape[:-1], -1)
    flat = lambda x: None if x is None else x.reshape(-1, x.shape[-1])
    return Coded(codes.reshape(shape), flat(scales), Fraction(1), (1, 32), table, None, flat(half.get("m")))


def write_gguf(path, tensors, metadata):
    """tensors: {name: (type, shape, bytes)}; metadata: str, int (u32) or float (f32) values."""
    text = lambda s: struct.pack("<Q", len(s.encode())) + s.encode()
    head, offset, body = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata)), 0, b""
    for key, value in metadata.items():
        head += text(key) + (struct.pack("<I", 8) + text(value) if isinstance(value, str) else
                             struct.pack("<II", 4, value) if isinstance(value, int) else struct.pack("<If", 6, value))
    for name, (kind, shape, data) in tensors.items():
        number_ = (GGUF_BLOCKS.get(kind) or GGUF_PLAIN[kind])[0]
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], number_, len(body))
        body += data + b"\0" * (-len(data) % 32)
    Path(path).write_bytes(head + b"\0" * (-len(head) % 32) + body)


def gguf_bytes(kind, codes, d, m=None):
    """One row of blocks; codes [blocks, 32] in the numbering of GGUF_BLOCKS, d as float (for MXFP4 the E8M0 code)."""
    fields, head = GGUF_BLOCKS[kind][3], []
    for f in fields:
        head.append({"d": lambda: d.astype("<f2").reshape(-1, 1).view(np.uint8),
                     "m": lambda: m.astype("<f2").reshape(-1, 1).view(np.uint8),
                     "h": lambda: np.packbits(codes >> 4 & 1, axis=1, bitorder="little"),
                     "e": lambda: d.astype(np.uint8).reshape(-1, 1)}[f]())
    low = codes & 15
    quants = codes if kind == "Q8_0" else low[:, :16] | low[:, 16:] << 4
    return np.concatenate(head + [quants.astype(np.uint8)], 1).tobytes()


# ---- the two questions -------------------------------------------------------------------------------------------
READERS = {"deepseek": deepseek, "compressed-tensors": compressed_tensors, "modelopt": modelopt, "mxfp4": mxfp4,
           "bitsandbytes": bitsandbytes}


def parts(path):
    """({name: Coded}, {name: Tensor} of what is stored plainly)"""
    path = Path(path)
    if path.is_dir() and list(path.glob("*.gguf")):
        path = next(path.glob("*.gguf"))
    if path.suffix == ".gguf":
        found = gguf_tensors(path)
        plain = {n: Tensor(GGUF_PLAIN[k][1], np.frombuffer(b, STORED[GGUF_PLAIN[k][1]]).reshape(s))
                 for n, (k, s, b) in found.items() if k in GGUF_PLAIN}
        return {n: gguf_coded(*t) for n, t in found.items() if n not in plain}, plain
    if path.is_dir():
        model = Model(path)
        tensors, config = model.tensors, model.config
    else:
        tensors, config = load_safetensors(path), {}
    reader = READERS.get(layout_of(config, tensors))
    coded, used = {}, set()
    for name, c, names in reader(tensors, config.get("quantization_config", {})) if reader else ():
        coded[name] = c
        used.update(names)
    return coded, {n: t for n, t in tensors.items() if n not in used and n.rsplit(".", 1)[-1] not in ACTIVATION}


def flat_blocks(c):
    """values(), with the flat blocks of bitsandbytes laid out as rows first."""
    if c.block[0] or c.scales.dtype == object:
        return values(c)
    pad = -c.codes.size % c.block[1]
    rows = np.pad(c.codes.ravel(), (0, pad)).reshape(-1, c.block[1])
    flat = values(c._replace(codes=rows, scales=c.scales.reshape(-1, 1), block=(1, c.block[1])))
    return flat.ravel()[: c.codes.size].reshape(c.codes.shape)


def read(path):
    coded, plain = parts(path)
    out = {name: flat_blocks(c) for name, c in coded.items()}
    for name, t in plain.items():
        assert t.dtype in FLOATS, f"{name}: {t.dtype} beside no scale"
        out[name] = number(t).astype(np.float32)
    return out


def codes(path):
    coded, _ = parts(path)
    return {n: c if c.scales.dtype != object else c._replace(scales=c.scales.astype(np.float64))
            for n, c in coded.items()}


def ignored(config, module):
    """Is a module named in one of the skip lists?"""
    q = config.get("quantization_config", {})
    names = [p for key in ("ignore", "modules_to_not_convert", "ignored_layers") for p in q.get(key) or ()]
    return any(re.match(p[3:], module) if p.startswith("re:") else fnmatch.fnmatch(module, p) or p in module
               for p in names)


# ---- writing: one weight as its tensors, by layout; {suffix of the module: Tensor} -------------------------------
def write_model(folder, coded, rest, pack, config, quantization, other=None, shards=1):
    """coded: {weight name: (codes, scales, ...)}; pack turns one of them into {name: Tensor}."""
    tensors = dict(rest)
    for name, given in coded.items():
        tensors.update(pack(name, *given))
    model, order = Model(), sorted(tensors)
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors" if shards > 1 else "model.safetensors"
        cut = [len(order) * (i + j) // shards for j in (0, 1)]
        model.files[file] = {n: tensors[n] for n in order[cut[0] : cut[1]]}
    model.config = dict(config, **({"quantization_config": quantization} if quantization else {}))
    model.other = other or {}
    model.save(folder)


def f32(x):
    return Tensor("F32", np.asarray(x, np.float32))


def bf16(x):
    return store(x, "BF16")


def nibbles(codes):
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


def write_deepseek(folder, coded, rest, config, scale="F32", block=(128, 128), suffix="_scale_inv", activation=None,
                   skip=("lm_head",), shards=1, **more):
    def pack(name, codes, scales):
        tensors = {name: Tensor("F8_E4M3", codes), name + suffix: store(scales, scale)}
        if activation:
            tensors[name.removesuffix("weight") + activation] = f32(.03125)
        return tensors

    q = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "static" if activation else "dynamic",
         "weight_block_size": block and list(block), "modules_to_not_convert": list(skip), **more}
    write_model(folder, coded, rest, pack, config, q, shards=shards)


def write_compressed_tensors(folder, coded, rest, config, form, weights, activations, scale="BF16", ignore=("lm_head",),
                             shards=1, version="0.18.0"):
    bits = weights["num_bits"]

    def pack(name, codes, scales, extra=None):
        """extra: zero points (integers on the grid of the scales), or NVFP4's divisor G."""
        at = lambda s, t: {name + s: t}
        if form in ("nvfp4-pack-quantized", "mxfp4-pack-quantized"):
            out = at("_packed", Tensor("U8", nibbles(codes)))
        elif form == "pack-quantized":
            shape = Tensor("I64", np.array(codes.shape, np.int64))
            out = {**at("_packed", Tensor("I32", pack_words(codes, bits, 1))), **at("_shape", shape)}
        else:
            integer = weights["type"] == "int"
            out = at("", Tensor("I8", codes.view(np.int8)) if integer else Tensor("F8_E4M3", codes))
        if form.startswith("mxfp"):
            return {**out, **at("_scale", Tensor("U8", scales.astype(np.uint8)))}
        out.update(at("_scale", store(scales, "F8_E4M3" if form.startswith("nvfp4") else scale)))
        if form.startswith("nvfp4"):
            out.update(at("_global_scale", f32([extra])))
            out[name.removesuffix("weight") + "input_global_scale"] = f32([512.])
        elif extra is not None and form == "pack-quantized":
            zero = (extra + 2 ** (bits - 1)).astype(np.uint8)
            out.update(at("_zero_point", Tensor("I32", pack_words(zero, bits, 0))))
        elif extra is not None:
            out.update(at("_zero_point", Tensor("I8", extra.astype(np.int8))))
        return out

    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None,
             "format": form}
    q = {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "version": version,
         "config_groups": {"group_0": group}, "ignore": list(ignore), "kv_cache_scheme": None}
    write_model(folder, coded, rest, pack, config, q, shards=shards)


def write_modelopt(folder, coded, rest, config, algorithm, exclude=("lm_head",), shards=1):
    def pack(name, codes, scales, second=None):
        module = name.removesuffix("weight")
        if algorithm == "NVFP4":
            return {name: Tensor("U8", nibbles(codes)), name + "_scale": store(scales, "F8_E4M3"),
                    name + "_scale_2": f32(second), module + "input_scale": f32(2.0**-9)}
        if algorithm == "MXFP8":
            return {name: Tensor("F8_E4M3", codes), name + "_scale": Tensor("U8", scales.astype(np.uint8))}
        shape = {"FP8": (), "FP8_PER_CHANNEL_PER_TOKEN": (-1,)}.get(algorithm, (scales.shape[0], 1, scales.shape[1], 1))
        out = {name: Tensor("F8_E4M3", codes), name + "_scale": f32(scales.reshape(shape))}
        return {**out, module + "input_scale": f32(2.0**-5)} if algorithm == "FP8" else out

    producer = {"name": "modelopt", "version": "0.39.0"}
    inner = {"quant_algo": algorithm, "kv_cache_quant_algo": None, "exclude_modules": list(exclude)}
    q = {"ignore": list(exclude), "quant_algo": algorithm, "producer": producer, "quant_method": "modelopt"}
    bits = {"dynamic": False, "num_bits": 4 if algorithm == "NVFP4" else 8, "type": "float"}
    if algorithm in ("NVFP4", "MXFP8"):
        inner["group_size"] = 16 if algorithm == "NVFP4" else 32
    if algorithm in ("FP8", "NVFP4"):  # the only two of these for which the exporter writes groups
        bits.update({"group_size": 16} if algorithm == "NVFP4" else {})
        q["config_groups"] = {"group_0": {"input_activations": bits, "weights": bits, "targets": ["Linear"]}}
    text = json.dumps({"producer": producer, "quantization": inner}, indent=4).encode()
    write_model(folder, coded, rest, pack, config, q, {"hf_quant_config.json": text}, shards)


def write_mxfp4(folder, coded, rest, config, skip):
    def pack(name, codes, scales):
        blocks = nibbles(codes).reshape(*codes.shape[:-1], -1, 16)
        return {name + "_blocks": Tensor("U8", blocks),
                name + "_scales": Tensor("U8", scales.astype(np.uint8).reshape(blocks.shape[:-1]))}

    write_model(folder, coded, rest, pack, config, {"quant_method": "mxfp4", "modules_to_not_convert": list(skip)})


def write_bitsandbytes(folder, coded, rest, config, kind, blocksize=64, nested=None):
    """kind nf4, fp4 or int8; nested: (map of 256, offset), with scales given as (codes, outer absmax)."""
    def pack(name, codes, scales):
        module = name.removesuffix("weight")
        if kind == "int8":
            return {name: Tensor("I8", codes.view(np.int8)), module + "SCB": f32(scales.ravel()),
                    module + "weight_format": Tensor("U8", np.array(0, np.uint8))}
        flat = codes.ravel()
        out = {name: Tensor("U8", (flat[0::2] << 4 | flat[1::2]).astype(np.uint8).reshape(-1, 1)),
               name + ".quant_map": f32(NF4 if kind == "nf4" else BNB_FP4)}
        state = {"quant_type": kind, "blocksize": blocksize, "dtype": "float32", "shape": list(codes.shape)}
        if nested:
            out[name + ".absmax"], out[name + ".nested_absmax"] = Tensor("U8", scales[0]), f32(scales[1])
            out[name + ".nested_quant_map"] = f32(nested[0])
            state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=float(nested[1]))
        else:
            out[name + ".absmax"] = f32(scales)
        text = np.frombuffer(json.dumps(state).encode(), np.uint8)
        return {**out, f"{name}.quant_state.bitsandbytes__{kind}": Tensor("U8", text)}

    q = {"quant_method": "bitsandbytes", "load_in_8bit": kind == "int8", "load_in_4bit": kind != "int8",
         "llm_int8_skip_modules": ["lm_head"], "llm_int8_threshold": 6.0}
    if kind != "int8":
        q.update(bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=bool(nested), bnb_4bit_compute_dtype="float32",
                 bnb_4bit_quant_storage="uint8")
    write_model(folder, coded, rest, pack, config, q)
