#!/usr/bin/env bash
# Run the tests of the runtime on a Python without the GIL. Does nothing, and says why, where there is no such Python.
#
# Usage: free_threaded.sh PYTHON [PYTEST ARGUMENTS...]
# Without arguments all of tests/flow is run. The environment is .venv-free-threaded.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
shift
venv=.venv-free-threaded
tests=(tests/flow)
(($#)) && tests=("$@")

if ! command -v "$python" >/dev/null; then
    printf 'free-threaded: skipped, there is no `%s`; name another with FREE_THREADED=... make free-threaded\n' "$python"
    exit 0
fi
if ! "$python" -c 'import sysconfig, sys; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))'; then
    printf 'free-threaded: `%s` is a Python with the GIL\n' "$python" >&2
    exit 1
fi

[[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
# What the tests of the runtime need; not everything is published for such a Python.
needed='^(scikit-build-core|pybind11|cmake|ninja|lark|typer|numpy|pytest|pytest-timeout)[<>=]'
"$venv/bin/python" tools/requirements.py dev | grep -E "$needed" |
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r /dev/stdin
PATH="$PWD/$venv/bin:$PATH" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --no-build-isolation --no-deps --editable .

"$venv/bin/python" -W error -c '
import sys
import hami
hami.pipe("Identity")({"data": 1})
assert not sys._is_gil_enabled(), "the core has turned the GIL on"'
printf '==> tests without the GIL: %s\n' "${tests[*]}"
# Such a Python reserves more addresses than the limit of that test.
exec "$venv/bin/python" -m pytest "${tests[@]}" -p no:cacheprovider \
    --deselect tests/flow/test_process.py::test_too_many_threads_are_a_build_error
