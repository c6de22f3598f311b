#!/bin/bash
# From COCO's tars to the variants of a study in one stretch on one GPU, while the tars are still arriving.
#
#   benchmarks/study.sh DATASET TARS COUNT STORES [LANE ...]
#
# A LANE is a list of variants of configs/coco/study.toml (or of STUDY), with commas; lanes run side by side. The start
# is a student of a teacher that begins with the model inside naic: two epochs of cross-entropy, two of SCST, and five of
# the teacher's captions (EPOCHS), as for docs/results/student.md. What is finished is not made again, and a run that was
# cut off goes on. times.txt gets the second at which each step began. `only-tables` of `naic reproduce` makes the table
# of what comes back: runs/study. For a dry run: LIMIT (images of each split), START and TRAIN (options of
# student.py and `naic reproduce`), and EPOCHS.
set -e
dataset=$1 tars=$2 count=$3 stores=$4
shift 4
here=$(cd "$(dirname "$0")" && pwd) configs=$(cd "$(dirname "$0")/../configs/coco" && pwd)
step() { echo "$(date +%s) $*" | tee -a times.txt; }
mkdir -p data runs
ln -sfn "$stores" data/coco-features

step features
[ -e "$stores/index.json" ] ||
    python3 "$here/backbones/extract.py" "$dataset" "$tars" --tars "$count" --out "$stores" \
        --weights "$here/../src/naic/shipped" --mirror train restval --compile ${LIMIT:+--limit $LIMIT}
step start
# shellcheck disable=SC2086 - lists of words
python3 "$here/student.py" data/coco-features --configs "$configs" --out runs/coco --epochs ${EPOCHS:-2 2 5} \
    --start "$here/../src/naic/shipped" $START > start.log 2>&1
step study
export CUDA_MPS_PIPE_DIRECTORY=$PWD/mps CUDA_MPS_LOG_DIRECTORY=$PWD/mps
mkdir -p mps
if command -v nvidia-cuda-mps-control > /dev/null; then nvidia-cuda-mps-control -d; fi
for lane in "$@"; do
    # shellcheck disable=SC2086 - options
    python3 -m naic reproduce --study "${STUDY:-$configs/study.toml}" --features data/coco-features --out runs/study \
        --fast --only "$lane" $TRAIN > "lane-${lane%%,*}.log" 2>&1 &
done
wait
step end
