#!/bin/sh
# The files that the examples of README.md, of docs/, of the lessons and of --help name, made from the recordings beside
# this script. Usage: data/examples.sh FOLDER [NARROW], default narrow from PATH. The same bytes on every machine.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 FOLDER [NARROW]" >&2; exit 2; }
data=$(cd "$(dirname "$0")" && pwd)
narrow=${2:-narrow}
mkdir -p "$1/dumps" && cd "$1"
quiet() { "$narrow" "$@" >/dev/null; }

# Tensors of a real training run, logs of its steps, and the lessons.
cp "$data/torch/step300.safetensors" "$data/torch/logs.json" "$data/torch/histograms.json" .
cp "$data/torch/step300.safetensors" "$data/torch/step1000.safetensors" dumps/
cp "$data/torch/step1000.safetensors" grads.safetensors
cp "$data/torch/step1000.safetensors" mine.safetensors
cp "$data/torch/step0.safetensors" qk.safetensors
cp "$data/torch/logs.json" log.json
cp "$data/scale/torch_gpt_fp16_scaled.tsv" run.tsv
cp "$data/scale/torch_gpt_fp16_scaled.tsv" log.csv
cp -r "$data/watched-run" watched
ln -sfn "$data/../notebooks_cpp" notebooks_cpp
quiet cast step300.safetensors:grad.head.weight g.npy --to fp32
quiet cast step300.safetensors:weight.blocks.3.up.weight w.npy --to fp32

# A small model after three steps, and a recipe to train one.
quiet train --task digits --recipe fp32 --steps 3 -o run
cp run/fp32-seed1.safetensors model.safetensors
"$narrow" train --print-recipe fp8-current >mine.json
# A kernel that cuts where it should round: one ulp off.
quiet cast model.safetensors expected.safetensors --to bf16 --tensors weight
quiet cast model.safetensors kernel.safetensors --to bf16 --tensors weight --rounding toward_zero

# Matrices with K = 2048: A are the gradients M of 64 micro-batches (64 x 2048) times 2^16, B = M^T W^T times 2^18 with
# the first weight W of that model (128 x 64). The FP8 product is promoted every 128.
fp32="--model software.fma.f32.f32.f32"
micro=$data/torch/micro_batches.safetensors:micro.grad
weight=model.safetensors:parameter.layers.0.weight
quiet gemm $fp32 --a "$weight" --transpose-a --b "$weight" -o square.npy
quiet gemm $fp32 --a square.npy --b "$micro" --alpha 0 --c "$micro" --beta 65536 -o a32.npy
quiet gemm $fp32 --a "$micro" --transpose-a --b "$weight" --transpose-b --alpha 262144 -o b32.npy
for x in a b; do
  quiet cast ${x}32.npy $x.npy --to fp16
  quiet cast ${x}32.npy $x.safetensors --to e4m3
done
quiet gemm --model hopper.wgmma.f32.f16.f16 --plan split:1408 --a a.npy --b b.npy -o d.npy
quiet gemm --model hopper.wgmma.f32.e4m3.e4m3 --plan promote:128 --a a.safetensors --b b.safetensors -o d.safetensors

# The same model as a folder, and in FP8 with a configuration that does not say so.
mkdir -p model
cp model.safetensors model/
echo '{"model_type": "digits"}' >model/config.json
quiet quantize model model-nvfp4 --layout compressed-tensors --to nvfp4
quiet quantize model model-fp8 --layout deepseek --to fp8_128x128
cp model/config.json model-fp8/
