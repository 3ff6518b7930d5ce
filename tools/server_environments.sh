#!/usr/bin/env bash
# Make an environment for each server that `hami serve` is compared with, with our version of ONNX Runtime.
#
# Usage: server_environments.sh FOLDER VENV PYTHON TRITON_PYTHON
# The Triton server of nvidia-pytriton loads a Python of its own release: without a fitting one it is left out.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
venv=$2
python=$3
triton_python=$4
engine=$("$venv/bin/python" -m pip freeze --disable-pip-version-check | grep '^onnxruntime==')

make_environment() {
    tools/peer_environment.sh "$folder/$1" "$2" "$3" "$engine" numpy
}

make_environment mosec "$python" mosec==0.9.8
make_environment litserve "$python" litserve==0.2.19
make_environment ray "$python" 'ray[serve]==2.60.0'
if "$triton_python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:3] <= (3, 11, 5))' 2>/dev/null; then
    make_environment triton "$triton_python" nvidia-pytriton==0.7.0
else
    printf 'peer: no Python 3.11.0 to 3.11.5 at %s, the Triton server is left out\n' "$triton_python"
fi
