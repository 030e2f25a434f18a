#!/usr/bin/env python3
"""Which format do PyTorch's FP32 products really use? Asks the bits, for each switch, on the GPU at hand.

    python3 record_switches.py > switches.tsv

A diagonal matrix of v times the identity gives v as the product's operands hold it. 1 + 2^-12 needs 12 fraction bits:
FP32 keeps it, TF32 (10) and BF16 (7) make it 1; 1 + 2^-9 is kept by TF32 and not by BF16. Convolutions are asked in the
same way, with a kernel whose centre is such a matrix. Every setting has a process of its own, so that "default" is what
PyTorch starts with.
"""
import subprocess
import sys

SETTINGS = {
    "default": "",
    "float32_matmul_precision=highest": "torch.set_float32_matmul_precision('highest')",
    "float32_matmul_precision=high": "torch.set_float32_matmul_precision('high')",
    "float32_matmul_precision=medium": "torch.set_float32_matmul_precision('medium')",
    "cuda.matmul.allow_tf32=True": "torch.backends.cuda.matmul.allow_tf32 = True",
    "cuda.matmul.allow_tf32=False": "torch.backends.cuda.matmul.allow_tf32 = False",
    "cudnn.allow_tf32=True": "torch.backends.cudnn.allow_tf32 = True",
    "cudnn.allow_tf32=False": "torch.backends.cudnn.allow_tf32 = False",
}
PROBE = """
import torch
{setting}
n = 1024
eye = torch.eye(n, device="cuda")
kernel = torch.zeros(64, 64, 3, 3, device="cuda")
kernel[:, :, 1, 1] = torch.eye(64, device="cuda")
image = torch.ones(8, 64, 32, 32, device="cuda")
for operation in ("matmul", "conv2d"):
    seen = []
    for v in (1 + 2.0**-12, 1 + 2.0**-9):
        y = (eye * v) @ eye if operation == "matmul" else torch.nn.functional.conv2d(image * v, kernel, padding=1)
        seen.append((y.diagonal()[0] if operation == "matmul" else y[0, 0, 5, 5]).item())
    kept = [seen[0] == 1 + 2.0**-12, seen[1] == 1 + 2.0**-9]
    used = "fp32" if all(kept) else "tf32" if kept[1] else "bf16"
    print(operation, {name!r}, seen[0].hex(), seen[1].hex(), used, sep="\\t")
"""


def main():
    import torch
    print(f"# gpu: {torch.cuda.get_device_name()}\n# torch: {torch.__version__}\n# cuda: {torch.version.cuda}\n"
          "# script: data/end-to-end/record_switches.py\noperation\tsetting\tof_1+2^-12\tof_1+2^-9\tused", flush=True)
    for name, setting in SETTINGS.items():
        print(subprocess.run([sys.executable, "-W", "ignore", "-c", PROBE.format(setting=setting, name=name)],
                             check=True, capture_output=True, text=True).stdout, end="", flush=True)


if __name__ == "__main__":
    main()
