"""What numpy, and a reader written from the rules of .safetensors, say about files; and files from numpy.

with_numpy.py check FOLDER   checks what narrow wrote: <TYPE>.npy and all.safetensors
with_numpy.py write FOLDER   writes arrays in every type, order and version for narrow to read
Byte i of tensor number t is (31 i + 17 t) mod 256; value k of an array is k^2 mod 120.
"""
import json
import struct
import sys

import numpy as np

BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
        "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
        "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}
NUMPY = {"BOOL": "|b1", "I8": "|i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "BF16": "<u2", "I32": "<i4",
         "U32": "<u4", "F32": "<f4", "C64": "<c8", "F64": "<f8", "I64": "<i8", "U64": "<u8"}
SHAPE = (4, 6)


def pattern(number, count):
    return bytes((31 * i + 17 * number) % 256 for i in range(count))


def no_duplicates(pairs):
    assert len({key for key, _ in pairs}) == len(pairs), "a key comes twice"
    return dict(pairs)


def read_safetensors(path):
    """Names to (dtype, shape, bytes), by the rules: header length, '{', spaces, no holes, no overlap, exact end."""
    data = open(path, "rb").read()
    (length,) = struct.unpack_from("<Q", data)
    assert length % 8 == 0 and length <= 100_000_000 and 8 + length <= len(data)
    text = data[8 : 8 + length].decode("utf-8")
    assert text[0] == "{" and text.rstrip(" ")[-1] == "}"
    header = json.loads(text, object_pairs_hook=no_duplicates)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(x, str) for pair in metadata.items() for x in pair)
    at, tensors = 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(entry) == {"dtype", "shape", "data_offsets"}
        begin, end = entry["data_offsets"]
        bits = BITS[entry["dtype"]] * int(np.prod(entry["shape"], dtype=object))
        assert begin == at and end >= begin and bits % 8 == 0 and end - begin == bits // 8, name
        tensors[name] = entry["dtype"], tuple(entry["shape"]), data[8 + length + begin : 8 + length + end]
        at = end
    assert 8 + length + at == len(data)
    return tensors, metadata


def unpack(data, bits):
    whole = int.from_bytes(data, "little")
    return bytes(whole >> (bits * i) & ((1 << bits) - 1) for i in range(8 * len(data) // bits))


def check(folder):
    tensors, metadata = read_safetensors(f"{folder}/all.safetensors")
    assert metadata == {"format": "pt", "quote\"": "\u20ac\n"}, metadata
    assert list(tensors) == [*BITS, "scalar", "empty"], list(tensors)
    assert tensors["scalar"][:2] == ("F32", ()) and tensors["empty"][:2] == ("F64", (3, 0))
    for number, (name, bits) in enumerate(BITS.items()):
        expected = pattern(number, bits * 24 // 8)
        assert tensors[name] == (name, SHAPE, expected), name
        for order in "CF":
            array = np.load(f"{folder}/{name}_{order}.npy", allow_pickle=False)
            assert array.dtype.str == NUMPY.get(name, "|u1"), (name, array.dtype.str)
            assert array.shape == SHAPE and array.flags["F_CONTIGUOUS" if order == "F" else "C_CONTIGUOUS"]
            assert array.tobytes(order) == (unpack(expected, bits) if bits < 8 else expected), name
    print("checked", 2 * len(BITS), "arrays and", len(tensors), "tensors")


def write(folder):
    values = (np.arange(35) ** 2 % 120).reshape(5, 7)
    arrays = {}
    for word in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1", "c8"]:
        for order in "CF":
            for end in "<>":
                name = f"{word}_{order}_{'big' if end == '>' else 'little'}"
                arrays[name] = np.asarray(values, dtype=end + word, order=order)
                for version in [(1, 0), (2, 0), (3, 0)]:
                    with open(f"{folder}/{name}_v{version[0]}.npy", "wb") as file:
                        np.lib.format.write_array(file, arrays[name], version=version)
    np.savez(f"{folder}/stored.npz", **arrays)
    np.savez_compressed(f"{folder}/deflated.npz", **arrays)
    np.savez_compressed(f"{folder}/large.npz", zeros=np.zeros(3_000_000, np.float32),
                        ramp=np.arange(1_000_000, dtype=np.uint32))
    np.save(f"{folder}/scalar.npy", np.float32(42))
    np.save(f"{folder}/empty.npy", np.zeros((0, 3), np.float16))
    np.save(f"{folder}/object.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(f"{folder}/structured.npy", np.zeros(3, dtype=[("x", "f4"), ("y", "i4")]))


{"check": check, "write": write}[sys.argv[1]](sys.argv[2])
