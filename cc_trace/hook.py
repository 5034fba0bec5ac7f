"""Claude Code's Stop and SessionEnd hook for any system: saves stdin to the spool folder and starts a detached worker.

The user waits while this runs: it prints nothing, always exits with 0, and imports nothing from the package and little
else. `hooks/cc-trace-hook` does the same in a sixth of the time on systems with a POSIX shell. Both must behave alike,
including the names in the spool folder; the tests run both.
"""

# Importing pathlib or subprocess takes about as long as starting Python.
# ruff: noqa: PTH103, PTH104, PTH108, PTH110, PTH112, PTH113, PTH114, PTH118, PTH120

from __future__ import annotations

import os
import sys

MAX_BYTES = 16 * 1024 * 1024
# After its deadline the worker gets this long to exit by itself.
GRACE_SECONDS = 2
MAX_SETTINGS_BYTES = 1 << 20
# Variables that the hook itself reads and a project must not set; and all XDG_*.
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
# Of the 60 s timeout that `cc-trace install` sets. Without one, all SessionEnd hooks together have 1.5 s.
SESSION_END_SECONDS = 50
OFF = ("0", "no", "off", "false")
ON = ("1", "true")


def main() -> int:
    """Save stdin and start the worker. Always returns 0."""
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
    """Remove variables that a project must not set: where home, state and Python are, and how long the user waits.

    The worker does the same with all other variables that a project must not set.
    """
    project = environment.get("CLAUDE_PROJECT_DIR")
    if not project:
        return environment
    names = {name for name in environment if name in OURS or name.startswith("XDG_")}
    for path in _settings_files(project):
        names -= (overridden := _set_by(path, names))
        for name in overridden:
            del environment[name]
    if "HOME" not in environment and "HOME" in os.environ and sys.platform != "win32":
        import pwd  # noqa: PLC0415  (only here)

        environment["HOME"] = pwd.getpwuid(os.getuid()).pw_dir
    return environment


def _settings_files(project: str) -> list[str]:
    """Return a project's settings files, including those at its repository's root and the main worktree's."""
    folders = [project]
    folder = project
    while not os.path.exists(git := os.path.join(folder, ".git")) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    if os.path.exists(git):
        folders.append(folder)
    if os.path.isfile(git):
        try:
            git_folder = os.path.join(folder, _first_line(git)[len("gitdir:") :].strip())
            common = os.path.join(git_folder, _first_line(os.path.join(git_folder, "commondir")))
            folders.append(os.path.dirname(os.path.realpath(common)))
        except (OSError, ValueError):  # a broken link or file
            pass
    local = [os.path.join(folder, ".claude", "settings.local.json") for folder in folders]
    return [os.path.join(project, ".claude", "settings.json"), *local]


def _first_line(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        return os.read(descriptor, MAX_SETTINGS_BYTES).decode("utf-8", "replace").strip()
    finally:
        os.close(descriptor)


def _set_by(path: str, names: set[str]) -> set[str]:
    """Return which of these variables a settings file sets; all of them if it cannot be read."""
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
    except (ValueError, RecursionError):  # Claude Code may still accept it
        return {name for name in names if f'"{name}"' in text or "\\u" in text}
    env = raw.get("env") if isinstance(raw, dict) else None
    return names & set(env) if isinstance(env, dict) else set()


def _off(state: str, environment: dict[str, str]) -> bool:
    """Return whether tracing is off and there is nothing to do. The session is recorded as written to while off.

    It then stays suppressed when tracing is on again. Before 2.1 the session's id is not in the environment: then the
    worker records it.
    """
    if environment.get("CC_TRACE_ENABLED", "").lower() not in OFF:
        return False
    off_folder = os.path.join(state, "off")
    session = environment.get("CLAUDE_CODE_SESSION_ID", "")
    if not os.path.isdir(off_folder):  # never used: all existing sessions are history
        return True
    if not session or not session.isascii() or not session.replace("-", "").isalnum():
        return False
    os.close(os.open(os.path.join(off_folder, session), os.O_WRONLY | os.O_CREAT, 0o600))
    return True


def _state_folder(environment: dict[str, str]) -> str | None:
    """Return the state folder, or None if no variable gives its place."""
    # On Windows Claude Code uses the system's home folder, regardless of HOME.
    home = environment.get("USERPROFILE" if sys.platform == "win32" else "HOME")
    if state := environment.get("CC_TRACE_HOME"):
        return state
    if config := environment.get("CLAUDE_CONFIG_DIR") or (home and os.path.join(home, ".claude")):
        return os.path.join(config, "state", "cc-trace")
    return None


def _keep_stdin(spool: str) -> str | None:
    """Write stdin to a file and return its path, or None if it could not be saved completely."""
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
        # Half a payload is useless, and the transcript has everything.
        os.unlink(f"{name}.tmp")
        return None
    return f"{name}.json"


def _claim(spool: str) -> tuple[str, int] | None:
    """Return a unique name, and a descriptor of its new .tmp file.

    The process that creates the .tmp owns the name; if the .json exists, it tries the next one. A process id alone is
    not unique: ids are reused, and containers that share the folder have the same ones.
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
    remaining = MAX_BYTES
    while remaining > 0 and (chunk := os.read(0, min(remaining, 1 << 20))):
        remaining -= len(chunk)
        while chunk:
            chunk = chunk[os.write(descriptor, chunk) :]


def _start_worker(spooled: str, environment: dict[str, str]) -> None:
    python = environment.get("CC_TRACE_PYTHON", "")
    if not (os.path.isfile(python) and os.access(python, os.X_OK)):
        python = sys.executable
    # -E and -P: nothing in the user's project, or on the user's PYTHONPATH, may be imported instead of our modules.
    command = [python, "-E", "-P", "-m", "cc_trace", "sync", "--spooled", spooled]
    ends = _inline(environment) and _is_session_end(spooled)
    # A plugin cannot get a longer timeout.
    if _inline(environment) and not (ends and environment.get("CLAUDE_PLUGIN_ROOT")):
        seconds = min(_wait_seconds(environment), SESSION_END_SECONDS) if ends else _wait_seconds(environment)
        _run_inline([*command, "--deadline", str(seconds)], environment, seconds + GRACE_SECONDS)
    else:
        _detach(command, environment)


def _inline(environment: dict[str, str]) -> bool:
    """Return whether the hook waits for the worker, because the machine may disappear after the turn."""
    wait = environment.get("CC_TRACE_WAIT", "").lower()
    flags = (wait, environment.get("CI", "").lower(), environment.get("CLAUDE_CODE_REMOTE", "").lower())
    return wait not in OFF and any(flag in ON for flag in flags)


def _is_session_end(spooled: str) -> bool:
    with open(spooled, "rb") as file:  # noqa: PTH123
        payload = file.read()
    return any(b'"hook_event_name":' + space + b'"SessionEnd"' in payload for space in (b"", b" "))


def _wait_seconds(environment: dict[str, str]) -> int:
    text = environment.get("CC_TRACE_WAIT_SECONDS", "")
    # As in the shell hook, where a leading zero would mean octal.
    plain = text.isascii() and text.isdigit() and len(text) <= 5 and not text.startswith("0")  # noqa: PLR2004
    return int(text) if plain else 10


def _run_inline(command: list[str], environment: dict[str, str], timeout_seconds: int) -> None:
    # Imported late: only this path needs it.
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

        detached = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        null = subprocess.DEVNULL
        # A job kills its processes when it ends. Breaking away can be forbidden; then the worker dies with the job.
        for flags in (detached | subprocess.CREATE_BREAKAWAY_FROM_JOB, detached):
            try:
                subprocess.Popen(  # noqa: S603
                    command, stdin=null, stdout=null, stderr=null, env=environment, creationflags=flags
                )
            except PermissionError:
                continue
            return

else:

    def _detach(command: list[str], environment: dict[str, str]) -> None:
        """Start the worker from a fork in a new session, so that it survives if Claude Code cancels the hook."""
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            return
        try:
            os.setsid()
            stdio = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
            os.posix_spawn(command[0], command, environment, file_actions=stdio)
        finally:
            # The child must not flush the parent's buffers.
            os._exit(0)


if __name__ == "__main__":
    # Claude Code runs this in the user's project, which -m puts first on sys.path: drop it, as it may have modules.
    if not sys.flags.safe_path:
        del sys.path[0]
    # Not sys.exit: shutting down the interpreter takes a quarter of its start time, and there is nothing left to flush.
    os._exit(main())
