#!/bin/sh
# Installs the `cc-trace` command for this user: an isolated environment, and a link on the usual path.
# Nothing else is touched. `./install.sh --uninstall` takes both away again.
set -eu

data=${XDG_DATA_HOME:-$HOME/.local/share}/cc-trace
bin=$HOME/.local/bin
source=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

case ${1-} in
--uninstall)
    rm -rf -- "$data/venv"
    rmdir -- "$data" 2>/dev/null || :
    if [ -L "$bin/cc-trace" ]; then rm -f -- "$bin/cc-trace"; fi
    echo "cc-trace is uninstalled"
    exit 0
    ;;
'') ;;
*)
    echo "install.sh: unknown option $1; the only one is --uninstall" >&2
    exit 2
    ;;
esac

python=
for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "install.sh: Python 3.11 or newer is needed; install it, or name one: PYTHON=/path/to/python3 ./install.sh" >&2
    exit 1
fi

"$python" -m venv "$data/venv"
"$data/venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "$source"
mkdir -p -- "$bin"
ln -sf -- "$data/venv/bin/cc-trace" "$bin/cc-trace"
"$bin/cc-trace" --version
case :$PATH: in
*:"$bin":*) ;;
*) echo "add $bin to your PATH to call it as cc-trace" ;;
esac
