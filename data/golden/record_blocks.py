"""Records whole transformers on a GPU: a hash of what every module returns, and the kernels of their products.

    python data/golden/record_blocks.py OUT.tsv                      # on an H200: data/golden/blocks.tsv
    NARROW_DEVICE=cpu python data/golden/record_blocks.py OUT.tsv    # the same rows from a CPU, to try the script

A row: model, type, attention (cudnn: nothing is asked of torch, flash2: FLASH_ATTENTION is), seed, stage, shape, hash, first codes,
kernels. Stages: "weights" and "input", then modules by name in the order in which they end. Models and seeds: block_models.py;
hash and codes: record_operations.py. Kernels are those of the module called once more on the same input, for the first module of
each kind and shape.
"""

import argparse
import contextlib
import datetime
import os
import platform
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import block_models as models
import record_operations as operations
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = os.environ.get("NARROW_DEVICE", "cuda")
TYPES, ATTENTIONS, SEEDS = ("bf16", "fp16"), ("cudnn", "flash2"), (1, 2, 3)
COLUMNS = ("model", "type", "attention", "seed", "stage", "shape", "hash", "first", "kernels")


def backend(attention):
    """cudnn is what torch runs on its own."""
    if attention == "cudnn" or DEVICE == "cpu":
        return contextlib.nullcontext()
    return sdpa_kernel(SDPBackend.FLASH_ATTENTION)


def row_of(case, stage, shape, hash, first, kernels="-"):
    return "\t".join([*map(str, case), stage, "x".join(map(str, shape)) or "-", f"{hash:016X}", first or "-", kernels])


def products_of(model):
    """Modules that multiply, by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, (torch.nn.Linear, models.Attend))}


def kernels_of(model, inputs, attention):
    """Stage -> kernels, for the first module of each kind and shape."""
    if DEVICE == "cpu":
        return {}
    calls, handles = {}, []
    for name, module in products_of(model).items():
        def keep(m, args, name=name):
            weight = tuple(m.weight.shape) if hasattr(m, "weight") else ()
            calls.setdefault((type(m), weight, tuple(args[0].shape)), (name, m, args))
        handles.append(module.register_forward_pre_hook(keep))
    try:
        with backend(attention):
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    operations.DEVICE = DEVICE  # its marks are kernels of the GPU
    try:
        with backend(attention):
            found = operations.recorded_kernels([lambda m=m, args=args: m(*args) for _, m, args in calls.values()])
    finally:
        operations.DEVICE = "cpu"
    return {name: " ".join(kernels) or "-" for (name, _, _), kernels in zip(calls.values(), found)}


def recorded(case, model, inputs, made):
    """The rows of one run; made: those about its weights and inputs."""
    kind, _, attention, seed = case
    rows = [row_of(case, *row) for row in made]
    with torch.no_grad():
        kernels = {}
        if seed == 1:
            try:
                kernels = kernels_of(model, inputs, attention)
            except Exception:  # a recording without names of kernels is a recording
                traceback.print_exc()
        with backend(attention):
            seen, _ = models.stages(model, lambda: model(*inputs))
        for stage, out in seen:
            if models.is_kept(kind, seed, stage):
                codes = operations.codes_of(out)
                rows.append(row_of(case, stage, out.shape, operations.hash_of(codes), models.first_codes(codes),
                                   kernels.get(stage, "-")))
    return rows


def built(kind, type_name, seed):
    """Model and inputs on the device, and rows about them."""
    model, inputs = models.build(kind, type_name, seed)
    codes = inputs[0].flatten() if inputs[0].dtype == torch.int64 else operations.codes_of(inputs[0])
    made = [("weights", (), models.weights_hash(model), ""),
            ("input", inputs[0].shape, operations.hash_of(codes), models.first_codes(codes))]
    return model.to(DEVICE), tuple(x.to(DEVICE) for x in inputs), made


def header(arguments):
    on = torch.cuda.is_available() and DEVICE != "cpu"
    cudnn = torch.backends.cudnn.version() if on else "-"
    flags = {"allow_tf32": torch.backends.cuda.matmul.allow_tf32,
             "bf16_reduced": torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
             "fp16_reduced": torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction}
    return [f"# gpu {torch.cuda.get_device_name() if on else platform.processor() or 'cpu'}",
            f"# driver {operations.driver() if on else '-'}", f"# torch {torch.__version__}", f"# cudnn {cudnn}",
            "# flags " + " ".join(f"{k}={v}" for k, v in flags.items()), f"# date {datetime.date.today()}",
            "# command " + " ".join(["record_blocks.py", *arguments]), "\t".join(COLUMNS)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--models", default=",".join(models.KINDS))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    options = parser.parse_args()
    start, done, failed = time.time(), 0, 0
    with open(options.out, "w") as file:
        file.write("\n".join(header(sys.argv[2:])) + "\n")
        for kind in options.models.split(","):
            for seed in map(int, options.seeds.split(",")):
                for type_name in TYPES:
                    model, inputs, made = built(kind, type_name, seed)
                    for attention in ATTENTIONS:
                        case = (kind, type_name, attention, seed)
                        try:
                            rows = recorded(case, model, inputs, made)
                        except Exception:  # the others are worth having
                            failed += 1
                            print("refused:", *case, file=sys.stderr)
                            traceback.print_exc()
                            continue
                        file.write("\n".join(rows) + "\n")
                        file.flush()
                        done += 1
            print(f"{kind}: {time.time() - start:.0f} s", flush=True)
    print(f"{done} runs recorded, {failed} refused, {os.path.getsize(options.out)} bytes, {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
