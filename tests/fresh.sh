#!/usr/bin/env bash
# The documented commands on a machine that has nothing else: a minimal Debian, an ordinary user, a copy of this checkout.
#
# usage: tests/fresh.sh [--quick] [venv | uv]...
#
#   venv     Debian's python3 and python3-venv
#   uv       Debian's python3 without venv and pip, and uv
#   --quick  all but `make test`
#
# It needs root, debootstrap and a network; for `uv` also uv. How packages are found is taken from this machine as it
# runs: apt's sources, pip's configuration, the variables of pip, uv and proxies, CA certificates. Mounts and processes
# live in namespaces of their own, so they are gone whatever happens to this script.
set -euo pipefail

project=$(cd "$(dirname "$0")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cc-trace/fresh
suite=bookworm

fail() {
    printf 'fresh.sh: %s\n' "$1" >&2
    exit 1
}

step() { printf '%4d s  %s\n' "$((SECONDS - begun))" "$*"; }

# --- The machine, from here to the part that runs in its own namespaces.

quick='' variants=()
inside=
for option; do
    case $option in
    --quick) quick=1 ;;
    --inside) inside=1 ;;
    venv | uv) variants+=("$option") ;;
    *) fail "unknown option $option; it takes --quick, venv and uv" ;;
    esac
done
[ "${#variants[@]}" -gt 0 ] || variants=(venv uv)
[ "$(id -u)" = 0 ] || fail "it makes a root folder with debootstrap, which only root can"
for program in debootstrap unshare chroot; do
    command -v "$program" >/dev/null || fail "$program is missing (on Debian and Ubuntu: apt install debootstrap util-linux)"
done

# The program itself: what is on the PATH may be a script that starts it, of a version manager.
uv_program() {
    local found
    for found in "${UV-}" "$(pyenv which uv 2>/dev/null || :)" "$(type -P uv || :)"; do
        if [ -x "$found" ] && [ "$(head -c 4 "$found" | tail -c 3)" = ELF ]; then
            printf '%s\n' "$found"
            return
        fi
    done
    fail "uv is not found; set UV to its program"
}

mirror() {
    local found
    found=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' \
        /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | head -n 1)
    printf '%s\n' "${found:-http://deb.debian.org/debian}"
}

# A minimal root, unpacked from the cache after the first time.
make_root() {
    mkdir -p "$cache"
    if ! [ -f "$cache/$suite.tar.gz" ]; then
        step "bootstrapping a minimal Debian, once"
        debootstrap --variant=minbase "$suite" "$root" "$(mirror)" >"$cache/debootstrap.log" 2>&1 ||
            fail "debootstrap failed; $cache/debootstrap.log says why"
        tar -C "$root" -czf "$cache/$suite.tar.gz.$$" . && mv "$cache/$suite.tar.gz.$$" "$cache/$suite.tar.gz"
    else
        tar -C "$root" -xzf "$cache/$suite.tar.gz"
    fi
}

# Where packages come from, as this machine has it.
copy_settings() {
    local file
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf; do
        if [ -f "$file" ]; then install -D -m 644 "$file" "$root$file"; fi
    done
    # Under a name that the package ca-certificates does not write to.
    authorities=/etc/ssl/authorities.crt
    install -D -m 644 "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$root$authorities"
    echo "Acquire::https::CaInfo \"$authorities\";" >"$root/etc/apt/apt.conf.d/authorities"
    rm -f "$root/etc/apt/sources.list"
    cp -rL /etc/apt/sources.list.d/. "$root/etc/apt/sources.list.d/" 2>/dev/null || :
    [ ! -f /etc/apt/sources.list ] || cp /etc/apt/sources.list "$root/etc/apt/"
    for file in $(grep -l '^Acquire' /etc/apt/apt.conf.d/* 2>/dev/null); do cp "$file" "$root/etc/apt/apt.conf.d/"; done
    # Folders of packages on this machine are not there; indexes by address are.
    env | grep -E '^(PIP_(INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT|TRUSTED_HOST)|UV_[A-Z_]*(INDEX|TLS)[A-Z_]*|(HTTP|HTTPS|NO|ALL)_PROXY|(http|https|no|all)_proxy)=' \
        >"$root/settings" || :
    printf '%s=%s\n' PIP_CERT "$authorities" SSL_CERT_FILE "$authorities" REQUESTS_CA_BUNDLE "$authorities" >>"$root/settings"
}

copy_project() {
    mkdir -p "$root/home/dev/cc-trace"
    (cd "$project" && git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        if [ -e "$file" ]; then printf '%s\0' "$file"; fi
    done | tar --null -T - -cf -) | tar -C "$root/home/dev/cc-trace" -xf -
}

in_root() {
    local settings
    mapfile -t settings <"$root/settings"
    chroot "$root" /usr/bin/env -i "${settings[@]}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive HOME=/root "$@"
}

apt() { in_root apt-get -qq -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1 || fail "apt-get $* failed; see $log"; }

# A command of the user, in the checkout. It has no more than a new account has.
user() {
    local settings
    mapfile -t settings <"$root/settings"
    chroot --userspec=dev:dev --groups='' "$root" /usr/bin/env -i "${settings[@]}" HOME=/home/dev USER=dev LOGNAME=dev \
        PATH=/home/dev/.local/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 "${extra[@]}" \
        /bin/sh -c 'cd /home/dev/cc-trace && eval "$1"' sh "$1"
}
extra=()

# Runs a command of the user; what it printed is in $said. It must end with the given code.
expect() {
    local code=0
    printf '$ %s\n' "$2" >>"$log"
    said=$(user "$2" 2>&1 | tee -a "$log") || code=$?
    [ "$code" = "$1" ] || fail "$2 ended with $code, not $1: $said"
    case $said in *Traceback*) fail "$2 ended with a traceback: $said" ;; esac
}

says() { case $said in *"$1"*) ;; *) fail "this does not say '$1': $said" ;; esac }
says_not() { case $said in *"$1"*) fail "this says '$1': $said" ;; esac }
one_line() { [ "$(printf '%s\n' "$said" | wc -l)" = 1 ] || fail "this is more than one line: $said"; }

home_is_empty() {
    local left
    left=$(cd "$root/home/dev" && find . -mindepth 1 ! -path './cc-trace*' ! -path './.cache*' ! -name '.bash*' ! -name .profile |
        grep -vE '^\./(\.local|\.local/bin|\.claude)$' || :)
    [ -z "$left" ] || fail "this is left after $1: $left"
}

# --- What is shown

without_python() {
    expect 2 'make test'
    says "python3 not found; install Python 3.11 or newer, or uv"
    expect 1 './install.sh'
    says "cc-trace needs Python 3.11 or newer, or uv"
    one_line
    home_is_empty "an installation without Python"
}

without_venv() {
    expect 1 './install.sh'
    says "python3 has no venv module; install it (on Debian and Ubuntu: apt install python3-venv)"
    one_line
    home_is_empty "an installation without python3-venv"
    expect 2 'make test'
    says "apt install python3-venv"
}

# Bytes that this machine has received.
received() { awk 'NR > 2 { sub(/:/, " "); if ($1 != "lo") sum += $2 } END { printf "%.0f", sum }' /proc/net/dev; }

installs() {
    local before=$SECONDS bytes
    bytes=$(received)
    expect 0 './install.sh'
    says "creating  an environment in /home/dev/.local/share/cc-trace/venv ($variant, Python: python3"
    says "fetching  the packages that cc-trace needs"
    says "command   cc-trace"
    says "registered for Stop and SessionEnd"
    says "It works: new sessions are now traced."
    step "installed in $((SECONDS - before)) s; the environment has $(du -sm "$root/home/dev/.local/share/cc-trace/venv" | cut -f 1) MB," \
        "at most $((($(received) - bytes) / 1000000)) MB came from the network"
    expect 0 'cc-trace doctor'
    expect 0 'cc-trace show cc_trace/sample/*.jsonl'
    says "Turn 1"
}

# A session through the registered hook, as Claude Code runs it.
traces() {
    expect 0 'mkdir -p ~/.claude/projects && cp -r cc_trace/sample ~/.claude/projects/-home-dev-project &&
        printf "{\"hook_event_name\":\"SessionEnd\",\"transcript_path\":\"%s\"}" ~/.claude/projects/-home-dev-project/*.jsonl |
        CC_TRACE_WAIT=1 CC_TRACE_WAIT_SECONDS=60 sh -c "$(python3 -c "
import json, os
print(json.load(open(os.path.expanduser(\"~/.claude/settings.json\")))[\"hooks\"][\"SessionEnd\"][0][\"hooks\"][0][\"command\"])")"'
    rm -r "$root/home/dev/.claude/projects"
    expect 0 'cc-trace show 5a111e00-0000-4000-8000-000000000001'
    says "Turn 1"
}

# Every command where texts are not UTF-8, and in a narrow terminal.
other_locales() {
    apt install --no-install-recommends locales
    in_root localedef -i en_US -f ISO-8859-1 en_US.ISO-8859-1 >>"$log" 2>&1
    in_root localedef -i ja_JP -f EUC-JP ja_JP.EUC-JP >>"$log" 2>&1
    local locale command
    for locale in en_US.ISO-8859-1 ja_JP.EUC-JP C; do
        extra=(LC_ALL=$locale COLUMNS=60 PYTHONWARNDEFAULTENCODING=)
        for command in '--help' 'doctor' 'config' 'status' 'show cc_trace/sample/*.jsonl' 'sync' \
            'preview cc_trace/sample/*.jsonl' 'report cc_trace/sample/*.jsonl' 'backfill --dry-run' 'install'; do
            expect 0 "cc-trace $command"
        done
    done
    extra=()
}

# Python removed, then upgraded in place: the command says what happened, and the next one that runs what the hook noted.
python_changes() {
    local hook='echo "{}" | ~/.local/share/cc-trace/hooks/cc-trace-hook'
    local venv=$root/home/dev/.local/share/cc-trace/venv
    local python
    python=$(readlink "$venv/bin/python")
    expect 0 "ln -sfn /usr/bin/python9 ~/.local/share/cc-trace/venv/bin/python"
    expect 1 'cc-trace doctor'
    says "cc-trace: its Python is gone: /usr/bin/python9"
    says "Run: sh '/home/dev/cc-trace/install.sh'"
    expect 0 "$hook"
    expect 0 "ln -sfn $python ~/.local/share/cc-trace/venv/bin/python"
    expect 0 'cc-trace status'
    says "could not start"
    mv "$venv/lib/python3.11" "$venv/lib/python3.10" # which is what another version of Python finds
    expect 1 'cc-trace status'
    says "cc-trace: its Python is now 3.11"
    rm "$root/home/dev/.claude/state/cc-trace/stopped"
    expect 0 "export CC_TRACE_WAIT=1; $hook"
    mv "$venv/lib/python3.10" "$venv/lib/python3.11"
    expect 0 'cc-trace status'
    says "could not start"
    expect 0 "ln -sfn /usr/bin/python9 ~/.local/share/cc-trace/venv/bin/python"
    expect 0 './install.sh'
    expect 0 'cc-trace status'
    says_not "could not start"
}

other_users_files() {
    chown -R root: "$root/home/dev/.local/share/cc-trace"
    expect 1 './install.sh'
    says "belongs to another user, perhaps from an installation with sudo; run this again after: sudo rm -rf"
    one_line
    chown -R dev: "$root/home/dev/.local/share/cc-trace" 2>/dev/null ||
        in_root chown -R dev: /home/dev/.local/share/cc-trace
}

uninstalls() {
    expect 0 './install.sh --uninstall'
    [ -f "$root/home/dev/.claude/state/cc-trace/traces.db" ] || fail "uninstalling removed the local store"
    expect 0 './install.sh --uninstall --purge'
    home_is_empty "--uninstall, then --uninstall --purge"
    expect 0 './install.sh --no-hooks'
    says "The hook works. To register it, enable the plugin"
    says_not "now traced"
    expect 0 './install.sh --uninstall --purge'
    home_is_empty "--no-hooks and --uninstall --purge"
}

# What is printed is run as it stands, and all of it is removed.
throw_away() {
    expect 2 'uv tool run --quiet --from . cc-trace install'
    says "runs in a temporary environment"
    local command
    command=$(printf '%s\n' "$said" | sed -n 's/.*permanently: \(uv tool install .*\), then run: cc-trace install$/\1/p')
    [ "$command" = "uv tool install /home/dev/cc-trace" ] || fail "this has no command that installs it: $said"
    rm -r "$root/home/dev/.local" # uv's own
    home_is_empty "an installation that was refused"
    expect 0 "$command"
    expect 0 'cc-trace install'
    says "It works: new sessions are now traced."
    expect 0 'cc-trace uninstall --purge'
    expect 0 'uv tool uninstall cc-trace'
    rm -r "$root/home/dev/.local" # uv's own
    home_is_empty "an installation by uv"
}

# What is printed where gRPC is missing is run as it stands.
grpc() {
    expect 1 'CC_TRACE_OTLP_ENDPOINT=http://127.0.0.1:9 CC_TRACE_OTLP_PROTOCOL=grpc CC_TRACE_TIMEOUT_SECONDS=1 cc-trace doctor'
    local fix
    fix=$(printf '%s\n' "$said" | sed -n 's/.*run: \(.* install .*grpcio.*\)$/\1/p' | head -n 1)
    [ -n "$fix" ] || fail "this has no command that installs grpcio: $said"
    case $fix in *cc-trace\[*) fail "this installs a package of that name from an index: $fix" ;; esac
    expect 0 "$fix"
    expect 1 'CC_TRACE_OTLP_ENDPOINT=http://127.0.0.1:9 CC_TRACE_OTLP_PROTOCOL=grpc CC_TRACE_TIMEOUT_SECONDS=1 cc-trace doctor'
    says_not "grpcio"
}

make_test() {
    [ -z "$quick" ] || return 0
    local before=$SECONDS
    expect 0 'make test'
    says_not "rotel does not start"
    step "make test passed in $((SECONDS - before)) s: $(printf '%s\n' "$said" | tail -n 1)"
}

show() {
    step "$variant: a minimal Debian and a user"
    make_root
    copy_settings
    copy_project
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    ln -sfn pts/ptmx "$root/dev/ptmx"
    in_root useradd --no-create-home --shell /bin/bash dev
    in_root chown -R dev: /home/dev
    apt update
    apt install --no-install-recommends make git
    step "nothing but make and git"
    without_python
    apt install --no-install-recommends python3
    if [ "$variant" = uv ]; then
        install -m 755 "$uv" "$root/usr/local/bin/uv"
        throw_away
    else
        without_venv
        apt install --no-install-recommends python3-venv
    fi
    step "python3 and $variant: ./install.sh, cc-trace doctor"
    installs
    traces
    step "a Python that goes and changes, files of root, other locales"
    python_changes
    other_users_files
    other_locales
    grpc
    uninstalls
    step "make test"
    make_test
    step "$variant: passed"
}

if [ -n "$inside" ]; then
    variant=${variants[0]} root=$CC_TRACE_FRESH_ROOT log=$CC_TRACE_FRESH_LOG uv=${CC_TRACE_FRESH_UV-} begun=$SECONDS
    show
    exit
fi
# Where bash gives up on a function it goes on here.
[ -z "${CC_TRACE_FRESH_ROOT-}" ] || fail "$variants was broken off (see above)"

folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
trap 'exit 130' INT TERM
for variant in "${variants[@]}"; do
    mkdir -p "$folder/$variant" "$cache"
    log=$cache/$variant.log
    : >"$log"
    uv=
    [ "$variant" != uv ] || uv=$(uv_program)
    CC_TRACE_FRESH_ROOT=$folder/$variant CC_TRACE_FRESH_LOG=$log CC_TRACE_FRESH_UV=$uv \
        unshare --mount --pid --fork --kill-child -- "$0" --inside ${quick:+--quick} "$variant" ||
        fail "$variant failed (see above); $log has all that was printed"
done
