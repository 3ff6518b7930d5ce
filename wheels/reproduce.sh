#!/usr/bin/env bash
# Build the commit once more, in a clone in another place, and compare the bytes with those in dist/.
#
# Usage: reproduce.sh [PYTHON]      python3; dist/ has its wheels of this commit, without changes (`make wheels`)
# Nothing is taken from a cache of compiled files.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${1:-python3}")
here=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

if [[ -n $(git status --porcelain) ]]; then
    printf 'reproduce: there are changes that no commit has; commit them, and run `make wheels`\n' >&2
    exit 1
fi
git clone -q . "$scratch/hami"
(cd "$scratch/hami" && env -u CMAKE_CXX_COMPILER_LAUNCHER wheels/build.sh "$python" >/dev/null)
cd "$scratch/hami/dist"
for file in *; do
    cmp "$file" "$here/dist/$file"
    sha256sum "$file"
done
