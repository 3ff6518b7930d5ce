#!/usr/bin/env bash
# Build the wheels of hami-core for manylinux2014 and manylinux_2_28, one for each CPython, and the sdist, into dist/.
#
# Usage: build.sh [PYTHON...]       else every python3.10 to python3.13 that is found, and python3.13t
# No container: g++ of this system links against stubs of older libraries (stubs.py). check.sh proves the result.
# CMAKE_CXX_COMPILER_LAUNCHER=ccache in the environment saves most of the work of all interpreters but the first.
set -euo pipefail
cd "$(dirname "$0")/.."
. wheels/environment.sh

work=$PWD/build/wheels
mkdir -p "$work" dist
rm -f dist/hami_core-*
make_tools "$work/tools"

declare -A tags=(
    [manylinux2014]=manylinux_2_17_x86_64.manylinux2014_x86_64
    [manylinux_2_28]=manylinux_2_28_x86_64
)

# Same input, same bytes: times are those of the commit, and no path of this machine gets in.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1704067200)
export SOURCE_DATE_EPOCH

make_stubs() { # LEVEL
    local made=$work/stubs/$1/libc.so
    [[ $made -nt wheels/stubs.py && $made -nt wheels/compat/shim.c ]] && return
    say "stubs of the libraries of $1"
    rm -rf "$work/stubs/$1"
    rm -f "$work"/cmake/*/_core*.so # what was linked before must be linked again
    "$work/tools/bin/python" wheels/stubs.py "$1" "$work/stubs/$1"
}

# The levels of one interpreter share a folder of objects: they differ in what is linked.
build_wheel() { # PYTHON LEVEL
    local python=$1 level=$2 environment name
    name=$(tag_of "$python")
    environment=$work/environments/$name
    if [[ ! -f $environment/complete ]]; then
        "$python" -m venv --clear "$environment"
        "$environment/bin/python" -m pip install -q build ninja cmake 'scikit-build-core>=0.11,<2' 'pybind11>=3.0,<4'
        touch "$environment/complete"
    fi
    say "$name for $level"
    rm -rf "$work/raw"
    # Without link-time optimisation: with it all of libstdc++ would be linked statically.
    PATH="$environment/bin:$PATH" "$environment/bin/python" -m build --wheel --no-isolation --outdir "$work/raw" \
        -Cbuild-dir="$work/cmake/$name" \
        -Ccmake.define.CMAKE_CXX_FLAGS="-isystem $PWD/wheels/compat/include -ffunction-sections -fdata-sections \
-ffile-prefix-map=$PWD=hami-core" \
        -Ccmake.define.CMAKE_MODULE_LINKER_FLAGS="-L$work/stubs/$level -Wl,--exclude-libs,ALL -Wl,--gc-sections" \
        -Ccmake.define.CMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF -Ccmake.define.HAMI_WHEEL_LEVEL="$level" \
        >"$work/$name-$level.log" 2>&1 || {
        tail -n 40 "$work/$name-$level.log" >&2
        exit 1
    }
    "$work/tools/bin/python" -m wheel tags --remove --platform-tag "${tags[$level]}" "$work"/raw/*.whl >/dev/null
    mv "$work"/raw/*.whl dist/
}

for level in manylinux2014 manylinux_2_28; do make_stubs "$level"; done
if (($#)); then pythons=("$@"); else mapfile -t pythons < <(find_pythons); fi
for python in "${pythons[@]}"; do
    for level in manylinux2014 manylinux_2_28; do build_wheel "$python" "$level"; done
done
say "the sdist"
"$work/tools/bin/python" -m build --sdist --outdir dist . >"$work/sdist.log" 2>&1 || {
    tail -n 40 "$work/sdist.log" >&2
    exit 1
}
ls -l dist
