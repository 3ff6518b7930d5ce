#!/usr/bin/env bash
# Prove the wheels in a folder: tags, symbols, size, a pipeline in a clean environment of each interpreter, plugins; and
# that the sdist builds.
#
# Usage: check.sh [FOLDER]      (dist); needs the interpreters that build.sh found, and PyPI
# PLUGINS="cp310 cp311" names the interpreters that plugins are tested with (cp311); an empty list tests none.
# Ends with `wheels: all is well`, or with 1 and what is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
. wheels/environment.sh

tree=$PWD
folder=$(cd "${1:-dist}" && pwd)
work=$tree/build/wheels
plugins=${PLUGINS-cp311}
most_bytes=2000000
make_tools "$work/tools"
scratch=$(mktemp -d)
trap 'jobs -p | xargs -r kill; rm -rf "$scratch"' EXIT
environment=$scratch/environment

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

check_size() { # WHEEL
    local bytes
    bytes=$(stat -c %s "$1")
    ((bytes < most_bytes)) || fail "$1" "$bytes bytes are more than $most_bytes"
}

# Without numpy and without torch, in no folder that holds the sources.
check_smoke() { # WHEEL OR SDIST, PYTHON
    "$2" -m venv --clear "$environment"
    # Without pip's cache, which would answer with what an older sdist of that path became.
    (cd "$scratch" && "$environment/bin/python" -m pip install -q --no-cache-dir "$1")
    if "$environment/bin/python" -m pip list 2>/dev/null | grep -qiE '^(numpy|torch) '; then
        fail "$1" "numpy or torch came with it"
    fi
    (
        cd "$scratch"
        "$environment/bin/python" -W error "$tree/wheels/smoke.py" || fail "$1" "smoke.py failed"
        "$environment/bin/python" "$tree/wheels/extras.py" | sed 's/^/    /' || fail "$1" "an extra is not named"
        "$environment/bin/hami" --version | sed 's/^/    /'
    )
}

# Plugins of every compiler, in the environment of check_smoke, whose headers are those of the wheel.
check_plugins() { # WHEEL
    say "$(basename "$1"): plugins of other compilers"
    # Only wheels: for a Python without the GIL the newest numpy may have none, and would be compiled for many minutes.
    "$environment/bin/python" tools/requirements.py dev | grep -E '^(numpy|pytest|pytest-timeout|ziglang|cmake)[<>=]' |
        "$environment/bin/python" -m pip install -q --only-binary :all: -r /dev/stdin
    (
        cd "$scratch"
        HAMI_HOME=$environment PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" -m pytest "$tree/tests/plugin" \
            -c "$tree/pyproject.toml" -p no:cacheprovider -o faulthandler_timeout=0 -q
    ) || fail "$1" "plugins do not work with it"
}

# Does pip, told that the system is as old as that, find the wheel in an index?
check_index() { # VERSION TAG
    local index=$scratch/index/hami-core target=$scratch/target port abi=()
    [[ $2 == *t ]] && abi=(--abi "$2")
    mkdir -p "$index"
    cp "$folder"/hami_core-*.whl "$index"
    "$work/tools/bin/python" -u -m http.server --bind 127.0.0.1 --directory "$scratch/index" 0 \
        >"$scratch/port" 2>"$scratch/served" &
    local server=$!
    until port=$(grep -oE 'port [0-9]+' "$scratch/port"); do kill -0 "$server"; done
    "$work/tools/bin/python" -m pip install -q hami-core --no-deps --platform manylinux2014_x86_64 \
        --python-version "$1" "${abi[@]}" --only-binary=:all: --target "$target" \
        --index-url "http://127.0.0.1:${port#port }" || fail hami-core "pip finds no wheel for manylinux2014, Python $1"
    kill "$server"
    wait "$server" || true
    grep -q '^Tag: .*manylinux2014_x86_64$' "$target"/hami_core-*.dist-info/WHEEL || fail hami-core "pip took another wheel"
    rm -rf "$target"
}

shopt -s nullglob
wheels=("$folder"/hami_core-*.whl)
sdists=("$folder"/hami_core-*.tar.gz)
((${#wheels[@]})) || fail "$folder" "no wheels: run \`make wheels\`"
((${#sdists[@]} == 1)) || fail "$folder" "${#sdists[@]} sdists, and not one"
mapfile -t pythons < <(find_pythons)
for wheel in "${wheels[@]}"; do
    check_tag "$wheel"
    check_size "$wheel"
    rm -rf "$scratch/content"
    "$work/tools/bin/python" -m wheel unpack --dest "$scratch/content" "$wheel" >/dev/null
    "$work/tools/bin/python" wheels/symbols.py "$scratch"/content/*/hami/_core*.so || fail "$wheel" "see above"
    is_run=no
    for python in "${pythons[@]}"; do
        tag=$(tag_of "$python")
        [[ $wheel == *-"$tag"-manylinux* ]] || continue
        say "$(basename "$wheel"): $(stat -c %s "$wheel") bytes; in a clean environment:"
        check_smoke "$wheel" "$python"
        if [[ $wheel == *manylinux2014* ]]; then
            check_index "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "$tag"
        fi
        if [[ " $plugins " == *" $tag "* ]]; then check_plugins "$wheel"; fi
        is_run=yes
    done
    [[ $is_run == yes ]] || fail "$wheel" "no interpreter to run it with"
done
say "$(basename "${sdists[0]}"): pip builds and installs it (some minutes):"
check_smoke "${sdists[0]}" python3
say "all is well"
