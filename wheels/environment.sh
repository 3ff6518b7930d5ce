# What build.sh and check.sh share; sourced.
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() {
    printf 'wheels: %s\n' "$1"
}

# The tools in an environment of their own: MAKE_TOOLS FOLDER.
make_tools() {
    [[ -f $1/complete ]] && return
    say "tools into $1"
    python3 -m venv --clear "$1"
    # auditwheel judges the tags, ziglang has the names and versions of every glibc
    "$1/bin/python" -m pip install -q 'build>=1.2,<2' 'wheel>=0.45,<1' 'auditwheel>=6,<7' 'ziglang>=0.13,<0.17'
    touch "$1/complete"
}

# Print the interpreters from 3.10 to 3.13 that are found, of each the first, pyenv's as well; 3.13t is the one without a GIL.
find_pythons() {
    local version candidate
    for version in 3.10 3.11 3.12 3.13 3.13t; do
        for candidate in "$(type -P "python$version" || true)" \
            "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"${version%t}".*/bin/python; do
            if [[ -n $candidate ]] && "$candidate" -c \
                "import sys, ensurepip; sys.exit('%d.%d' % sys.version_info[:2] + sys.abiflags != '$version')" 2>/dev/null; then
                "$candidate" -c 'import sys; print(sys.executable)'
                break
            fi
        done
    done
}

# Print how wheels call an interpreter: cp311, cp313t. TAG_OF PYTHON.
tag_of() {
    "$1" -c 'import sys; print("cp%d%d" % sys.version_info[:2] + sys.abiflags)'
}
