#!/usr/bin/env bash
# Check that this machine has what a build needs and install what is missing where that is allowed.
#
# Usage: check_system.sh PYTHON [tests | asan | tsan]
# Needs: Python >= 3.10 and < 3.14 with venv and headers, a C++20 compiler; for tests also doctest's header. As root on
# Debian or Ubuntu, what is missing comes from apt-get; elsewhere the line to run is printed, and the exit status is 1.
set -euo pipefail

python=$1
purpose=${2:-build}
packages=()

has_python_module() {
    "$python" -c "import $1" >/dev/null 2>&1
}

compiles() {
    printf '%s\n' "$1" | "${CXX:-c++}" -std=c++20 -x c++ -fsyntax-only - >/dev/null 2>&1
}

stop() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

check_python() {
    command -v "$python" >/dev/null || stop "there is no \`$python\`; name another with PYTHON=python3.12 make ..."
    local version
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    case $version in
        3.10 | 3.11 | 3.12 | 3.13) ;;
        *) stop "\`$python\` is Python $version; hami needs 3.10, 3.11, 3.12 or 3.13 (PYTHON=python3.12 make ...)" ;;
    esac

    # A Python of the system gets its missing parts from packages named after its version; any other brings them itself.
    local prefix name
    prefix=$("$python" -c 'import sys; print(sys.base_prefix)')
    name=python$version
    has_python_module ensurepip || need_python_part "$prefix" "$name-venv" "the module venv"
    local header
    header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
    [[ -f $header ]] || need_python_part "$prefix" "$name-dev" "the header $header"
}

need_python_part() {
    local prefix=$1 package=$2 part=$3
    [[ $prefix == /usr ]] || stop "\`$python\` (in $prefix) lacks $part; choose a complete Python: PYTHON=... make ..."
    packages+=("$package")
}

check_compiler() {
    # <concepts> and <span> tell a C++20 library, not only a flag that is accepted.
    compiles $'#include <concepts>\n#include <span>\nint main() { return 0; }' && return
    if command -v "${CXX:-c++}" >/dev/null; then
        stop "\`${CXX:-c++}\` cannot compile C++20; install g++ 10 or newer, and name it: CXX=g++-12 make ..."
    fi
    packages+=(g++)
}

check_test_tools() {
    local include
    for include in ${CPATH:+${CPATH//:/ }} /usr/include /usr/local/include; do
        [[ -f $include/doctest/doctest.h ]] && return
    done
    packages+=(doctest-dev)
}

install_packages() {
    ((${#packages[@]})) || return 0
    local install="apt-get install -y --no-install-recommends ${packages[*]}"
    command -v apt-get >/dev/null || stop "missing: ${packages[*]} (names of Debian's packages); install them first"
    if ((EUID)); then
        stop "missing: ${packages[*]}; run this line and try again:
    sudo apt-get update && sudo $install"
    fi
    printf 'setup: installing %s with apt-get\n' "${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # The package lists may be new enough: an update is only the second try.
    $install -qq >/dev/null 2>&1 || { apt-get update -qq && $install -qq >/dev/null; } ||
        stop "apt-get could not install ${packages[*]}"
}

# The tests of the server's page want a browser, and are skipped without one.
install_browser() {
    command -v chromium >/dev/null && return
    ((EUID)) || return 0
    command -v apt-get >/dev/null || return 0
    printf 'setup: installing chromium with apt-get\n'
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -qq chromium >/dev/null 2>&1 ||
        printf 'setup: there is no chromium here: the tests of the page are skipped\n'
}

check_python
check_compiler
[[ $purpose == build ]] || check_test_tools
install_packages
[[ $purpose != tests ]] || install_browser
