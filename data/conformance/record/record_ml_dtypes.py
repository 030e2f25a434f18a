# Question: which code does ml_dtypes (and numpy's own float16) give for every float32, and for sampled float64?
# Run: python3 record_ml_dtypes.py edge_inputs.txt; uses all cores; prints the S and E lines that assemble.py reads.
import multiprocessing
import sys
import ml_dtypes
import numpy as np

FORMATS = [("ml_dtypes", "bf16", "bfloat16"), ("ml_dtypes", "e3m4", "float8_e3m4"),
           ("ml_dtypes", "e4m3ieee", "float8_e4m3"), ("ml_dtypes", "e4m3b11fnuz", "float8_e4m3b11fnuz"),
           ("ml_dtypes", "e4m3", "float8_e4m3fn"), ("ml_dtypes", "e4m3fnuz", "float8_e4m3fnuz"),
           ("ml_dtypes", "e5m2", "float8_e5m2"), ("ml_dtypes", "e5m2fnuz", "float8_e5m2fnuz"),
           ("ml_dtypes", "e8m0", "float8_e8m0fnu"), ("ml_dtypes", "e2m3", "float6_e2m3fn"),
           ("ml_dtypes", "e3m2", "float6_e3m2fn"), ("ml_dtypes", "e2m1", "float4_e2m1fn"),
           ("numpy", "fp16", "float16")]
M64 = (1 << 64) - 1
CHUNK = 1 << 24  # one task
BLOCK = 1 << 16  # one numpy call: stays in the cache
u64 = np.uint64
np.seterr(all="ignore")


def mix(z):
    z = z + u64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return z ^ (z >> u64(31))


def widen(p):  # uint64 float32 patterns -> uint64 double patterns, exact, NaN payloads kept
    special = ((p >> u64(23)) & u64(255)) == 255
    finite = np.where(special, u64(0), p).astype(np.uint32).view(np.float32).astype(np.float64).view(u64)
    nan = ((p >> u64(31)) << u64(63)) | u64(0x7FF0000000000000) | ((p & u64(0x7FFFFF)) << u64(29))
    return np.where(special, nan, finite)


def sample(which):  # the two float64 samples; see systems.tsv
    i = np.arange(1 << 22, dtype=u64)
    r = mix(u64(which) + i * u64(0x9E3779B97F4A7C15))
    p = r & u64(0xFFFFFFFF)
    if which == 1:
        p = np.where((i & u64(1)) == 1, (p & u64(0xFFFFE000)) | u64(0x1000), p)
    else:
        j = u64(10) + (r >> u64(32)) % u64(13)
        p = ((p >> (j + u64(1))) << (j + u64(1))) | (u64(1) << j)
    moved = (((p >> u64(23)) & u64(255)) != 255) & ((p & u64(0x7FFFFFFF)) != 0)
    return widen(p) + np.where(moved, (r >> u64(40)) % u64(5) - u64(2), u64(0))


def to_float_odd(d):  # round to odd: rounding the result again rounds the double once
    f = d.astype(np.float32)
    bits = f.view(np.uint32)
    bits = np.where(np.abs(f.astype(np.float64)) > np.abs(d), bits - np.uint32(1), bits)
    return np.where(f.astype(np.float64) != d, bits | np.uint32(1), bits).view(np.float32)


def dtype_of(name):
    return np.float16 if name == "float16" else getattr(ml_dtypes, name)


def codes(x, name):
    c = x.astype(dtype_of(name))
    return c.view(np.uint16 if c.itemsize == 2 else np.uint8).astype(u64)


def total(c, index):
    return int(mix((c << u64(32)) | index).sum(dtype=u64))


def chunk_total(task):
    name, start = task
    h = 0
    for s in range(start, start + CHUNK, BLOCK):
        i = np.arange(s, s + BLOCK, dtype=u64)
        h += total(codes(i.astype(np.uint32).view(np.float32), name), i)
    return h & M64


def main():
    print("# ml_dtypes", ml_dtypes.__version__, "numpy", np.__version__)
    with open(sys.argv[1]) as f:
        edges = np.array([int(s.split()[0], 16) for s in f if not s.startswith("#")], dtype=u64)
    e32 = edges.astype(np.uint32).view(np.float32)
    e64 = widen(edges).view(np.float64)
    samples = [("f64-sample", sample(1).view(np.float64)), ("f64-mid", sample(2).view(np.float64))]
    index = np.arange(1 << 22, dtype=u64)
    with multiprocessing.Pool() as pool:
        for system, fmt, name in FORMATS:
            row = f"{system}\t{fmt}\t" + "nearest_even"  # e8m0 has one significant bit: a tie goes up
            h = sum(pool.imap_unordered(chunk_total, [(name, s) for s in range(0, 1 << 32, CHUNK)])) & M64
            print(f"S\t{row}\tf32\t{h:016X}\t{name}", flush=True)
            print("E\t" + row + "\tf32\t" + "\t".join("%X" % c for c in codes(e32, name)))
            single = np.concatenate([codes(e32[k:k + 1], name) for k in range(len(e32))])
            for p in edges[single != codes(e32, name)]:
                print(f"# {row}: edge code depends on the array's size at {int(p):08X}")
            for source, d in samples:
                c = codes(d, name)
                finite = np.isfinite(d)
                once = int(np.sum((c != codes(to_float_odd(d), name)) & finite))
                via = int(np.sum((c != codes(d.astype(np.float32), name)) & finite))
                h = total(c, index)
                print(f"S\t{row}\t{source}\t{h:016X}\t{name}; differ from rounding once {once}, via f32 {via}")
            print("E\t" + row + "\tf64\t" + "\t".join("%X" % c for c in codes(e64, name)), flush=True)


if __name__ == "__main__":
    main()
