#!/bin/bash
# From COCO's tars to the ladder in one stretch on one GPU, while the tars are still arriving.
#
#   benchmarks/backbones/ladder.sh DATASET TARS COUNT STORES
#
# Run in a folder that has runs/coco-teacher-first/best (configs/coco/teacher_first.toml). The steps are
# those of docs/coco.md; features come from the pixels that were tuned on, so that no JPEG is read
# twice. What is finished is not made again, and a run that was cut off goes on; half a store has to be
# removed first. times.txt gets the second at which each step began. For a dry run: LIMIT (images of
# each split), TUNE, PACK, LADDER (further options of `naic train`, `naic pack` and `naic reproduce`).
set -e
dataset=$1 tars=$2 count=$3 stores=$4
here=$(cd "$(dirname "$0")" && pwd) configs=$(cd "$(dirname "$0")/../../configs/coco" && pwd)
step() { echo "$(date +%s) $*" | tee -a times.txt; }
mkdir -p data runs
ln -sfn "$stores/pixels" data/coco-pixels
ln -sfn "$stores/features" data/coco-features

step pixels
[ -e "$stores/pixels/index.json" ] ||
    python3 "$here/extract.py" "$dataset" "$tars" --tars "$count" --out "$stores" \
        --backbones pixels --splits train restval val test ${LIMIT:+--limit $LIMIT}
step backbone
[ -e runs/coco-backbone/report.json ] ||
    python3 -m naic train "$configs/backbone.toml" --resume auto $TUNE
step pack
[ -e runs/coco-backbone-packed ] ||
    python3 -m naic pack runs/coco-backbone/best --out runs/coco-backbone-packed \
        --calibrate data/coco-pixels $PACK
step features
[ -e "$stores/features/index.json" ] ||
    python3 "$here/from_pixels.py" data/coco-pixels --weights runs/coco-backbone-packed \
        --mirror train restval --out "$stores/features"
step ladder
python3 -m naic reproduce --preset "$configs" --features data/coco-features --out runs/coco $LADDER
step end
