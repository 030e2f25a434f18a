# Question: how do the recorders' outputs become systems.tsv and edges.tsv?
# Run: python3 assemble.py edge_inputs.txt OUTDIR cuda.txt torch.txt ml_dtypes.txt onnx.txt
import sys

HEADER = """# What real systems do when they convert float32 and float64 to narrow formats, bit for bit.
# hash = sum over inputs i of mix((code << 32) | i) mod 2^64 (upper-case hex); i = the float32 bit pattern, 0 to 2^32-1,
# or the sample's index, 0 to 2^22-1. mix(z): z += 0x9E3779B97F4A7C15; z = (z ^ z>>30) * 0xBF58476D1CE4E5B9;
# z = (z ^ z>>27) * 0x94D049BB133111EB; z ^ z>>31. random_bits(seed, i) = mix(seed + i * 0x9E3779B97F4A7C15).
# f64-sample: r = random_bits(1, i); p = r & 0xFFFFFFFF; i odd: p = (p & 0xFFFFE000) | 0x1000.
# f64-mid: r = random_bits(2, i); j = 10 + (r >> 32) % 13; p = ((p >> (j+1)) << (j+1)) | (1 << j), p from r as above.
# Both: d = the double of float32 pattern p; p finite and not zero: bits(d) += (r >> 40) % 5 - 2;
# NaN: bits(d) = sign << 63 | 0x7FF0000000000000 | mantissa << 29 (not quieted).
# 'differ from rounding once N, via f32 M': finite inputs whose code is not the one that this system gives for
# the double rounded to odd float32 (N = 0: it rounds once) or rounded to the nearest float32 (M = 0: goes via f32).
"""
MADE = """# Made 2026-11 on one NVIDIA H200 (driver 580.159.04, CUDA 13.0) by record_cuda.cu (nvcc -O3 -arch=sm_90a),
# record_torch.py and record_ml_dtypes.py, each run with edge_inputs.txt, then assemble.py. Device code for cuda; torch = eager on CUDA; torch-cpu = eager on x86-64.
# onnx: the reference implementation on x86-64 by record_onnx.py.
"""


def main():
    edge_file, out, *parts = sys.argv[1:]
    lines = [s.rstrip("\n") for p in parts for s in open(p)]
    notes = "".join(s + "\n" for s in lines if s.startswith("#"))
    with open(out + "/systems.tsv", "w") as f:
        f.write(HEADER + MADE + notes + "system\tformat\trounding\tsource\thash\tnote\n")
        f.writelines(s[2:] + "\n" for s in lines if s.startswith("S\t"))
    edges = [s.split(None, 1) for s in open(edge_file) if not s.startswith("#")]
    with open(out + "/edges.tsv", "w") as f:
        f.write("# The code (hex) that each system gives for each edge input; columns 5 on are float32 bit patterns.\n"
                "# Source f64: the same value as a double (NaN payload << 29, not quieted). record/edge_inputs.txt names them.\n")
        f.write(MADE + "system\tformat\trounding\tsource\t" + "\t".join(e[0] for e in edges) + "\n")
        f.writelines(s[2:] + "\n" for s in lines if s.startswith("E\t"))


main()
