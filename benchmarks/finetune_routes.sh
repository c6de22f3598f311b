#!/bin/bash
# Features of Flickr8k by the model inside naic, then all routes of finetune_routes.py side by side on one GPU.
#
#   benchmarks/finetune_routes.sh FLICKR8K OUT
#
# FLICKR8K is a folder as `naic prepare` reads it. Runs share the GPU by CUDA's multi-process service.
set -e
here=$(cd "$(dirname "$0")" && pwd) source=$1 out=$2
mkdir -p "$out"
[ -e "$out/features/index.json" ] ||
    python3 -m naic prepare flickr8k "$source" --out "$out/features" --backbone clip-vit-b16+dinov2-vits14 \
        --pixels 256 --batch 256 --weights "$here/../src/naic/shipped" --mirror train --splits train val --device cuda
export CUDA_MPS_PIPE_DIRECTORY=$out/mps CUDA_MPS_LOG_DIRECTORY=$out/mps
mkdir -p "$out/mps"
nvidia-cuda-mps-control -d
for routes in "as-it-is cmal-decoder" cmal-all teacher teacher-to-student; do
    # shellcheck disable=SC2086 - several routes in one process
    python3 "$here/finetune_routes.py" "$out/features" --out "$out" --only $routes > "$out/${routes// /+}.log" 2>&1 &
done
wait
