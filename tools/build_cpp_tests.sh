#!/usr/bin/env bash
# Build the C++ unit tests of the core, with assertions on.
#
# Usage: build_cpp_tests.sh VENV FOLDER [CMAKE OPTIONS...]
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
folder=$2
shift 2
PATH="$PWD/$venv/bin:$PATH"
printf '    building the tests in %s\n' "$folder"
cmake -S . -B "$folder" -G Ninja --log-level=WARNING \
    -DHAMI_BUILD_TESTS=ON -DCMAKE_BUILD_TYPE=Debug -DSKBUILD_PROJECT_VERSION=0 \
    -DPython_EXECUTABLE="$PWD/$venv/bin/python" -Dpybind11_DIR="$("$venv/bin/python" -m pybind11 --cmakedir)" "$@"
cmake --build "$folder" --target hami_tests
