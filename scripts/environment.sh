#!/bin/sh
# Makes a Python environment and installs into it: by uv where there is one, else by venv and pip.
#
# usage: scripts/environment.sh FOLDER REQUIREMENT...
#
# PYTHON chooses the Python, 3.11 or newer; else it is the first that is found.
set -eu

fail() {
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    exit 1
}

folder=$1
shift

python=
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done

has_venv() { [ -n "$python" ] && "$python" -I -c 'import ensurepip, venv' >/dev/null 2>&1; }

by_uv() {
    # Up to 3.14: newer ones lack wheels of some dependencies, which would have to be compiled.
    uv venv --quiet --allow-existing --python "${python:->=3.11,<3.15}" "$folder" &&
        uv pip install --quiet --python "$folder/bin/python" "$@"
}

# What lost its Python is made anew.
[ -x "$folder/bin/python" ] || rm -rf -- "$folder"

if { [ -n "$python" ] || [ -z "${PYTHON-}" ]; } && uv --version >/dev/null 2>&1; then
    if by_uv "$@"; then exit; fi
    has_venv || fail "uv failed (see above)"
    echo "uv failed (see above); trying pip" >&2 # whose settings may know an index that uv's do not
    rm -rf -- "$folder"
fi
if [ -z "$python" ]; then
    candidate=${PYTHON:-python3}
    command -v "$candidate" >/dev/null || fail "$candidate not found; install Python 3.11 or newer, or uv"
    fail "$candidate is not Python 3.11 or newer; install one, or uv, or set PYTHON to another one"
fi
has_venv ||
    fail "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv), or uv, and try again"
"$python" -I -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
