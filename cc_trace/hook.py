"""Claude Code's Stop and SessionEnd hook for any system: what stands on stdin is kept, a detached worker is started.

The user waits while this runs: it prints nothing, ends with 0 whatever happens, and imports nothing of the package and
little else. `hooks/cc-trace-hook` is the same in a sixth of the time where there is a shell; what one promises the
other keeps (tests/test_hook.py runs both), the names in the spool folder included.
"""

# Importing pathlib or subprocess takes about as long as starting Python.
# ruff: noqa: PTH103, PTH104, PTH108, PTH110, PTH112, PTH113, PTH114, PTH118, PTH120

from __future__ import annotations

import os
import sys

MAX_BYTES = 16 * 1024 * 1024
# Past its deadline the worker gets this long to end by itself.
GRACE_SECONDS = 2
MAX_SETTINGS_BYTES = 1 << 20
# What the hook itself goes by and a project has no say in; and all XDG_*.
OURS = frozenset(
    {
        "HOME",
        "USERPROFILE",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_REMOTE",
        "CI",
        "CC_TRACE_HOME",
        "CC_TRACE_PYTHON",
        "CC_TRACE_WAIT",
        "CC_TRACE_WAIT_SECONDS",
    }
)
# Of the 60 s that `cc-trace install` asks for; without such a timeout all SessionEnd hooks together have 1.5 s.
SESSION_END_SECONDS = 50
OFF = ("0", "no", "off", "false")
ON = ("1", "true")


def main() -> int:
    """Keep stdin and start the worker; always 0."""
    try:
        environment = _trusted(dict(os.environ))
        state = _state_folder(environment)
        if state and not _off(state, environment):
            spooled = _keep_stdin(os.path.join(state, "spool"))
            if spooled:
                _start_worker(spooled, environment)
    except BaseException:  # noqa: BLE001, S110  a hook that fails shows an error to the user, who can do nothing about it
        pass
    return 0


def _trusted(environment: dict[str, str]) -> dict[str, str]:
    """Leave out what a project sets and has no say in: where home, state and Python are, and how long the user waits.

    The worker does the same with all other variables that are not for a project to set.
    """
    project = environment.get("CLAUDE_PROJECT_DIR")
    if not project:
        return environment
    chosen = {name for name in environment if name in OURS or name.startswith("XDG_")}
    for path in _settings_files(project):
        chosen -= (theirs := _set_by(path, chosen))
        for each in theirs:
            del environment[each]
    if "HOME" not in environment and "HOME" in os.environ and sys.platform != "win32":
        import pwd  # noqa: PLC0415  (only here)

        environment["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
    return environment


def _settings_files(project: str) -> list[str]:
    """Where Claude Code finds a project's variables: also at the root of its repository, or of the main worktree."""
    folders = [project]
    folder = project
    while not os.path.exists(git := os.path.join(folder, ".git")) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    if os.path.exists(git):
        folders.append(folder)
    if os.path.isfile(git):
        try:
            linked = os.path.join(folder, _first_line(git)[len("gitdir:") :].strip())
            common = os.path.join(linked, _first_line(os.path.join(linked, "commondir")))
            folders.append(os.path.dirname(os.path.realpath(common)))
        except (OSError, ValueError):  # it leads nowhere
            pass
    local = [os.path.join(each, ".claude", "settings.local.json") for each in folders]
    return [os.path.join(project, ".claude", "settings.json"), *local]


def _first_line(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        return os.read(descriptor, MAX_SETTINGS_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)


def _set_by(path: str, names: set[str]) -> set[str]:
    """Which of these variables a settings file sets; all, where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except (OSError, ValueError):
        return set(names)
    import json  # noqa: PLC0415  (late: a project may have no settings)
    import stat  # noqa: PLC0415  (the same)

    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SETTINGS_BYTES:
            return set(names)
        data = os.read(descriptor, MAX_SETTINGS_BYTES)
    except OSError:
        return set(names)
    finally:
        os.close(descriptor)
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):  # it may be JSON to Claude Code
        return {name for name in names if f'"{name}"' in text or "\\u" in text}
    env = raw.get("env") if isinstance(raw, dict) else None
    return names & set(env) if isinstance(env, dict) else set()


def _off(state: str, environment: dict[str, str]) -> bool:
    """Whether there is nothing to do, because tracing is off. A session written to meanwhile is noted.

    So it stays out when tracing is on again. Before 2.1 its id is not in the environment: then the worker notes it.
    """
    if environment.get("CC_TRACE_ENABLED", "").lower() not in OFF:
        return False
    noted = os.path.join(state, "off")
    session = environment.get("CLAUDE_CODE_SESSION_ID", "")
    if not os.path.isdir(noted):  # never used: all there is now is history
        return True
    if not session or not session.isascii() or not session.replace("-", "").isalnum():
        return False
    os.close(os.open(os.path.join(noted, session), os.O_WRONLY | os.O_CREAT, 0o600))
    return True


def _state_folder(environment: dict[str, str]) -> str | None:
    """Our own folder; None if nothing names a place."""
    # Claude Code takes Windows' own home folder there, whatever HOME says.
    home = environment.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    if state := environment.get("CC_TRACE_HOME"):
        return state
    if config := environment.get("CLAUDE_CONFIG_DIR") or (home and os.path.join(home, ".claude")):
        return os.path.join(config, "state", "cc-trace")
    return None


def _keep_stdin(spool: str) -> str | None:
    """Write stdin to a file and name it; None if it could not be kept whole."""
    os.umask(0o077)
    if os.path.islink(spool):
        return None
    os.makedirs(spool, exist_ok=True)
    claimed = _claim(spool)
    if claimed is None:
        return None
    name, descriptor = claimed
    try:
        try:
            _copy_stdin(descriptor)
        finally:
            os.close(descriptor)
        os.rename(f"{name}.tmp", f"{name}.json")
    except OSError:
        # Half a payload is worth nothing, and the transcript has it all.
        os.unlink(f"{name}.tmp")
        return None
    return f"{name}.json"


def _claim(spool: str) -> tuple[str, int] | None:
    """Find a name nobody else has, with its .tmp opened for writing.

    Whoever made the .tmp owns the name, and finds no .json or takes the next one: a process id alone returns after a
    while, and containers that share the folder have the same ones.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    for number in range(100):
        name = os.path.join(spool, f"{os.getpid()}-{number}")
        try:
            descriptor = os.open(f"{name}.tmp", flags, 0o600)
        except FileExistsError:
            continue
        if not os.path.lexists(f"{name}.json"):
            return name, descriptor
        os.close(descriptor)
        os.unlink(f"{name}.tmp")
    return None


def _copy_stdin(descriptor: int) -> None:
    left = MAX_BYTES
    while left > 0 and (chunk := os.read(0, min(left, 1 << 20))):
        left -= len(chunk)
        while chunk:
            chunk = chunk[os.write(descriptor, chunk) :]


def _start_worker(spooled: str, environment: dict[str, str]) -> None:
    python = environment.get("CC_TRACE_PYTHON", "")
    if not (os.path.isfile(python) and os.access(python, os.X_OK)):
        python = sys.executable
    # Nothing in the user's project, or on the user's PYTHONPATH, is to be imported instead of ours.
    command = [python, "-E", "-P", "-m", "cc_trace", "sync", "--spooled", spooled]
    ends = _inline(environment) and _is_session_end(spooled)
    # A plugin cannot ask for more time.
    if _inline(environment) and not (ends and environment.get("CLAUDE_PLUGIN_ROOT")):
        seconds = min(_wait_seconds(environment), SESSION_END_SECONDS) if ends else _wait_seconds(environment)
        _run_inline([*command, "--deadline", str(seconds)], environment, seconds + GRACE_SECONDS)
    else:
        _detach(command, environment)


def _inline(environment: dict[str, str]) -> bool:
    """Whether the hook waits for the worker, because the machine may be gone with the turn."""
    wait = environment.get("CC_TRACE_WAIT", "").lower()
    flags = (wait, environment.get("CI", "").lower(), environment.get("CLAUDE_CODE_REMOTE", "").lower())
    return wait not in OFF and any(flag in ON for flag in flags)


def _is_session_end(spooled: str) -> bool:
    with open(spooled, "rb") as file:  # noqa: PTH123
        payload = file.read()
    return any(b'"hook_event_name":' + space + b'"SessionEnd"' in payload for space in (b"", b" "))


def _wait_seconds(environment: dict[str, str]) -> int:
    text = environment.get("CC_TRACE_WAIT_SECONDS", "")
    # The same as in the shell, for which a leading zero would mean octal.
    plain = text.isascii() and text.isdigit() and len(text) <= 5 and not text.startswith("0")  # noqa: PLR2004
    return int(text) if plain else 10


def _run_inline(command: list[str], environment: dict[str, str], timeout_seconds: int) -> None:
    # Late: only this path needs it.
    import subprocess  # noqa: PLC0415

    null = subprocess.DEVNULL
    worker = subprocess.Popen(command, stdin=null, stdout=null, stderr=null, env=environment)  # noqa: S603
    try:
        worker.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


if sys.platform == "win32":

    def _detach(command: list[str], environment: dict[str, str]) -> None:
        import subprocess  # noqa: PLC0415  late, as above

        alone = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        null = subprocess.DEVNULL
        # A job ends all its processes with it. Leaving one can be forbidden; then the worker lives as long as the job.
        for flags in (alone | subprocess.CREATE_BREAKAWAY_FROM_JOB, alone):
            try:
                subprocess.Popen(  # noqa: S603
                    command, stdin=null, stdout=null, stderr=null, env=environment, creationflags=flags
                )
            except PermissionError:
                continue
            return

else:

    def _detach(command: list[str], environment: dict[str, str]) -> None:
        """Fork, leave the session, start the worker, end: so it is no child of a hook that Claude Code may cancel."""
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            os.setsid()
            stdio = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
            os.posix_spawn(command[0], command, environment, file_actions=stdio)
        finally:
            # Nothing of the parent's, such as its buffers, is this child's to flush.
            os._exit(0)


if __name__ == "__main__":
    # Claude Code runs this in the user's project, which -m puts first: a selectors.py there is not subprocess's.
    if not sys.flags.safe_path:
        del sys.path[0]
    # Not sys.exit: tearing the interpreter down takes a quarter of its start, and there is nothing left to write.
    os._exit(main())
