#!/usr/bin/env bash
# Build the same commit twice, in two clones, and compare what came out byte by byte.
#
# Usage: reproduce.sh [PYTHON]      python3
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${1:-python3}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for place in first second; do
    git clone -q . "$scratch/$place/hami"
    (cd "$scratch/$place/hami" && wheels/build.sh "$python" >/dev/null)
    (cd "$scratch/$place/hami/dist" && sha256sum ./*) >"$scratch/$place.sums"
done
diff "$scratch/first.sums" "$scratch/second.sums" && cat "$scratch/first.sums"
