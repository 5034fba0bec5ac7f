#!/bin/sh
# Installs cc-trace for this user: a Python environment of its own, the `cc-trace` command, and the hook in Claude
# Code's settings; then it sends a sample session through that hook. It never prompts. See `./install.sh --help`.
set -eu

usage() {
    cat <<'END'
usage: ./install.sh [--project | --no-hooks]
       ./install.sh --uninstall [--project | --purge]

  --project    register the hook in .claude/settings.local.json of the current folder, not for the user
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
[ -z "$project" ] || [ -n "$hooks" ] || fail "--project and --no-hooks exclude each other" 2
[ -n "${HOME-}" ] || fail "HOME is not set; set it to your home folder and try again" 2

# Other users may read the code but not change it, regardless of the caller's umask.
umask 022
# These would redirect pip or Python. So would the current folder, hence -I below.
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

# The Python versions that all dependencies have wheels for. With others they would have to be compiled.
wheels='>=3.11,<3.15'
has_wheels() { "$1" -I -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' >/dev/null 2>&1; }

# Sets $python to the chosen one, else to one with wheels, else to any that is new enough, else to an empty value.
find_python() {
    python=${PYTHON-}
    if [ -n "$python" ]; then
        runs "$python" || fail "PYTHON is $python, which is not Python 3.11 or newer; set PYTHON to another one"
        return
    fi
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        if has_wheels "$python"; then return; fi
    done
    python=python3
    runs "$python" || python=
}

has_uv() { uv --version >/dev/null 2>&1; }

# Prints a text quoted for a shell.
quoted() {
    rest=$1 text=
    while :; do
        case $rest in
        *\'*) text="$text${rest%%\'*}'\\''" rest=${rest#*\'} ;;
        *) break ;;
        esac
    done
    printf "'%s'" "$text$rest"
}

# Files of another user, such as root after an installation with sudo, would make this fail half-way.
check_owner() {
    theirs=$(find "$data" "$bin/cc-trace" ! -user "$(id -u)" 2>/dev/null | head -n 1)
    [ -z "$theirs" ] || fail "$theirs belongs to another user, perhaps from an installation with sudo; run this again \
after: sudo rm -rf $(quoted "$data") $(quoted "$bin/cc-trace")"
}

# Creates a folder and its parents, and records them, so that uninstalling removes only those.
make_folder() {
    if [ -d "$1" ]; then return; fi
    make_folder "$(dirname -- "$1")"
    mkdir -- "$1" || fail "cannot create the folder $1; make its parent folder writable and try again"
    made="$made$(printf 'folder\t%s' "$1")
"
}

has_pip() { "$venv/bin/python" -I -c 'import pip' 2>/dev/null; }

# Whether the environment is usable. If not (an interrupted installation, a missing Python or uv), it is recreated.
is_complete() { [ -e "$venv/.complete" ] && runs "$venv/bin/python" && { has_pip || has_uv; }; }

# Sets $by to the tool that will create the environment. Runs first, so that a missing tool leaves nothing behind.
choose() {
    if is_complete; then return; fi
    find_python
    if [ -n "$python" ] && "$python" -I -c 'import ensurepip, venv' >/dev/null 2>&1 &&
        { [ -n "${PYTHON-}" ] || has_wheels "$python" || ! has_uv; }; then
        by=venv
    elif has_uv; then
        by=uv
        if [ -z "${PYTHON-}" ] && ! has_wheels "$python"; then python=$wheels; fi
    elif [ -n "$python" ]; then
        fail "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv) and try again"
    else
        fail "cc-trace needs Python 3.11 or newer, or uv; install one, or run: PYTHON=/path/to/python3 ./install.sh"
    fi
}

make_environment() {
    [ -n "$by" ] || return 0
    echo "creating  an environment in $venv ($by, Python: $python)"
    rm -rf -- "$venv"
    if [ "$by" = venv ]; then
        "$python" -I -m venv "$venv" || fail "cannot create an environment in $venv (see above)"
    else
        uv venv --quiet --python "$python" "$venv" || fail "uv cannot create an environment in $venv (see above)"
    fi
}

# Without a network, an environment that has this version already will do.
install_package() {
    installed=
    IFS= read -r installed 2>/dev/null <"$venv/.complete" || :
    rm -f -- "$venv/.complete"
    if [ -n "$by" ]; then
        echo "fetching  the packages that cc-trace needs, about 30 MB; this can take a minute or two"
    else
        echo "updating  cc-trace and the packages that it needs"
    fi
    # Installed as `.`, because some characters in a path have a special meaning to pip and uv.
    (
        cd -- "$source"
        if has_pip; then
            "$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input --upgrade .
        else
            uv pip install --quiet --python "$venv/bin/python" --reinstall-package cc-trace .
        fi
    ) || {
        { [ "$installed" = "$(version)" ] && "$venv/bin/python" -I -c 'import cc_trace.cli' >/dev/null 2>&1; } ||
            fail "cannot install the package (see above); is the Python package index reachable?"
        echo "install.sh: cannot update the package (see above); cc-trace $installed, installed before, is kept" >&2
    }
    [ ! -e "$venv/.lock" ] || chmod go-w "$venv/.lock" # uv lets everybody write to it
    version >"$venv/.complete" # the plugin compares it with its own version
}

# Prints the version of this checkout.
version() {
    while IFS= read -r line; do
        case $line in
        '__version__ = "'*'"') line=${line#*\"} && printf '%s\n' "${line%\"}" ;;
        esac
    done <"$source/cc_trace/__init__.py"
}

mark='# The command cc-trace, made by install.sh.'

# Whether the command is our launcher, or the link that earlier versions made.
is_ours() {
    if [ "$(readlink -- "$bin/cc-trace" 2>/dev/null)" = "$venv/bin/cc-trace" ]; then return; fi
    [ -f "$bin/cc-trace" ] || return
    { IFS= read -r line && IFS= read -r line || :; } <"$bin/cc-trace"
    [ "$line" = "$mark" ]
}

launcher() {
    cat <<END
#!/bin/sh
$mark
# Starts cc-trace in its own environment, or explains why it cannot start.
python=$(quoted "$venv/bin/python")
installer=$(quoted "$source/install.sh")
run=$(quoted "sh $(quoted "$source/install.sh")")
END
    cat <<'END'
[ -f "$installer" ] || run="./install.sh in a copy of cc-trace"
again="Nothing is traced until it is installed again, and nothing is lost.
Run: $run
Then: cc-trace sync"
if ! [ -x "$python" ]; then
    printf 'cc-trace: its Python is gone: %s\n%s\n' "$(readlink -- "$python" || printf %s "$python")" "$again" >&2
    exit 1
fi
exec "$python" -E -P -c 'import sys
try:
    from cc_trace.cli import main
except ImportError:
    version = sys.version.split()[0]
    sys.exit(f"cc-trace: its Python is now {version}, which it is not installed for\n{sys.argv[1]}")
del sys.argv[1]
sys.exit(main())' "$again" "$@"
END
}

# Never overwrites a file that is not ours.
make_command() {
    if [ -e "$bin/cc-trace" ] || [ -L "$bin/cc-trace" ]; then
        if ! is_ours; then
            echo "install.sh: $bin/cc-trace was not created by install.sh and was not changed; run $venv/bin/cc-trace instead" >&2
            return
        fi
    fi
    if [ -L "$bin/cc-trace" ] || ! [ -x "$bin/cc-trace" ] || [ "$(launcher)" != "$(cat "$bin/cc-trace")" ]; then
        rm -f -- "$bin/cc-trace"
        { launcher >"$bin/cc-trace" && chmod 755 "$bin/cc-trace"; } ||
            fail "cannot write $bin/cc-trace; make its folder writable and try again"
    fi
    case :$PATH: in
    *:"$bin":*) echo "command   cc-trace" ;;
    *) echo "command   $bin/cc-trace (add $bin to your PATH to run it as cc-trace)" ;;
    esac
}

# Without our environment any Python will do; without a Python everything but the settings is removed.
remove() {
    find_python
    if [ -n "$python" ]; then
        export PYTHONPATH="$source" PYTHONDONTWRITEBYTECODE=1
        exec "$python" -P -m cc_trace uninstall $project $purge
    fi
    if is_ours; then rm -f -- "$bin/cc-trace"; fi
    rm -rf -- "$venv" "$data/hooks" "$data/installed"
    rmdir -- "$data" 2>/dev/null || :
    fail "the environment and the hook were removed, but editing settings.json needs Python 3.11: remove the \
entries that name cc-trace-hook by hand (they no longer do anything)"
}

check_owner
if [ -n "$uninstall" ]; then
    if [ -x "$venv/bin/python" ] && "$venv/bin/python" -I -c 'import cc_trace.cli.uninstall' 2>/dev/null; then
        exec "$venv/bin/python" -I -m cc_trace uninstall $project $purge
    fi
    remove
fi

[ -f "$source/cc_trace/__init__.py" ] || fail "$source is not a copy of cc-trace; run install.sh in a clone of it"
made='' by=''
choose
make_folder "$data"
make_folder "$bin"
[ -z "$made" ] || printf '%s' "$made" >>"$data/installed"
make_environment
install_package
make_command
if [ -n "$hooks" ]; then
    exec "$venv/bin/python" -I -m cc_trace install $project
fi
exec "$venv/bin/python" -I -c \
    'import os, sys; from cc_trace.cli.install import try_out; sys.exit(try_out(sys.argv[1], os.environ))' \
    "$source/hooks/cc-trace-hook"
