#!/usr/bin/env bash
# Run clang-format over every C++ file of the project.
#
# Usage: clang_format.sh VENV OPTIONS...   (-i to format, --dry-run --Werror to check)
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
shift
find csrc backends tests examples \( -name '*.cc' -o -name '*.h' \) -print0 |
    xargs -0 --no-run-if-empty "$venv/bin/clang-format" "$@"
