#!/usr/bin/env bash
# Make or refresh the environment that every other target uses: dependencies, then the project itself, editable.
#
# Usage: setup.sh VENV PYTHON
# Does nothing when nothing changed: one stamp covers the requirements, a second the sources of the compiled core.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
python=$2
log=build/setup.log
peer_reader=rapidocr-onnxruntime==1.4.4 # the OCR example is compared with it, and takes its models
language_model=SmolLM2-135M-Instruct.Q4_1.gguf # the tests and benchmarks of language models run it
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() {
    printf 'setup: %s\n' "$1"
}

# Run pip with the whole output in the log and the lines that show progress on the terminal.
run_pip() {
    if ! "$venv/bin/python" -m pip "$@" 2>&1 | tee -a "$log" |
        { grep --line-buffered -E '^ +(Downloading|\[[0-9]+/[0-9]+\])|^(Installing|ERROR)' || true; }; then
        say "pip failed; the end of $log:" >&2
        tail -n 40 "$log" >&2
        exit 1
    fi
}

digest() {
    sha256sum | cut -d ' ' -f 1
}

is_stamped() {
    [[ -f $venv/$1.stamp && $(<"$venv/$1.stamp") == "$2" ]]
}

make_environment() {
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 && return
    say "making the environment $venv for $("$python" --version)"
    "$python" -m venv --clear "$venv"
}

install_requirements() {
    local list digest_now
    list=$("$venv/bin/python" tools/requirements.py dev)
    digest_now=$(printf '%s\n' "$list" "$peer_reader" "$("$venv/bin/python" --version)" | digest)
    is_stamped requirements "$digest_now" && return
    say "installing $(wc -l <<<"$list") requirements and what they need from PyPI (some minutes the first time)"
    run_pip install -r /dev/stdin <<<"$list"
    if "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info >= (3, 13))'; then
        run_pip install --no-deps "$peer_reader"
    else
        say "skipping $peer_reader: it is not published for Python 3.13 and newer"
    fi
    printf '%s' "$digest_now" >"$venv/requirements.stamp"
}

# What decides whether the core must be compiled again: the contents of its sources, and the names of the Python files.
sources_digest() {
    {
        find pyproject.toml CMakeLists.txt csrc backends \
            \( -name '*.cc' -o -name '*.h' -o -name 'CMakeLists.txt' -o -name '*.cmake' -o -name '*.toml' \) \
            -type f -print0 | sort -z | xargs -0 sha256sum
        find hami backends -name '*.py' -o -name '*.pyi' -o -name '*.lark' | sort
        "$venv/bin/python" --version
        pwd
    } | digest
}

build_core() {
    local digest_now
    digest_now=$(sources_digest)
    is_stamped core "$digest_now" && "$venv/bin/python" -c 'import hami._core' 2>/dev/null && return
    say "compiling the core and installing the project (a minute or two the first time)"
    PATH="$PWD/$venv/bin:$PATH" run_pip install --verbose --no-build-isolation --no-deps --editable .
    printf '%s' "$digest_now" >"$venv/core.stamp"
}

# Into examples/models; SMOLLM2_GGUF names another place of the file.
fetch_language_model() {
    [[ -n ${SMOLLM2_GGUF:-} && -f $SMOLLM2_GGUF ]] && return
    say "fetching $language_model, unless it is there (93 MB)"
    "$venv/bin/python" examples/fetch_models.py "$language_model"
}

started=$SECONDS
mkdir -p build
: >"$log"
tools/check_system.sh "$python" build
make_environment
install_requirements
build_core
fetch_language_model
say "$venv is ready ($((SECONDS - started)) s)"
