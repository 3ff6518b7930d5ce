#!/usr/bin/env bash
# Make an environment for one peer of the benchmarks, so that its dependencies never meet ours.
#
# Usage: peer_environment.sh FOLDER PYTHON REQUIREMENT...
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
python=$2
shift 2
[[ -f $folder/requirements.txt && $(<"$folder/requirements.txt") == "$*" ]] && exit
printf 'peer: installing %s into %s\n' "$*" "$folder"
"$python" -m venv --clear "$folder"
PIP_DISABLE_PIP_VERSION_CHECK=1 "$folder/bin/python" -m pip install --quiet "$@"
printf '%s' "$*" >"$folder/requirements.txt"
