#!/usr/bin/env bash
# Prove the wheels in a folder: tags, symbols, size, and a pipeline in a clean environment of each interpreter.
#
# Usage: check.sh [FOLDER]      (dist); needs the interpreters that build.sh found, and PyPI for lark and typer
# Ends with `wheels: all is well`, or with 1 and what is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
. wheels/environment.sh

folder=${1:-dist}
work=$PWD/build/wheels
most_bytes=$((2 * 1024 * 1024))
make_tools "$work/tools"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    printf 'wheels: %s: %s\n' "$(basename "$1")" "$2" >&2
    exit 1
}

# The name promises a glibc; auditwheel finds the one that the versions of the symbols need.
check_tag() { # WHEEL
    local promised said found
    promised=$(grep -oP 'manylinux_2_\K[0-9]+' <<<"$1") || fail "$1" "its name has no tag of manylinux"
    said=$("$work/tools/bin/python" -m auditwheel show "$1" | tr '\n' ' ')
    found=$(grep -oP 'following platform tag: "manylinux_2_\K[0-9]+' <<<"$said") ||
        fail "$1" "auditwheel finds no tag: $said"
    ((found <= promised)) || fail "$1" "it needs glibc 2.$found, and promises 2.$promised: $said"
}

# A symbol without a version would be taken from whatever library has it. Only Python's own and the linker's may be so.
check_symbols() { # WHEEL CORE
    local foreign
    foreign=$(readelf --dyn-syms --wide "$2" | awk '$7 == "UND" && $8 != "" && $8 !~ /@/ { print $8 }' |
        grep -vE '^(_?Py|__gmon_start__$|_ITM_|__tls_get_addr$)' || true)
    [[ -z $foreign ]] || fail "$1" "foreign symbols without a version: $foreign"
}

check_size() { # WHEEL
    local bytes
    bytes=$(stat -c %s "$1")
    ((bytes < most_bytes)) || fail "$1" "$bytes bytes are more than $most_bytes"
}

# Without numpy and without torch, in no folder that holds the sources.
check_smoke() { # WHEEL PYTHON
    local environment=$scratch/environment script=$PWD/wheels/smoke.py
    "$2" -m venv --clear "$environment"
    "$environment/bin/python" -m pip install -q "$1"
    if "$environment/bin/python" -m pip list 2>/dev/null | grep -qiE '^(numpy|torch) '; then
        fail "$1" "numpy or torch came with it"
    fi
    (cd "$scratch" && "$environment/bin/python" -W error "$script" && "$environment/bin/hami" --version | sed 's/^/    /')
}

# Does pip, told that the system is as old as that, find the wheel in an index?
check_index() {
    local index=$scratch/index/hami-core target=$scratch/target port
    mkdir -p "$index"
    cp "$folder"/hami_core-*.whl "$index"
    "$work/tools/bin/python" -u -m http.server --bind 127.0.0.1 --directory "$scratch/index" 0 \
        >"$scratch/port" 2>"$scratch/served" &
    local server=$!
    until port=$(grep -oE 'port [0-9]+' "$scratch/port"); do kill -0 $server; done
    "$work/tools/bin/python" -m pip install -q hami-core --no-deps --platform manylinux2014_x86_64 \
        --python-version "$1" --only-binary=:all: --target "$target" \
        --index-url "http://127.0.0.1:${port#port }" || fail hami-core "pip finds no wheel for manylinux2014, Python $1"
    kill $server
    grep -q '^Tag: .*manylinux2014_x86_64$' "$target"/hami_core-*.dist-info/WHEEL || fail hami-core "pip took another wheel"
    rm -rf "$target"
}

shopt -s nullglob
wheels=("$folder"/hami_core-*.whl)
((${#wheels[@]})) || fail "$folder" "no wheels: run \`make wheels\`"
mapfile -t pythons < <(find_pythons)
for wheel in "${wheels[@]}"; do
    check_tag "$wheel"
    check_size "$wheel"
    rm -rf "$scratch/content"
    "$work/tools/bin/python" -m wheel unpack --dest "$scratch/content" "$wheel" >/dev/null
    check_symbols "$wheel" "$(echo "$scratch"/content/*/hami/_core*.so)"
    is_run=no
    for python in "${pythons[@]}"; do
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        if [[ $wheel == *-cp${version/./}-* ]]; then
            say "$(basename "$wheel"): $(stat -c %s "$wheel") bytes; in a clean environment:"
            check_smoke "$wheel" "$python"
            if [[ $wheel == *manylinux2014* ]]; then check_index "$version"; fi
            is_run=yes
        fi
    done
    [[ $is_run == yes ]] || fail "$wheel" "no interpreter to run it with"
done
say "all is well"
