#!/bin/sh
# Installs cc-trace for this user: a Python environment of its own, the `cc-trace` command, and the hook in Claude
# Code's settings; then it sends a sample session through that hook. It asks nothing. `./install.sh --help` says more.
set -eu

usage() {
    cat <<'END'
usage: ./install.sh [--project | --no-hooks]
       ./install.sh --uninstall [--project | --purge]

  --project    register the hook in .claude/settings.json of the current folder, not for the user
  --no-hooks   only the environment and the command: the plugin registers the hooks
  --uninstall  remove what was installed
  --purge      with --uninstall: also the state, the local store, the log and the configuration

PYTHON=/path/to/python3 chooses the Python (3.11 or newer).
END
}

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit "${2:-1}"
}

uninstall='' project='' purge='' hooks=1
for option; do
    case $option in
    --uninstall) uninstall=1 ;;
    --project) project=--project ;;
    --purge) purge=--purge ;;
    --no-hooks) hooks= ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && fail "unknown option $option" 2 ;;
    esac
done
[ -z "$purge" ] || [ -n "$uninstall" ] || fail "--purge needs --uninstall" 2
[ -n "${HOME-}" ] || fail "HOME is not set; set it to your home folder and try again" 2

# Others may read the code but not change it, whatever the caller's umask.
umask 022
# What would lead pip or Python elsewhere; so would the current folder, hence -I below.
unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX
data=${XDG_DATA_HOME:-$HOME/.local/share}/cc-trace
case $data in
/*) ;;
*) data=$PWD/$data ;;
esac
venv=$data/venv
bin=$HOME/.local/bin
source=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

runs() { "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Sets $python to one that is new enough; to nothing if there is none.
find_python() {
    for python in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11; do
        if runs "$python"; then return; fi
        [ "$python" != "${PYTHON-}" ] || fail "PYTHON is $python, which is not Python 3.11 or newer; set PYTHON to another one"
    done
    python=
}

# Makes a folder and those above it, and notes them, so that uninstalling takes away just those.
make_folder() {
    if [ -d "$1" ]; then return; fi
    make_folder "$(dirname -- "$1")"
    mkdir -- "$1" || fail "cannot create the folder $1; make its parent folder writable and try again"
    made="$made$(printf 'folder\t%s' "$1")
"
}

has_pip() { "$venv/bin/python" -I -c 'import pip' 2>/dev/null; }

make_environment() {
    # What an interrupted installation left, or what lost its Python or its uv, is made anew.
    if [ -e "$venv/.complete" ] && runs "$venv/bin/python" && { has_pip || command -v uv >/dev/null; }; then return; fi
    rm -rf -- "$venv"
    find_python
    if [ -n "$python" ] && "$python" -I -c 'import ensurepip, venv' >/dev/null 2>&1; then
        "$python" -I -m venv "$venv" || fail "cannot create an environment in $venv (see above)"
    elif command -v uv >/dev/null; then
        uv venv --quiet --python "${python:->=3.11}" "$venv" || fail "uv cannot create an environment in $venv (see above)"
    elif [ -n "$python" ]; then
        fail "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv) and try again"
    else
        fail "cc-trace needs Python 3.11 or newer, or uv; install one, or run: PYTHON=/path/to/python3 ./install.sh"
    fi
}

install_package() {
    rm -f -- "$venv/.complete"
    # By `.`: pip and uv take some characters in a path for their own.
    (
        cd -- "$source"
        if has_pip; then
            "$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input --upgrade .
        else
            uv pip install --quiet --python "$venv/bin/python" --reinstall-package cc-trace .
        fi
    ) || fail "cannot install the package (see above); is the Python package index reachable?"
    : >"$venv/.complete"
}

# Never over somebody else's file.
link_command() {
    target=$venv/bin/cc-trace
    if [ "$(readlink -- "$bin/cc-trace" 2>/dev/null)" = "$target" ]; then
        :
    elif [ -e "$bin/cc-trace" ] || [ -L "$bin/cc-trace" ]; then
        echo "install.sh: $bin/cc-trace is not ours and was not changed; run $target instead" >&2
        return
    else
        ln -s -- "$target" "$bin/cc-trace"
    fi
    case :$PATH: in
    *:"$bin":*) echo "command   cc-trace" ;;
    *) echo "command   $bin/cc-trace (add $bin to your PATH to call it as cc-trace)" ;;
    esac
}

# Without our environment any Python will do; without a Python, all but the settings can go.
remove() {
    find_python
    if [ -n "$python" ]; then
        export PYTHONPATH="$source" PYTHONDONTWRITEBYTECODE=1
        exec "$python" -P -m cc_trace uninstall $project $purge
    fi
    if [ "$(readlink -- "$bin/cc-trace" 2>/dev/null)" = "$venv/bin/cc-trace" ]; then rm -f -- "$bin/cc-trace"; fi
    rm -rf -- "$venv" "$data/hooks" "$data/installed"
    rmdir -- "$data" 2>/dev/null || :
    fail "environment and hook are removed, but without Python 3.11 settings.json cannot be edited: remove the \
entries that name cc-trace-hook (they do nothing any more)"
}

if [ -n "$uninstall" ]; then
    if [ -x "$venv/bin/python" ] && "$venv/bin/python" -I -c 'import cc_trace.cli.uninstall' 2>/dev/null; then
        exec "$venv/bin/python" -I -m cc_trace uninstall $project $purge
    fi
    remove
fi

made=
make_folder "$data"
make_folder "$bin"
[ -z "$made" ] || printf '%s' "$made" >>"$data/installed"
make_environment
install_package
link_command
if [ -n "$hooks" ]; then
    exec "$venv/bin/python" -I -m cc_trace install $project
fi
exec "$venv/bin/python" -I -c \
    'import os, sys; from cc_trace.cli.install import try_out; sys.exit(try_out(sys.argv[1], os.environ))' \
    "$source/hooks/cc-trace-hook"
