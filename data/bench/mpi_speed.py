#!/usr/bin/env python3
"""How narrow-mpi scales on one machine: N ranks of one thread against one rank of N threads, warm, best of several.

    data/bench/mpi_speed.py build/release/apps/narrow-mpi [--ranks 16] [--mib 64] [--sweep]

Makes 64 shards of --mib MiB of FP32 in a temporary folder (--dir), and needs numpy and mpirun. Prints a table; the ratio
is the time of one rank with all threads over that of all ranks. --sweep adds 64 training runs of digits, 3000 steps each,
on one rank and on all.
"""
import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time

import numpy as np


def write_shard(path, mib, seed):
    values = np.random.default_rng(seed).standard_normal(mib * 2**18, dtype=np.float32) * np.float32(1e-3)
    rows = {}
    for k, part in enumerate(np.array_split(np.arange(values.size), 8)):
        rows[f"layer{seed}.{k}"] = {"dtype": "F32", "shape": [part.size],
                                    "data_offsets": [int(part[0]) * 4, int(part[-1] + 1) * 4]}
    header = json.dumps(rows).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header + values.tobytes())


def seconds(program, ranks, threads, words, repeat):
    command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), program, *words]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", NARROW_NO_SYNC="1")
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - start)
    return best


def processes(program, n):
    """Seeds 1 to 16 of four recipes, shared among n processes that know nothing of one another."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    words = [str(program), "train", "--task", "digits", "--recipe", "fp32,bf16-amp,fp16-amp,fp8-current", "--steps", "3000", "--seed"]
    start = time.perf_counter()
    running = [subprocess.Popen([*words, ",".join(map(str, part))], env=environment, stdout=subprocess.DEVNULL)
               for part in np.array_split(np.arange(1, 17), min(n, 16))]
    if any([p.wait() for p in running]):
        raise SystemExit("mpi_speed.py: a process of narrow failed")
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--ranks", type=int, default=os.cpu_count())
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--dir")
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args()
    n = options.ranks
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        shards = pathlib.Path(folder) / "shards"
        shards.mkdir()
        for seed in range(64):
            write_shard(shards / f"part{seed}of64.safetensors", options.mib, seed)
        out = str(pathlib.Path(folder) / "out")
        print(f"| {n} ranks, 64 shards of {options.mib} MiB | 1 rank x {n} threads | {n} ranks x 1 thread | ratio |")
        print("|---|---:|---:|---:|")
        kinds = {"stats": ["stats", str(shards), "--total"], "stats, a row a tensor": ["stats", str(shards), "--json"],
                 "cast e4m3": ["cast", str(shards), out, "--to", "e4m3"],
                 "cast nvfp4": ["cast", str(shards), out, "--to", "nvfp4"]}
        for name, words in kinds.items():
            one, all_ranks = (seconds(options.program, r, t, words, options.repeat) for r, t in ((1, n), (n, 1)))
            print(f"| {name} | {one:.2f} s | {all_ranks:.2f} s | {one / all_ranks:.2f} |", flush=True)
        start = seconds(options.program, n, 1, ["formats", "fp16"], options.repeat)
        print(f"| start and end (`formats`) | | {start:.2f} s | |", flush=True)
        source, empty = pathlib.Path(folder) / "empty.c", str(pathlib.Path(folder) / "empty")
        source.write_text("#include <mpi.h>\nint main(void) { MPI_Init(0, 0); return MPI_Finalize(); }\n")
        if shutil.which("mpicc") and subprocess.run(["mpicc", str(source), "-o", empty]).returncode == 0:
            alone = seconds(empty, n, 1, [], options.repeat)
            print(f"| start and end of an empty program of MPI | | {alone:.2f} s | |", flush=True)
        if options.sweep:
            words = ["train", "--task", "digits", "--recipe", "fp32,bf16-amp,fp16-amp,fp8-current", "--seed",
                     ",".join(map(str, range(1, 17))), "--steps", "3000"]
            one, all_ranks = (seconds(options.program, r, 1, words, 1) for r in (1, n))
            print(f"| 64 runs of digits, 3000 steps: 1 rank, {n} ranks, 1 thread each | {one:.1f} s | {all_ranks:.1f} s | "
                  f"{one / all_ranks:.1f} |")
            apart = processes(pathlib.Path(options.program).with_name("narrow"), n)
            print(f"| the same as {n} processes without MPI: what the cores give | | {apart:.1f} s | {one / apart:.1f} |")
        shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
