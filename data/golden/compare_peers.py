"""The products of torch-products.tsv by other emulators of tensor cores, held against the hashes that an H200 gave.

    python data/golden/compare_peers.py build/release/apps/narrow OUT.tsv --hawkeye DIR --mma-sim DIR

A CPU is enough: operands are functions of a seed (record_operations.py), results are compared by the recorded hash of all outputs.
DIR: a checkout of badasherez/gpu-simulator, built (setup.py build_ext --inplace), and of microsoft/MMA-Sim; mmaemu from PyPI is used where it
is installed. The first 50 products of each of f16, bf16, tf32 and e4m3, in the order of the table. What a peer has no word for is given
to it by this script, so that only its sums are judged: a bias in FP32, the output's rounding, operands of TF32 that a kernel rounded
first, a batch item by item.

Hawkeye and mmaemu compute whole products. MMA-Sim knows instructions and computes a few thousand products a second: its wgmma are chained over
K (zeros beyond the end) for SAMPLES outputs of a product, held against narrow's, whose hash is the recorded one. narrow computes with the model
and the plan of the table, which `narrow validate` found from operands and result; the peers get operands alone, so that the columns say
which sums they know, not how a plan is found.
"""

import argparse
import collections
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
import torch
from safetensors.torch import save_file

import record_operations
import sweep_products

record_operations.DEVICE = sweep_products.DEVICE = "cpu"
HERE = os.path.dirname(os.path.abspath(__file__))
EACH, SAMPLES = 50, 8
OUTPUT = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "e4m3": torch.bfloat16}


def recorded():
    """The rows that are compared, as dicts."""
    with open(os.path.join(HERE, "torch-products.tsv")) as f:
        lines = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    rows, taken = [dict(zip(lines[0], line)) for line in lines[1:]], collections.Counter()
    for row in rows:
        for key in ("m", "n", "k", "seed"): row[key] = int(row[key])
        taken[row["type"]] += 1
        if row["type"] in OUTPUT and taken[row["type"]] <= EACH: yield row


def items_of(row, operands):
    """(a, b) of each item, b as k x n."""
    a, b = operands["a"], operands["b"]
    if row["api"] == "bmm": return list(zip(a, b))
    return [(a, b.t() if row["api"].startswith("linear") else b)]


def finished(row, operands, sums):
    """FP32 sums of the items with the bias, rounded to the output's type."""
    d = torch.stack(sums)
    if "c" in operands: d = d + operands["c"].float()
    return d.to(OUTPUT[row["type"]])


def is_equal(row, d):
    return f"{record_operations.hash_of(record_operations.codes_of(d)):016X}" == row["hash"]


def narrow_product(program, row, operands, folder):
    """What narrow computes with the model and plan of the table, and its seconds, the start of the program included."""
    file, out = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.npy")
    save_file({name: t.contiguous() for name, t in operands.items()}, file)
    line = [program, "gemm", "--model", row["model"], "--plan", row["plan"], "--a", f"{file}:a", "--b", f"{file}:b", "-o", out]
    line += ["--output", {"f16": "fp16", "tf32": "fp32"}.get(row["type"], "bf16")]
    if row["api"].startswith("linear"): line += ["--transpose-b"]
    if "c" in operands: line += ["--c", f"{file}:c"]
    begun = time.perf_counter()
    subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - begun
    codes = np.load(out)
    if codes.dtype.itemsize == 2: return torch.from_numpy(codes.view(np.int16)).view(OUTPUT[row["type"]]), took
    return torch.from_numpy(codes.view(np.int32)).view(torch.float32), took


class Hawkeye:
    def __init__(self, folder):
        sys.path.insert(0, folder)
        import gpu_simulator_py
        self.wide, self.narrow = gpu_simulator_py.Hopper_simulator(), gpu_simulator_py.Hopper_fp8_simulator()

    def __call__(self, row, operands):
        if row["type"] == "tf32": return None
        sums = []
        for a, b in items_of(row, operands):
            if row["type"] == "e4m3": sums.append(self.narrow.matmul(a.contiguous(), b.t().contiguous()))
            else: sums.append(self.wide.matmul(a.contiguous(), b.t().contiguous().t()))
        return finished(row, operands, sums)


class Mmaemu:
    """Profile `hopper`: an H100 PCIe with cuBLASLt 12.8. It refuses where it does not know how K is split; then one part is asked for."""

    def __init__(self):
        import mmaemu
        self.module = mmaemu

    def __call__(self, row, operands):
        if row["type"] != "e4m3": return None
        a, b, one = operands["a"], operands["b"].t().contiguous().t(), torch.ones(())
        more = {"out_dtype": torch.bfloat16, "use_fast_accum": bool(row["seed"] % 2)}
        try:
            return self.module.scaled_mm(a, b, one, one, **more)
        except self.module.errors.SplitKUnknownError:
            row["refused"] = 1
            return self.module.scaled_mm(a, b, one, one, splitk=1, **more)


def rounded_to_tf32(x):
    """To nearest even at bit 13, as a kernel prepares its operands; finite values."""
    words = x.view(torch.int32)
    return ((words + 0xFFF + (words >> 13 & 1)) >> 13 << 13).view(torch.float32)


class MmaSim:
    SHAPES = {"f16": (16, "f16.f16"), "bf16": (16, "bf16.bf16"), "tf32": (8, "tf32.tf32"), "e4m3": (32, "e4m3.e4m3")}

    def __init__(self, folder):
        sys.path.insert(0, folder)
        from mmasim.simulator import arithmetic, nv_ptx
        self.arithmetic, self.nv_ptx = arithmetic, nv_ptx

    def __call__(self, row, operands, d):
        """How many of the sampled outputs it has, of how many."""
        k, types = self.SHAPES[row["type"]]
        step = self.nv_ptx.wgmma("Hopper", f"m64n8k{k}.f32.{types}")
        pairs, draw, equal = items_of(row, operands), random.Random(row["seed"]), 0
        d = d.reshape(len(pairs), row["m"], row["n"])
        for _ in range(SAMPLES):
            item, i, j = draw.randrange(len(pairs)), draw.randrange(row["m"]), draw.randrange(row["n"])
            a, b = pairs[item][0][i].float(), pairs[item][1][:, j].float()
            if row["type"] == "tf32" and ",rne" in row["plan"]: a, b = rounded_to_tf32(a), rounded_to_tf32(b)
            if row["type"] == "tf32": a, b = self.arithmetic.truncate_to_tf32(a), self.arithmetic.truncate_to_tf32(b)
            more = -row["k"] % k
            a, b = (torch.cat([x, torch.zeros(more)]).to(step.a_type) for x in (a, b))
            total = torch.zeros((), dtype=torch.float32)
            for at in range(0, row["k"] + more, k):
                total = self.arithmetic.nv_fused_dot_add(a[at:at + k], b[at:at + k], total, n_fractional_bits=step.n_accum_fractional_bits,
                                                         output_type=step.output_type)  # fmt: skip
            if "c" in operands: total = total + operands["c"][j].float()
            equal += bool(record_operations.codes_of(total.to(d.dtype).reshape(1)) == record_operations.codes_of(d[item, i, j].reshape(1)))
        return equal, SAMPLES


def cpu_name():
    with open("/proc/cpuinfo") as f: names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("narrow")
    parser.add_argument("out")
    parser.add_argument("--hawkeye")
    parser.add_argument("--mma-sim")
    parser.add_argument("--types", default=",".join(OUTPUT))
    options = parser.parse_args()
    peers = {}
    if options.hawkeye: peers["hawkeye"] = Hawkeye(os.path.abspath(options.hawkeye))
    try:
        peers["mmaemu"] = Mmaemu()
    except ImportError:
        print("no mmaemu here: left out", file=sys.stderr)
    mma_sim = MmaSim(os.path.abspath(options.mma_sim)) if options.mma_sim else None
    rows, work, seconds = [], collections.Counter(), collections.Counter()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for row in recorded():
            if row["type"] not in options.types.split(","): continue
            operands, _ = sweep_products.product(row["type"], row["api"], row["m"], row["n"], row["k"], row["seed"])
            assert operands["a"].shape[-1] == row["k"], "the shape of the table is that of the call"
            size = len(items_of(row, operands)) * row["m"] * row["n"] * row["k"]
            row.update(narrow="-", mma_sim="-", refused=0, **{name: "-" for name in peers})
            if row["exact"] == "1":
                d, took = narrow_product(options.narrow, row, operands, folder)
                row["narrow"] = int(is_equal(row, d))
                work["narrow"] += size
                seconds["narrow"] += took
                if mma_sim: row["mma_sim"] = "/".join(map(str, mma_sim(row, operands, d)))
            for name, peer in peers.items():
                begun = time.perf_counter()
                d = peer(row, operands)
                if d is None: continue
                work[name] += size
                seconds[name] += time.perf_counter() - begun
                row[name] = int(is_equal(row, d))
            rows.append(row)
            print(*(row[c] for c in ("type", "api", "m", "n", "k", "narrow", *peers, "mma_sim")), flush=True)
    columns = ("type", "api", "m", "n", "k", "seed", "narrow", *peers, "refused", "mma_sim")
    with open(options.out, "w") as f:
        f.write("# gpu NVIDIA H200 (torch-products.tsv)\n")
        f.write(f"# command compare_peers.py narrow OUT.tsv --hawkeye DIR --mma-sim DIR, on {cpu_name()}\n")
        f.write("# 1: every output has the recorded bits; -: no such type, or nothing to hold it against; refused: mmaemu does not know the split\n")
        f.write("# mma_sim: sampled outputs that are equal\n")
        for name in seconds: f.write(f"# {name}: {work[name] / seconds[name] / 1e9:.4f} GMAC/s over all that it computed\n")
        f.write("\t".join(columns) + "\n")
        for r in rows: f.write("\t".join(str(r[c]) for c in columns) + "\n")
    for kind in options.types.split(","):
        mine = [r for r in rows if r["type"] == kind]
        told = [f"{name} {sum(r[name] == 1 for r in mine)} of {sum(r[name] != '-' for r in mine)}" for name in ("narrow", *peers)]
        sampled = [r["mma_sim"].split("/") for r in mine if r["mma_sim"] != "-"]
        told.append(f"mma_sim {sum(x == y for x, y in sampled)} of {len(sampled)} by samples")
        print(f"{kind}: {len(mine)} products; " + ", ".join(told))


if __name__ == "__main__":
    main()
