# Question: which code does PyTorch eager (CUDA, then CPU) give for every float32, and for sampled float64?
# Run: python3 record_torch.py edge_inputs.txt [--cuda-only]; prints the S and E lines that assemble.py reads.
# On a machine without a GPU: record_torch.py edge_inputs.txt --cpu NAME FORMAT.., for the rows of system NAME.
import sys
import torch

FORMATS = [("fp16", torch.float16), ("bf16", torch.bfloat16), ("e4m3", torch.float8_e4m3fn),
           ("e5m2", torch.float8_e5m2), ("e4m3fnuz", torch.float8_e4m3fnuz),
           ("e5m2fnuz", torch.float8_e5m2fnuz), ("e8m0", torch.float8_e8m0fnu)]
M64 = (1 << 64) - 1
CHUNK = 1 << 26
HOME = "cuda" if torch.cuda.is_available() else "cpu"  # where sums are made


def signed(c):
    return c - (1 << 64) if c >> 63 else c


def shr(z, n):  # logical shift right of an int64 tensor
    return (z >> n) & ((1 << (64 - n)) - 1)


def mix(z):
    z = z + signed(0x9E3779B97F4A7C15)
    z = (z ^ shr(z, 30)) * signed(0xBF58476D1CE4E5B9)
    z = (z ^ shr(z, 27)) * signed(0x94D049BB133111EB)
    return z ^ shr(z, 31)


def widen(p):  # int64 float32 patterns -> int64 double patterns, exact, NaN payloads kept
    special = ((p >> 23) & 255) == 255
    finite = torch.where(special, 0, p).to(torch.int32).view(torch.float32).double().view(torch.int64)
    nan = ((p >> 31) << 63) | 0x7FF0000000000000 | ((p & 0x7FFFFF) << 29)
    return torch.where(special, nan, finite)


def sample(which):  # the two float64 samples; see systems.tsv
    i = torch.arange(1 << 22, device=HOME)
    r = mix(which + i * signed(0x9E3779B97F4A7C15))
    p = r & 0xFFFFFFFF
    if which == 1:
        p = torch.where((i & 1) == 1, (p & 0xFFFFE000) | 0x1000, p)
    else:
        j = 10 + shr(r, 32) % 13
        p = ((p >> (j + 1)) << (j + 1)) | (torch.ones_like(j) << j)
    moved = (((p >> 23) & 255) != 255) & ((p & 0x7FFFFFFF) != 0)
    return widen(p) + torch.where(moved, shr(r, 40) % 5 - 2, 0)


def to_float_odd(d):  # round to odd: rounding the result again rounds the double once
    f = d.float()
    bits = f.view(torch.int32)
    bits = torch.where(f.double().abs() > d.abs(), bits - 1, bits)
    return torch.where(f.double() != d, bits | 1, bits).view(torch.float32)


def codes(x, dtype):  # converts where x lives; the codes come back on the GPU
    c = x.to(dtype).to(HOME)
    return (c.view(torch.int16).long() & 0xFFFF) if c.element_size() == 2 else c.view(torch.uint8).long()


def total(c, index):
    return mix((c << 32) | index).sum().item()


def record(system, device, edges, spec64, formats=FORMATS):
    e32 = edges.to(torch.int32).view(torch.float32).to(device)
    e64 = widen(edges).view(torch.float64).to(device)
    for name, dtype in formats:
        row = f"{system}\t{name}\t" + "nearest_even"  # e8m0 has one significant bit: a tie goes up
        h = 0
        for start in range(0, 1 << 32, CHUNK):
            i = torch.arange(start, start + CHUNK, device=HOME)
            x = i.to(torch.int32).view(torch.float32).to(device)
            h += total(codes(x, dtype), i)
        print(f"S\t{row}\tf32\t{h & M64:016X}\t.to({dtype})", flush=True)
        print("E\t" + row + "\tf32\t" + "\t".join("%X" % c for c in codes(e32, dtype).tolist()))
        # One element at a time takes the scalar path on a CPU; the row above may have been vectorised.
        single = torch.cat([codes(v.reshape(1), dtype) for v in e32])
        differ = edges[single != codes(e32, dtype)].tolist()
        if differ:
            print(f"# {row}: edge codes depend on the tensor's size at " + " ".join("%08X" % p for p in differ))
        for source, bits in spec64:
            d = bits.view(torch.float64).to(device)
            c = codes(d, dtype)
            finite = torch.isfinite(d).to(HOME)
            once = ((c != codes(to_float_odd(d), dtype)) & finite).sum().item()
            via = ((c != codes(d.float(), dtype)) & finite).sum().item()
            h = total(c, torch.arange(1 << 22, device=HOME)) & M64
            print(f"S\t{row}\t{source}\t{h:016X}\t.to({dtype}); differ from rounding once {once}, via f32 {via}")
        print("E\t" + row + "\tf64\t" + "\t".join("%X" % c for c in codes(e64, dtype).tolist()), flush=True)


def main():
    print("# torch", torch.__version__)
    with open(sys.argv[1]) as f:
        edges = torch.tensor([int(s.split()[0], 16) for s in f if not s.startswith("#")], device=HOME)
    spec64 = [("f64-sample", sample(1)), ("f64-mid", sample(2))]
    if "--cpu" in sys.argv:
        system, *names = sys.argv[sys.argv.index("--cpu") + 1:]
        record(system, "cpu", edges, spec64, [row for row in FORMATS if row[0] in names])
        return
    record("torch", "cuda", edges, spec64)
    if "--cuda-only" not in sys.argv:
        record("torch-cpu", "cpu", edges, spec64)
    for device in ("cpu", "cuda"):
        try:
            got = torch.tensor([1.0, 6.0], device=device).to(torch.float4_e2m1fn_x2)
            print(f"# torch float4_e2m1fn_x2 on {device}: cast exists, gives", got.view(torch.uint8).tolist())
        except Exception as e:
            print(f"# torch float4_e2m1fn_x2 on {device}: no cast:", str(e).splitlines()[0][:120])


main()
