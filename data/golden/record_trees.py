"""Records in which order kernels add: for every two of the K products of an output, how many others are summed before those two meet.

    python data/golden/record_trees.py build/release/apps/narrow OUT.tsv --raw OUT.npz      # on a GPU
    python data/golden/record_trees.py --check data/golden/trees.tsv                        # the same counts from the plans that were named

After FPRev (Xie et al., "Revealing floating-point accumulation orders"): with +M at place i, -M at place j and a unit everywhere else, M so large
that a sum with it swallows units, the result counts the units that were added where neither M was any more. Here a row of A has the +M and a
column of B the -M, so that one product answers for all its pairs. A row of the table: type, api, shape, kernel of the probes, kernel and verdict
of `narrow validate` on a product of that shape of random operands, hash of the K x K counts, row by row (hash_of of record_operations.py; 0 where i = j).
"""

import argparse
import concurrent.futures
import csv
import datetime
import os
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sweep_products
try:
    import narrow  # --check alone needs it
except ImportError:
    pass
from record_operations import DEVICE, codes_of, driver, hash_of, recorded_kernels

# type: a unit and M (in A as in B), so that M / unit is beyond the bits of the sum and counts are exact in the output
PROBES = {"f16": (2.0**-12, 2.0**15), "bf16": (1.0, 2.0**60), "tf32": (1.0, 2.0**60), "fp32": (1.0, 2.0**60), "fp64": (1.0, 2.0**90), "e4m3": (2.0**-9, 2.0**8)}
LARGEST_COUNT = {"f16": 2048, "bf16": 256, "e4m3": 256}
COLUMNS = ("type", "api", "m", "n", "k", "kernel", "exact", "model", "plan", "hash", "random_kernel")


def cases():
    """(type, api, m, n, k): friendly, odd, few rows (K is split or taken by other kernels). An m x n product answers for m * n pairs, so that small ones
    with a long K would take thousands of launches."""
    for kind in PROBES:
        for api in ("matmul",) if kind == "e4m3" else ("matmul", "linear"):
            for k in (32, 64, 128, 256, 512, 1024):
                if k > LARGEST_COUNT.get(kind, 1024): continue
                yield kind, api, k, k, k
                if k <= 256: yield kind, api, 64, 64, k
            if kind == "e4m3": continue
            for m, n, k in ((33, 65, 100), (1, 256, 256), (256, 1, 250), (8, 8, 64), (16, 2048, 256), (100, 100, 201), (1, 1, 32)):
                yield kind, api, m, n, k
            if LARGEST_COUNT.get(kind, 2048) >= 2048:
                for m, n, k in ((512, 512, 2048), (8, 512, 1024), (1, 500, 500), (256, 384, 1536)): yield kind, api, m, n, k


def call_of(kind, api, a, b):
    if kind == "e4m3":
        one = torch.ones((), device=DEVICE)
        return lambda: torch._scaled_mm(a, b.t().contiguous().t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    if api == "linear":
        w = b.t().contiguous()
        return lambda: F.linear(a, w)
    return lambda: torch.matmul(a, b)


def counted(kind, api, m, n, k, product):
    """The k x k counts, from products of that shape; product(a, b) returns d as doubles."""
    unit, big = PROBES[kind]
    counts = np.zeros((k, k), np.uint16)
    ones = np.full((k, n), unit)
    for i in range(0, k, m):
        rows = np.minimum(np.arange(i, i + m), k - 1)
        a = np.full((m, k), unit)
        a[np.arange(m), rows] = big
        for j in range(0, k, n):
            columns = np.minimum(np.arange(j, j + n), k - 1)
            b = ones.copy()
            b[columns, np.arange(n)] = -big
            high, wide = min(m, k - i), min(n, k - j)
            d = np.asarray(product(a, b))[:high, :wide] / unit**2
            d[rows[:high, None] == columns[None, :wide]] = 0
            if not ((d >= 0) & (d <= k) & (d == np.floor(d))).all(): raise ValueError("no counts")
            counts[i:i + high, j:j + wide] = d
    return counts


def gpu_product(kind, api):
    dtype = torch.float8_e4m3fn if kind == "e4m3" else sweep_products.FLOATS[kind]

    def product(a, b):
        return call_of(kind, api, torch.tensor(a, device=DEVICE).to(dtype), torch.tensor(b, device=DEVICE).to(dtype))().double().cpu().numpy()
    return product


def plan_product(kind, model, plan):
    """The same from narrow's model and plan."""
    dtype = torch.float8_e4m3fn if kind == "e4m3" else sweep_products.FLOATS[kind]
    out = {"f16": "fp16", "bf16": "bf16", "e4m3": "bf16", "fp64": "fp64"}.get(kind, "fp32")

    def product(a, b):
        return narrow.matmul(torch.tensor(a).to(dtype), torch.tensor(b).to(dtype), model=model, plan=plan, out_format=out).double().numpy()
    return product


def same_tree(row):
    """Whether the plan that was named for random operands gives the order that the probes found; None where these took another kernel."""
    if row["exact"] != "1" or row["kernel"] != row["random_kernel"]: return None
    m, n, k = (int(row[x]) for x in "mnk")
    counts = counted(row["type"], row["api"], m, n, k, plan_product(row["type"], row["model"], row["plan"]))
    return f"{hash_of(torch.from_numpy(counts.astype(np.int64)).flatten()):016X}" == row["hash"]


def read_trees(path):
    with open(path) as file:
        return list(csv.DictReader((line for line in file if not line.startswith("#")), delimiter="\t"))


def check(path):
    rows = read_trees(path)
    answers = [same_tree(row) for row in rows]
    kernels = [{row["kernel"] for row, a in zip(rows, answers) if a is answer} for answer in (True, False)]
    for row, answer in zip(rows, answers):
        if answer is False: print("another order:", *(row[c] for c in COLUMNS[:9]))
    print(f"{sum(a is True for a in answers)} orders of {len(kernels[0] - kernels[1])} kernels agree, {sum(a is False for a in answers)} do not, "
          f"{sum(a is None for a in answers)} were probed by another kernel than the one that was named")
    return 0 if False not in answers else 1


def probe_kernel(kind, api, m, n, k):
    """Recorded apart: the profiler slows thousands of products down."""
    dtype = torch.float8_e4m3fn if kind == "e4m3" else sweep_products.FLOATS[kind]
    a, b = (torch.ones(shape, device=DEVICE).to(dtype) for shape in ((m, k), (k, n)))
    return " ".join(name[:60] for name in recorded_kernels([call_of(kind, api, a, b)])[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("narrow", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--raw")
    parser.add_argument("--check")
    options = parser.parse_args()
    if options.check: return check(options.check)
    rows, raw = [], {}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max(1, os.cpu_count() - 1)) as pool:
        for number, (kind, api, m, n, k) in enumerate(cases()):
            torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
            try:
                operands, call = sweep_products.product(kind, api, m, n, k, 2 * number + 1)  # odd: FP8 sums that are not promoted
                d = []
                names = recorded_kernels([lambda call=call: d.append(call())])[0]
                file = os.path.join(folder, f"{number}.safetensors")
                save_file({name: t.contiguous().cpu() for name, t in {**operands, "d": d[0]}.items()}, file)
                answer = pool.submit(sweep_products.judge, options.narrow, {"type": kind, "api": api, "m": m, "n": n, "k": k}, file, set(operands), None)
                counts = counted(kind, api, m, n, k, gpu_product(kind, api))
            except (RuntimeError, ValueError) as e:
                print(f"refused: {kind} {api} {m}x{n}x{k}: {str(e).splitlines()[0]}", file=sys.stderr)
                continue
            raw[f"{kind}-{api}-{m}x{n}x{k}"] = counts
            rows.append((answer, {"kernel": probe_kernel(kind, api, m, n, k), "random_kernel": " ".join(name[:60] for name in names) or "-",
                                  "hash": f"{hash_of(torch.from_numpy(counts.astype(np.int64)).flatten()):016X}"}))
        rows = [{**answer.result(), **row} for answer, row in rows]
    with open(options.out, "w") as out:
        out.write(f"# gpu {torch.cuda.get_device_name()}\n# driver {driver()}\n# torch {torch.__version__}\n# date {datetime.date.today()}\n")
        out.write("# command record_trees.py narrow\n" + "\t".join(COLUMNS) + "\n")
        for row in rows: out.write("\t".join(str(row[c]) for c in COLUMNS) + "\n")
    if options.raw: np.savez_compressed(options.raw, **raw)
    print(f"{len(rows)} orders of {len({row['kernel'] for row in rows})} kernels, {sum(row['exact'] for row in rows)} products named")


if __name__ == "__main__":
    sys.exit(main())
