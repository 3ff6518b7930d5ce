#!/usr/bin/env bash
# Run the C++ tests, and the Python tests that stress the core, with a core compiled for a sanitizer of gcc.
#
# Usage: sanitize.sh VENV address|thread [PYTEST ARGUMENTS...]
# The compiled core goes into an environment of its own (build/<sanitizer>/env) that borrows everything else from VENV.
# Engines and the interpreter are not instrumented, so only tests of our own code are run. Reports are found by the exit code
# and by their files: pytest may catch what a sanitizer prints.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
sanitizer=$2
shift 2
folder=$PWD/build/$sanitizer
env=$folder/env
reports=$folder/report
tests=(tests/flow tests/unit)
(($#)) && tests=("$@")

library() {
    "${CXX:-g++}" -print-file-name="$1"
}

case $sanitizer in
    address)
        # Without libstdc++ beside it, the preloaded runtime cannot see exceptions that cross into the core.
        preload="$(library libasan.so) $(library libstdc++.so)"
        # Python keeps objects until the process ends: those are no leaks.
        export ASAN_OPTIONS=detect_leaks=0:exitcode=66:log_path=$reports
        ;;
    thread)
        preload=$(library libtsan.so)
        export TSAN_OPTIONS=exitcode=66:second_deadlock_stack=1:log_path=$reports
        ;;
    *)
        printf 'sanitize: %s is neither address nor thread\n' "$sanitizer" >&2
        exit 2
        ;;
esac

# Fixed addresses: older runtimes refuse the layout that a randomising kernel gives them.
fixed() {
    if command -v setarch >/dev/null; then setarch "$(uname -m)" --addr-no-randomize "$@"; else "$@"; fi
}

make_environment() {
    [[ -x $env/bin/python ]] && return
    "$venv/bin/python" -m venv --without-pip "$env"
    "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
        >"$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
}

mkdir -p "$folder"
rm -f "$reports".*
printf '==> C++ tests with -fsanitize=%s\n' "$sanitizer"
tools/build_cpp_tests.sh "$venv" "$folder/cpp" -DHAMI_SANITIZER="$sanitizer"
fixed "$venv/bin/ctest" --test-dir "$folder/cpp" --output-on-failure

printf '==> Python tests with -fsanitize=%s: %s\n' "$sanitizer" "${tests[*]}"
make_environment
PATH="$PWD/$venv/bin:$PATH" "$env/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
    --no-build-isolation --force-reinstall --editable . \
    --config-settings=build-dir="$folder/core" \
    --config-settings=install.strip=false --config-settings=cmake.define.HAMI_SANITIZER="$sanitizer"
# Sanitizers make everything about ten times slower; a time limit meant for plain runs would only cut tests short.
status=0
LD_PRELOAD=$preload fixed "$env/bin/python" -m pytest "${tests[@]}" -p no:cacheprovider --timeout=600 || status=$?

if compgen -G "$reports.*" >/dev/null; then
    printf '==> reports\n'
    cat "$reports".*
    exit 1
fi
((status == 0)) || exit "$status"
printf '==> -fsanitize=%s found nothing\n' "$sanitizer"
