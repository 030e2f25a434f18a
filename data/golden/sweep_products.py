"""Products of random shapes on a GPU, each put to `narrow validate`: how many are named bit for bit.

    python data/golden/sweep_products.py build/release/apps/narrow OUT.tsv --shapes 400 --seed 7

Five types (f16, bf16, tf32, e4m3, s8) take each shape through torch: matmul, linear with and without bias, a batch (--apis; relu and gelu are
torch._addmm_activation, triton and triton-128 the kernel of triton_kernels.py); 400 shapes are 2,000 products. Each goes through every library of --blas, and a result that an earlier one gave is not
searched again; attention and attention+causal are one head of the backend MATH, put to validate --op. Operands are product_code() of lib/narrow/golden/product_inputs.hpp (B of a linear layer is n x k; its bias has the seed + 1000); the hash
is that of record_operations.py. Those that are not named are kept with --keep.
"""

import argparse
import concurrent.futures
import ctypes
import datetime
import importlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from safetensors.torch import save_file

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from record_operations import DEVICE, GOLDEN, codes_of, driver, hash_of, mix, recorded_kernels, tensor, values

APIS = "matmul,matmul,linear,linear+bias,bmm"
TYPES = ("f16", "bf16", "tf32", "e4m3", "s8")
FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "tf32": torch.float32, "fp32": torch.float32, "fp64": torch.float64}


def shapes(count, seed):
    """(m, n, k): a third friendly, a third any, and what is awkward: one row, one column, K of 3000 or 20,000, odd K."""
    draw = random.Random(seed)

    def size(low, high, step):
        n = round(math.exp(draw.uniform(math.log(low), math.log(high))))
        return max(low, n // step * step)
    for i in range(count):
        step = (64, 8, 1)[i % 3]
        m, n, k = size(step, 2048, step), size(step, 2048, step), size(step, 65536, step)
        kind = draw.randrange(12)
        if kind == 0: m = 1
        if kind == 1: n = 1
        if kind == 2: k = 3000
        if kind == 3: k = 20000
        if kind == 4: k |= 1
        while m * n * k > 1 << 27:  # half a second of the emulator
            if n >= m and n > 64: n //= 2
            elif m > 64: m //= 2
            else: k //= 2
        yield m, n, k


def integers(seed, matrix, shape):
    index = torch.arange(math.prod(shape), dtype=torch.int64, device=DEVICE)
    return ((mix(index * GOLDEN + (seed * 2 + matrix)) & 0xFF) - 256 * (mix(index * GOLDEN + (seed * 2 + matrix)) >> 7 & 1)).to(torch.int8).reshape(shape)


def product(kind, api, m, n, k, seed):
    """The tensors of a product and the call that makes d; None where torch has no such product."""
    if kind in ("e4m3", "s8"):
        if api != "matmul": return None
        m = max(32, m // 8 * 8) if kind == "s8" else m
        n, k = max(16, n // 16 * 16), max(16, k // 16 * 16)
    if kind == "e4m3":
        a = values(seed, 0, m * k).reshape(m, k).to(torch.float8_e4m3fn)
        b = values(seed, 1, k * n).reshape(k, n).to(torch.float8_e4m3fn)
        bt = b.t().contiguous().t()
        one = torch.ones((), device=DEVICE)
        return {"a": a, "b": b}, lambda: torch._scaled_mm(a, bt, one, one, out_dtype=torch.bfloat16, use_fast_accum=bool(seed % 2))
    if kind == "s8":
        a, b = integers(seed, 0, (m, k)), integers(seed, 1, (k, n))
        return {"a": a, "b": b}, lambda: torch._int_mm(a, b)
    dtype = FLOATS[kind]
    if api.startswith("attention"):
        causal, dim = api.endswith("causal"), 64 if seed % 2 else 128
        q, (key, value) = (1, 1, m, dim), (tensor(s, i, (1, 1, m if causal else n, dim), dtype) for s, i in ((seed, 1), (seed + 1000, 0)))
        operands = {"q": tensor(seed, 0, q, dtype), "k": key, "v": value}

        def attention():
            with sdpa_kernel(SDPBackend.MATH): return F.scaled_dot_product_attention(*operands.values(), is_causal=causal)
        return operands, attention
    if api == "bmm":
        items = 2 + seed % 3
        a, b = tensor(seed, 0, (items, m, k), dtype), tensor(seed, 1, (items, k, n), dtype)
        return {"a": a, "b": b}, lambda: torch.bmm(a, b)
    a = tensor(seed, 0, (m, k), dtype)
    if api.startswith("triton"):
        b = tensor(seed, 1, (k, n), dtype)
        return {"a": a, "b": b}, lambda: triton_kernels.product(a, b, part=128 if api == "triton-128" else 0)
    if api in ("matmul", "relu", "gelu"):
        b = tensor(seed, 1, (k, n), dtype)
        if api == "matmul": return {"a": a, "b": b}, lambda: torch.matmul(a, b)
        c = tensor(seed + 1000, 0, (n,), dtype)
        return {"a": a, "b": b, "c": c}, lambda: torch._addmm_activation(c, a, b, use_gelu=api == "gelu")
    b = tensor(seed, 1, (n, k), dtype)
    if api == "linear": return {"a": a, "b": b}, lambda: F.linear(a, b)
    c = tensor(seed + 1000, 0, (n,), dtype)
    return {"a": a, "b": b, "c": c}, lambda: F.linear(a, b, c)


def cublas_version():
    """Of the library that torch has loaded."""
    n = ctypes.CDLL(f"libcublasLt.so.{torch.version.cuda.split('.')[0]}").cublasLtGetVersion()
    return f"{n // 10000}.{n // 100 % 100}.{n % 100}"


ANSWERS = {"model": "model", "plan": "plan", "equal": "equal_count", "total": "total"}
OF_ATTENTION = {**ANSWERS, "model": "variant", "plan": "kernel"}


def command(narrow, kind, api, file, names):
    if api.startswith("attention"):
        return [narrow, "validate", "--op", "attention", *(w for t in "qkvd" for w in (f"--{t}", f"{file}:{t}")), "--json", "--threads", "1",
                *(["--causal"] if api.endswith("causal") else [])]
    line = [narrow, "validate", "--a", f"{file}:a", "--b", f"{file}:b", "--d", f"{file}:d", "--gpu", "hopper", "--json", "--threads", "1"]
    if api.startswith("linear"): line += ["--transpose-b"]
    if "c" in names: line += ["--c", f"{file}:c"]
    if api in ("relu", "gelu"): line += ["--epilogue", "bias+relu" if api == "relu" else "bias+gelu_tanh"]
    return line


def judge(narrow, row, file, names, keep, until=math.inf):
    """None where the time is over."""
    if time.time() > until:
        os.remove(file)
        return None
    run = subprocess.run(command(narrow, row["type"], row["api"], file, names), capture_output=True, text=True)
    try:
        answer = json.loads(run.stdout)
    except ValueError:
        answer = {"exact": False, "model": "-", "variant": "-", "plan": run.stderr.strip()[:80], "kernel": run.stderr.strip()[:80], "equal_count": 0, "total": row["m"] * row["n"]}
    row.update(exact=int(answer["exact"] and not answer.get("wrong_gpu")),
               **{key: answer[name] for key, name in (OF_ATTENTION if row["api"].startswith("attention") else ANSWERS).items()})
    if keep and not row["exact"]: shutil.copy(file, os.path.join(keep, f"{row['type']}-{row['api']}-{row['m']}x{row['n']}x{row['k']}-{row['seed']}.safetensors"))
    os.remove(file)
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("narrow")
    parser.add_argument("out")
    parser.add_argument("--shapes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="shapes to leave out at the beginning")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--apis", default=APIS)
    parser.add_argument("--blas", default="cublas", help="cublas (torch's own choice), cublaslt, or both with a comma")
    parser.add_argument("--keep")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no search begins later; those products are left out, and counted")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = "tf32" in options.types
    draw = random.Random(options.seed + 1)
    if options.keep: os.makedirs(options.keep, exist_ok=True)
    rows, waiting, searched, until = [], [], {}, time.time() + options.seconds
    libraries = options.blas.split(",")
    if "triton" in options.apis: globals()["triton_kernels"] = importlib.import_module("triton_kernels")
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        work = []
        for number, (m, n, k) in enumerate(shapes(options.shapes, options.seed)):
            for kind in options.types.split(","):
                api = "matmul" if kind in ("e4m3", "s8") else draw.choice(options.apis.split(","))
                if kind == "fp64" and api == "linear+bias": api = "linear"
                seed = draw.randrange(10**6, 10**9)
                if number >= options.first: work.append((kind, api, m, n, k, seed))
        for start in range(0, len(work), 100):
            made = []

            def calls():
                for kind, api, m, n, k, seed in work[start:start + 100]:
                    operands, call = product(kind, api, m, n, k, seed)
                    for blas in libraries:
                        made.append([kind, api, seed, blas, operands, None])

                        def run(call=call, at=made[-1], blas=blas):
                            torch.backends.cuda.preferred_blas_library(blas)
                            try:
                                at[-1] = call()
                            except RuntimeError as e:
                                print(f"refused: {kind} {api} {m}x{n}x{k} {blas}: {str(e).splitlines()[0]}", file=sys.stderr)
                        yield run
            names = recorded_kernels(calls())
            for number, (kind, api, seed, blas, operands, d) in enumerate(made):
                if d is None: continue
                shape = {"m": d.shape[-2], "n": d.shape[-1], "k": operands["a"].shape[-1]} if "a" in operands else {"m": d.shape[-2], "n": operands["k"].shape[-2], "k": d.shape[-1]}
                row = {"type": kind, "api": api, **shape, "seed": seed, "hash": f"{hash_of(codes_of(d)):016X}", "blas": blas, "kernel": " ".join(n[:60] for n in names[number])}
                same = (kind, seed, row["hash"])
                if same not in searched:
                    file = os.path.join(folder, f"{start}-{number}.safetensors")
                    save_file({name: t.contiguous().cpu() for name, t in {**operands, "d": d}.items()}, file)
                    searched[same] = pool.submit(judge, options.narrow, dict(row), file, set(operands), options.keep, until)
                waiting.append((row, searched[same]))
        for n, (row, answer) in enumerate(waiting):
            if answer.result() is None: continue
            rows.append({**row, **{key: answer.result()[key] for key in ("exact", *ANSWERS)}})
            if n % 100 == 99: print(f"{n + 1} of {len(waiting)}: {sum(r['exact'] for r in rows)} named", flush=True)
    columns = ("type", "api", "m", "n", "k", "seed", "exact", "model", "plan", "equal", "total", "hash", "blas", "kernel")
    with open(options.out, "w") as f:
        f.write(f"# gpu {torch.cuda.get_device_name()}\n# driver {driver()}\n# torch {torch.__version__}\n# toolkit {torch.version.cuda}\n# cublas {cublas_version()}\n# date {datetime.date.today()}\n")
        f.write(f"# command sweep_products.py narrow --shapes {options.shapes} --seed {options.seed} --types {options.types} --apis {options.apis} --blas {options.blas}\n")
        f.write("\t".join(columns) + "\n")
        for r in rows: f.write("\t".join(str(r[c]) for c in columns) + "\n")
    for kind, blas in ((kind, blas) for kind in options.types.split(",") for blas in libraries):
        mine = [r for r in rows if (r["type"], r["blas"]) == (kind, blas)]
        print(f"{kind}, {blas}: {sum(r['exact'] for r in mine)} of {len(mine)} named")
    if len(rows) < len(waiting): print(f"{len(waiting) - len(rows)} products not judged: the time was over")
    print(f"all: {sum(r['exact'] for r in rows)} of {len(rows)} named, {100 * sum(r['exact'] for r in rows) / len(rows):.2f} %")


if __name__ == "__main__":
    main()
