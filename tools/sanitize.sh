#!/usr/bin/env bash
# Run the C++ tests, and the Python tests that stress the core, with a core compiled for a sanitizer of gcc.
#
# Usage: sanitize.sh VENV address|thread [PYTEST ARGUMENTS...]
# Without arguments all of tests/flow and tests/unit is run after the C++ tests, and with `address` tests/plugin.
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
# A limit on the memory of the process hits the sanitizer's own before it hits ours.
unfit=(tests/flow/test_process.py::test_too_many_threads_are_a_build_error)

library() {
    "${CXX:-g++}" -print-file-name="$1"
}

case $sanitizer in
    address)
        (($#)) || tests+=(tests/plugin)
        export PLUGIN_FLAGS=-fsanitize=address
        # Without libstdc++ beside it, the preloaded runtime cannot see exceptions that cross into the core.
        preload="$(library libasan.so) $(library libstdc++.so)"
        # Freed memory is kept back on purpose, to see who still uses it; and in a child of a process with threads the
        # sanitizer's allocator may be locked for good.
        unfit+=(tests/flow/test_memory.py
                tests/flow/test_process.py::test_forks_while_other_threads_call_leave_a_working_child)
        # Python keeps objects until the process ends: those are no leaks.
        export ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=8:exitcode=66:log_path=$reports
        # A test kills workers with the signal of a bad access; a real one ends the process as well, without a report.
        ASAN_OPTIONS+=:handle_segv=0
        ;;
    thread)
        preload=$(library libtsan.so)
        # The sanitizer ends a forked child that starts threads with the numbers of the parent's.
        unfit+=(tests/flow/test_process.py::test_a_child_may_make_pipelines_of_its_own
                tests/flow/test_process.py::test_multiprocessing_works_with_a_pipeline_in_every_process)
        # It keeps memory of its own for what the process does, and holds signals back while a thread waits for one.
        unfit+=(tests/flow/test_memory.py
                tests/flow/test_process_pool_faults.py::test_ctrl_c_of_the_terminal_leaves_the_workers_to_their_parent)
        # Tests of forks start threads in children of processes with threads.
        export TSAN_OPTIONS=exitcode=66:second_deadlock_stack=1:die_after_fork=0:log_path=$reports
        TSAN_OPTIONS+=:suppressions=$PWD/tools/thread_sanitizer.supp:handle_segv=0
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

# An interpreter whose `hami` is this source tree with the instrumented core; all else is borrowed from VENV.
make_environment() {
    [[ -x $env/bin/python ]] || "$venv/bin/python" -m venv --without-pip "$env"
    local site
    site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$venv/bin/python" -c 'import sys; print(*(p for p in sys.path if p.endswith("site-packages")), sep="\n")' \
        >"$site/borrowed.pth"
    # Found before the folder where the tests run, which is the source tree without a core.
    printf '%s\n' "import importlib.machinery as m, sys; sys.meta_path.insert(0, type('Instrumented', (), {'find_spec': \
staticmethod(lambda name, *_, m=m: m.PathFinder.find_spec(name, ['$site']) if name == 'hami' else None)}))" \
        >"$site/instrumented.pth"
    rm -rf "$site/hami"
    cp -rs "$PWD/hami" "$site/hami"
    cp -rs "$PWD/backends" "$site/hami/backends"
    ln -s "$folder"/cpp/_core*.so "$site/hami/"
}

mkdir -p "$folder"
rm -f "$reports".*
printf '==> C++ tests with -fsanitize=%s\n' "$sanitizer"
tools/build_cpp_tests.sh "$venv" "$folder/cpp" -DHAMI_SANITIZER="$sanitizer"
fixed "$venv/bin/ctest" --test-dir "$folder/cpp" --parallel "$(nproc)" --output-on-failure

printf '==> Python tests with -fsanitize=%s: %s\n' "$sanitizer" "${tests[*]}"
cmake --build "$folder/cpp" --target _core
make_environment
# Sanitizers make everything about ten times slower; a time limit meant for plain runs would only cut tests short.
status=0
LD_PRELOAD=$preload fixed "$env/bin/python" -m pytest "${tests[@]}" -p no:cacheprovider --timeout=600 \
    "${unfit[@]/#/--deselect=}" || status=$?

if compgen -G "$reports.*" >/dev/null; then
    printf '==> reports\n'
    cat "$reports".*
    exit 1
fi
((status == 0)) || exit "$status"
printf '==> -fsanitize=%s found nothing\n' "$sanitizer"
