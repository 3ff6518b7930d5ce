#!/usr/bin/env bash
# Run every check of the project, each under a heading with its time, and end with a summary.
#
# Usage: test.sh VENV
# A failing check does not stop the others; the exit status tells whether all passed. pytest runs last, and its closing line
# ends the output.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

venv=$1
pytest_log=build/pytest.log
summary=()
failures=0
colour=()
[[ -t 1 ]] && colour=(--color=yes)

check() {
    local title=$1 started=$SECONDS verdict=passed
    shift
    printf '\n==> %s\n    %s\n' "$title" "$*"
    "$@" || { verdict=FAILED && failures=$((failures + 1)); }
    printf '    %s: %s after %d s\n' "$title" "$verdict" $((SECONDS - started))
    summary+=("$(printf '%-34s %-7s %4d s' "$title" "$verdict" $((SECONDS - started)))")
}

# shellcheck disable=SC2329  # called through check
cpp_tests() {
    tools/build_cpp_tests.sh "$venv" build/cpp &&
        "$venv/bin/ctest" --test-dir build/cpp --parallel "$(nproc)" --output-on-failure
}

# shellcheck disable=SC2329  # called through check
python_tests() {
    "$venv/bin/python" -m pytest "${colour[@]}" -n "$(nproc)" --dist loadfile 2>&1 | tee "$pytest_log"
}

mkdir -p build
check 'style of Python (ruff check)' "$venv/bin/ruff" check .
check 'format of Python (ruff format)' "$venv/bin/ruff" format --check .
check 'format of C++ (clang-format)' tools/clang_format.sh "$venv" --dry-run --Werror
check 'types (mypy)' "$venv/bin/mypy"
check 'models of the examples' "$venv/bin/python" examples/fetch_models.py
check 'unit tests of the core (ctest)' cpp_tests
# The long forms are `make tsan` and `make asan`. Compiling for a second sanitizer would take this above 25 minutes.
check 'under ThreadSanitizer' tools/sanitize.sh "$venv" thread tests/flow/test_chaos.py tests/serve/test_express.py
check 'tests in Python (pytest)' python_tests

printf '\n==> summary\n'
printf '    %s\n' "${summary[@]}"
tail -n 1 "$pytest_log"
exit $((failures > 0))
