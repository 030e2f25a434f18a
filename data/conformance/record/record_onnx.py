# Question: which code does ONNX's reference implementation of Cast give for every float32, and for sampled float64?
# Run: python3 record_onnx.py edge_inputs.txt; uses all cores; prints the S and E lines that assemble.py reads.
import multiprocessing
import sys
import warnings
import numpy as np
import onnx
from onnx.reference.ops.op_cast import cast_to
from record_ml_dtypes import BLOCK, CHUNK, M64, sample, to_float_odd, total, u64, widen

warnings.filterwarnings("ignore")
FP8 = {"e4m3": "FLOAT8E4M3FN", "e5m2": "FLOAT8E5M2", "e4m3fnuz": "FLOAT8E4M3FNUZ", "e5m2fnuz": "FLOAT8E5M2FNUZ"}
E8M0 = {"nearest_even": "nearest", "up": "up", "toward_zero": "down"}  # narrow's word: ONNX's round_mode
CASTS = [(system, fmt, "nearest_even", name, "up") for system in ("onnx", "onnx-nosat") for fmt, name in FP8.items()]
CASTS += [("onnx", fmt, "nearest_even", name, "up") for fmt, name in
          {"fp16": "FLOAT16", "bf16": "BFLOAT16", "e2m1": "FLOAT4E2M1"}.items()]  # saturate is for FP8 alone
CASTS += [(system, "e8m0", mode, "FLOAT8E8M0", word) for system in ("onnx", "onnx-nosat") for mode, word in E8M0.items()]


def codes(x, cast):
    system, _, _, name, mode = cast
    y = cast_to(x, getattr(onnx.TensorProto, name), system == "onnx", mode)
    return y.view(np.uint8 if y.itemsize == 1 else np.uint16).astype(u64)


def chunk_total(task):
    cast, start = task
    h = 0
    for s in range(start, start + CHUNK, BLOCK):
        i = np.arange(s, s + BLOCK, dtype=u64)
        h += total(codes(i.astype(np.uint32).view(np.float32), cast), i)
    return h & M64


def hashed(row, h, cast, more=""):
    mode = f", round_mode={cast[4]}" if cast[1] == "e8m0" else ""
    print(f"S\t{row}\t{h:016X}\tCast to {cast[3]}, saturate={int(cast[0] == 'onnx')}{mode}{more}", flush=True)


def main():
    print("# onnx", onnx.__version__, "reference implementation, numpy", np.__version__)
    with open(sys.argv[1]) as f:
        edges = np.array([int(s.split()[0], 16) for s in f if not s.startswith("#")], dtype=u64)
    samples = [("f64-sample", sample(1).view(np.float64)), ("f64-mid", sample(2).view(np.float64))]
    index = np.arange(1 << 22, dtype=u64)
    for cast in CASTS:
        for source, x in (("f32", edges.astype(np.uint32).view(np.float32)), ("f64", widen(edges).view(np.float64))):
            print("E\t" + "\t".join(cast[:3]) + f"\t{source}\t" + "\t".join("%X" % c for c in codes(x, cast)))
        for source, d in samples:
            c, finite = codes(d, cast), np.isfinite(d)
            once = int(np.sum((c != codes(to_float_odd(d), cast)) & finite))
            via = int(np.sum((c != codes(d.astype(np.float32), cast)) & finite))
            hashed("\t".join(cast[:3]) + f"\t{source}", total(c, index), cast,
                   f"; differ from rounding once {once}, via f32 {via}")
    with multiprocessing.Pool() as pool:
        for cast in CASTS:
            h = sum(pool.imap_unordered(chunk_total, [(cast, s) for s in range(0, 1 << 32, CHUNK)])) & M64
            hashed("\t".join(cast[:3]) + "\tf32", h, cast)


if __name__ == "__main__":
    main()
