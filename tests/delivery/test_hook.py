"""The shell script, under every installed shell, and the Python module behave the same as hooks.

They run as processes, in a home folder with an awkward name, with a worker that writes down how it was started and
then stays until it is told to end: no test leaves a process behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from shared import ROOT

from cc_trace.hook import _trusted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    # Variables to set or, with None, to leave out.
    Changes = Mapping[str, str | None]

T = TypeVar("T")
NONE: Changes = {}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the worker of these tests is a shell script")

SCRIPT = ROOT / "hooks" / "cc-trace-hook"
SHELLS = {
    "sh": [str(SCRIPT)],
    "dash": ["dash", str(SCRIPT)],
    "bash": ["bash", "--posix", str(SCRIPT)],
    "busybox": ["busybox", "sh", str(SCRIPT)],
}
PYTHON = {"python": [sys.executable, "-m", "cc_trace.hook"]}
LIMIT = 16 * 1024 * 1024
# All that is no ordinary character, once: a name taken apart by a shell shows itself.
AWKWARD = "a b  'c\" $HOME `d` \\e * ünï ☃\nnext;"
PAYLOAD = b'{"session_id": "s-5ec2e7", "text": "\xc3\xbc \xe2\x98\x83 \\u0000"}\n\x00\xff\r\n\n'

WORKER = """
import json, os, pathlib, sys, time
records = pathlib.Path(os.environ["RECORDS"])
def is_null(fd):
    try:
        return os.fstat(fd).st_rdev == os.stat(os.devnull).st_rdev
    except OSError:
        return False
record = {"python": sys.argv[1], "argv": sys.argv[2:], "pid": os.getpid(), "parent": os.getppid(),
          "null": [is_null(fd) for fd in range(3)], "environment": dict(os.environ)}
part = records / f"{os.getpid()}.part"
part.write_text(json.dumps(record))
part.rename(part.with_suffix(".started"))
print("noise", file=sys.stdout), print("noise", file=sys.stderr)
# Where there is no setsid command, leaving the hook's group is the worker's part.
if os.environ["MODE"] == "hold":
    if os.getsid(0) != os.getpid() and not os.environ["SETSID"]:
        os.setsid()
    patience = time.monotonic() + 60
    while not (records / "stop").exists() and time.monotonic() < patience:
        time.sleep(0.01)
(records / f"{os.getpid()}.ended").touch()
sys.exit(os.environ["MODE"] == "fail")
"""


def eventually(found: Callable[[], T | None], what: str) -> T:
    """Return what `found` returns, as soon as it is not empty."""
    patience = time.monotonic() + 20
    while time.monotonic() < patience:
        if result := found():
            return result
        time.sleep(0.005)
    pytest.fail(f"waited in vain for {what}")


@dataclass(frozen=True, slots=True)
class HookHome:
    """A home folder, and what the hook and its worker did in it."""

    folder: Path
    records: Path
    environment: dict[str, str]
    hooks: list[subprocess.Popen[bytes]]

    @property
    def state(self) -> Path:
        """The default state folder."""
        return self.folder / ".claude" / "state" / "cc-trace"

    def start(self, hook: list[str], prelude: str = ":", changes: Changes = NONE) -> subprocess.Popen[bytes]:
        """Start the hook with changed variables (None: unset), after some shell commands in the same process."""
        merged = {**self.environment, **changes}
        environment = {name: value for name, value in merged.items() if value is not None}
        command = ["/bin/sh", "-c", f'{prelude}; exec "$@"', "sh", shutil.which(hook[0]) or hook[0], *hook[1:]]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=self.folder)
        self.hooks.append(process)
        return process

    def run(self, hook: list[str], payload: bytes = PAYLOAD, prelude: str = ":", changes: Changes = NONE) -> int:
        """Run the hook to its end, which must be silent with 0; return the process id it had."""
        process = self.start(hook, prelude, changes)
        out, err = process.communicate(payload, timeout=30)
        assert (process.returncode, out, err) == (0, b"", b"")
        return process.pid

    def workers(self, count: int = 1) -> list[dict[str, Any]]:
        """Return how the workers were started, once there are so many."""

        def found() -> list[dict[str, Any]] | None:
            files = list(self.records.glob("*.started"))
            return [json.loads(file.read_text()) for file in files] if len(files) >= count else None

        return eventually(found, f"{count} workers")

    def running(self) -> set[str]:
        """The process ids of the workers that have not ended."""
        return {file.stem for file in self.records.glob("*.started")} - {
            file.stem for file in self.records.glob("*.ended")
        }

    def end_workers(self) -> None:
        """Tell the workers to end, and wait until they have."""
        (self.records / "stop").touch()
        eventually(lambda: not self.running(), "the end of the workers")

    def kept(self, state: Path | None = None, count: int = 1) -> list[Path]:
        """Return the spool's files, once there are so many and none is being written."""

        def found() -> list[Path] | None:
            files = list(((state or self.state) / "spool").iterdir())
            return files if len(files) >= count and all(file.suffix == ".json" for file in files) else None

        return eventually(found, f"{count} spooled files")

    def nothing_happened(self) -> bool:
        """Return whether there is no file and no worker, also a moment later."""
        time.sleep(0.2)
        spool = self.state / "spool"
        return not list(self.records.iterdir()) and not (spool.exists() and list(spool.iterdir()))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HookHome]:
    folder, records = tmp_path / AWKWARD, tmp_path / "records"
    folder.mkdir()
    records.mkdir()
    (tmp_path / "worker.py").write_text(WORKER)
    environment = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "CC_TRACE_PYTHON": str(fake_python(tmp_path / "python of choice")),
        "RECORDS": str(records),
        "MODE": "hold",
        "SETSID": shutil.which("setsid") or "",
    }
    home = HookHome(folder, records, environment, [])
    yield home
    for process in home.hooks:
        if process.poll() is None:
            process.kill()
            process.communicate()
    (records / "stop").touch()
    eventually(lambda: not any(exists(int(name)) for name in home.running()), "the end of the workers")


def fake_python(path: Path) -> Path:
    """An interpreter that runs WORKER for every module, and can import anything."""
    path.parent.mkdir(parents=True, exist_ok=True)
    worker = next(folder / "worker.py" for folder in path.parents if (folder / "worker.py").exists())
    run = f'exec {shlex.quote(sys.executable)} {shlex.quote(str(worker))} "$0" "$@"'
    path.write_text(f'#!/bin/sh\n[ "$3" = -c ] || {run}\n')
    path.chmod(0o755)
    return path


def feed(process: subprocess.Popen[bytes], payload: bytes) -> None:
    """Write all of the hook's stdin, without waiting for its end."""
    assert process.stdin
    process.stdin.write(payload)
    process.stdin.close()
    process.stdin = None


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def each(*groups: dict[str, list[str]]) -> pytest.MarkDecorator:
    """A parameter for every hook whose shell is installed."""
    return pytest.mark.parametrize(
        "hook",
        [
            pytest.param(
                command,
                id=name,
                marks=pytest.mark.skipif(not shutil.which(command[0]), reason=f"{command[0]} is not installed"),
            )
            for group in groups
            for name, command in group.items()
        ],
    )


both = each(SHELLS, PYTHON)


@both
def test_hook_spools_payload_and_detaches_worker(hook: list[str], home: HookHome) -> None:
    pid = home.run(hook)
    [worker] = home.workers()
    [file] = home.kept()
    assert file.read_bytes() == PAYLOAD
    assert worker["argv"] == ["-E", "-P", "-m", "cc_trace", "sync", "--spooled", str(file)]
    assert worker["null"] == [True, True, True]
    assert worker["parent"] != pid
    assert home.running() == {str(worker["pid"])}
    assert "s-5ec2e7" not in json.dumps(worker)


@both
def test_worker_survives_kill_of_hook_process_group(hook: list[str], home: HookHome) -> None:
    pid = home.run([sys.executable, "-c", "import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])", *hook])
    home.workers()
    with contextlib.suppress(ProcessLookupError):  # nobody is left in it
        os.killpg(pid, signal.SIGKILL)
    home.end_workers()


@both
def test_partial_payload_is_not_visible(hook: list[str], home: HookHome) -> None:
    process = home.start(hook)
    assert process.stdin
    process.stdin.write(PAYLOAD)
    process.stdin.flush()
    eventually(lambda: [*(home.state / "spool").glob("*.tmp")] if home.state.exists() else None, "the first half")
    assert list((home.state / "spool").glob("*.json")) == []
    assert process.communicate(PAYLOAD, timeout=30) == (b"", b"")
    [file] = home.kept()
    assert file.read_bytes() == PAYLOAD * 2


@both
def test_spool_modes_are_private_under_umask_0(hook: list[str], home: HookHome) -> None:
    home.run(hook, prelude="umask 0")
    [file] = home.kept()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    spool = file.parent
    folders = [spool, spool.parent, spool.parent.parent, spool.parent.parent.parent]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 4


@both
def test_state_folder_is_taken_from_environment(hook: list[str], home: HookHome) -> None:
    config, own = home.folder / "config", home.folder / "own"
    home.run(hook, changes={"CLAUDE_CONFIG_DIR": str(config)})
    home.kept(config / "state" / "cc-trace")
    home.run(hook, changes={"CLAUDE_CONFIG_DIR": str(config / "unused"), "CC_TRACE_HOME": str(own)})
    home.kept(own)
    home.run(hook, changes={"CC_TRACE_HOME": "-n"})
    home.kept(home.folder / "-n")
    home.run(hook, changes={"CLAUDE_CONFIG_DIR": "", "CC_TRACE_HOME": ""})
    home.kept()


@both
@pytest.mark.parametrize("payload", [b"", b"{", b"\xff" * 70_000], ids=["empty", "broken", "binary"])
def test_any_payload_is_spooled(hook: list[str], home: HookHome, payload: bytes) -> None:
    home.run(hook, payload)
    [file] = home.kept()
    assert file.read_bytes() == payload
    home.workers()


@both
def test_huge_payload_is_truncated(hook: list[str], home: HookHome) -> None:
    payload = (bytes(range(256)) + b"odd") * 400_000  # 100 MB
    home.run(hook, payload)
    [file] = home.kept()
    assert file.read_bytes() == payload[:LIMIT]


@both
@pytest.mark.parametrize(
    "changes",
    [
        {"PATH": None},
        {"PATH": ""},
        {"IFS": "/.-", "CDPATH": "/", "ENV": "/nonexistent", "PS4": "$(echo)", "LC_ALL": "C"},
        {"XDG_DATA_HOME": "*", "CLAUDE_PROJECT_DIR": "\n", "CC_TRACE_WAIT": "*", "CC_TRACE_ENABLED": "[", "CI": "?"},
        {"PYTHONPATH": "nowhere:", "CC_TRACE_WAIT_SECONDS": "a[$(echo)]"},
    ],
    ids=str,
)
def test_unusual_environment_starts_same_worker(hook: list[str], home: HookHome, changes: Changes) -> None:
    home.run(hook, changes=changes)
    [worker] = home.workers()
    [file] = home.kept()
    assert worker["argv"] == ["-E", "-P", "-m", "cc_trace", "sync", "--spooled", str(file)]


@both
def test_hook_does_nothing_without_state_folder_or_when_disabled(hook: list[str], home: HookHome) -> None:
    for value in (None, ""):
        home.run(hook, changes={"HOME": value})
    for state in ("/dev/null/x", "x" * 5000):
        home.run(hook, changes={"CC_TRACE_HOME": state})
    for word in ("false", "0", "no", "off", "False", "OFF"):
        home.run(hook, changes={"CC_TRACE_ENABLED": word})
    assert home.nothing_happened()
    assert list(home.folder.iterdir()) == []


@both
def test_disabled_hook_marks_session_suppressed(hook: list[str], home: HookHome) -> None:
    """By CLAUDE_CODE_SESSION_ID; without a valid one, the payload is spooled for a worker to do it."""
    off = home.folder / ".claude" / "state" / "cc-trace" / "off"
    off.mkdir(parents=True)
    home.run(hook, changes={"CC_TRACE_ENABLED": "false", "CLAUDE_CODE_SESSION_ID": "a-1"})
    home.run(hook, changes={"CC_TRACE_ENABLED": "off", "CLAUDE_CODE_SESSION_ID": "a-1"})
    assert home.nothing_happened()
    assert [path.name for path in off.iterdir()] == ["a-1"]
    for strange in ("../x", "", "é"):
        home.run(hook, changes={"CC_TRACE_ENABLED": "false", "CLAUDE_CODE_SESSION_ID": strange})
    assert [path.name for path in off.iterdir()] == ["a-1"]
    assert len(home.kept()) == 3


@each({name: SHELLS[name] for name in ("dash", "busybox")})
def test_hook_exits_0_when_fork_fails(hook: list[str], home: HookHome) -> None:
    """The shell's own 2 would make the model continue. Not tested in bash, which retries for half a minute."""
    limited = """if 1:
        import os, resource, sys
        os.getuid() or os.setuid(65534)  # no limit holds for root
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        os.execv(sys.argv[1], sys.argv[1:])"""
    shell = [shutil.which(hook[0]) or hook[0], *hook[1:-1], "-c", SCRIPT.read_text(), SCRIPT.name]
    home.run([sys.executable, "-c", limited, *shell])
    assert home.nothing_happened()


@both
def test_hook_tolerates_closed_descriptors(hook: list[str], home: HookHome) -> None:
    home.run([*hook], prelude="exec <&-")
    home.run([*hook], prelude="exec <&- >&- 2>&-")
    assert home.nothing_happened()
    home.run(hook, prelude="exec >&- 2>&-")
    [worker] = home.workers()
    assert worker["null"] == [True, True, True]


@both
def test_failed_write_leaves_no_payload(hook: list[str], home: HookHome) -> None:
    """A limit on the file size stands in for a full disk where none can be mounted."""
    home.run(hook, bytes(1_000_000), prelude="ulimit -f 64")
    assert home.nothing_happened()


@both
def test_full_disk_leaves_no_payload(hook: list[str], home: HookHome, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root on Linux")
    try:
        home.run(hook, bytes(1_000_000), changes={"CC_TRACE_HOME": str(disk)})
        assert home.nothing_happened()
        assert list((disk / "spool").iterdir()) == []
        (disk / "filler").write_bytes(bytes(56 * 1024))
        (disk / "spool").rmdir()
        home.run(hook, bytes(1_000_000), changes={"CC_TRACE_HOME": str(disk)})
        assert home.nothing_happened()
    finally:
        subprocess.run(["umount", str(disk)], check=True)  # noqa: S607


@both
def test_concurrent_hooks_keep_all_payloads(hook: list[str], home: HookHome) -> None:
    processes = [home.start(hook, changes={"MODE": "pass"}) for _ in range(16)]
    payloads = [f"payload {number}".encode() for number in range(16)]
    for process, payload in zip(processes, payloads, strict=True):
        feed(process, payload)
    assert [(process.communicate(timeout=30), process.returncode) for process in processes] == [((b"", b""), 0)] * 16
    assert {file.read_bytes() for file in home.kept(count=16)} == set(payloads)
    given = {worker["argv"][-1] for worker in home.workers(16)}
    assert given == {str(file) for file in home.kept(count=16)}


@both
def test_equal_pids_in_containers_keep_all_payloads(hook: list[str], home: HookHome) -> None:
    namespace = ["unshare", "--pid", "--fork", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run([*namespace, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a process namespace needs root on Linux")
    # The hook is its second process: the first takes all others with it, so it stays until they have ended.
    first = """if 1:
        import os, subprocess, sys
        code = subprocess.call(sys.argv[1:])
        try:
            while True: os.wait()
        except ChildProcessError:
            sys.exit(code)"""
    namespace += [sys.executable, "-c", first]
    worker = {"CC_TRACE_PYTHON": shutil.which("true")}
    processes = [home.start([*namespace, *hook], changes=worker) for _ in range(16)]
    payloads = [f"payload {number}".encode() for number in range(16)]
    for process, payload in zip(processes, payloads, strict=True):
        feed(process, payload)
    assert [(process.communicate(timeout=30), process.returncode) for process in processes] == [((b"", b""), 0)] * 16
    kept = {file.name: file.read_bytes() for file in home.kept(count=16)}
    assert set(kept) == {f"2-{number}.json" for number in range(16)}
    assert set(kept.values()) == set(payloads)


@both
def test_existing_spool_names_are_not_overwritten(hook: list[str], home: HookHome) -> None:
    """Symlinks, a pipe, and a payload of an earlier process with the same id."""
    spool, victim = home.state / "spool", home.folder / "victim"
    spool.mkdir(parents=True)
    victim.write_text("untouched")
    (home.folder / "folder").mkdir()
    plant = f"""cd {shlex.quote(str(spool))}
        ln -s {shlex.quote(str(victim))} $$-0.tmp; ln -s {shlex.quote(str(home.folder / "dangling"))} $$-1.tmp
        ln -s {shlex.quote(str(home.folder / "folder"))} $$-2.json; mkfifo $$-3.tmp; echo earlier >$$-4.json
        ln -s /dev/full $$-5.tmp; ln -s {shlex.quote(str(home.folder / "dangling"))} $$-6.json"""
    pid = home.run(hook, prelude=plant)
    kept = eventually(lambda: [*spool.glob(f"{pid}-7.json")], "the payload under a free name")
    assert kept[0].read_bytes() == PAYLOAD
    assert (spool / f"{pid}-4.json").read_text() == "earlier\n"
    assert victim.read_text() == "untouched"
    assert list((home.folder / "folder").iterdir()) == []
    assert not (home.folder / "dangling").exists()
    assert len(list(spool.iterdir())) == 8


@both
def test_symlinked_spool_is_not_used(hook: list[str], home: HookHome) -> None:
    elsewhere = home.folder / "elsewhere"
    elsewhere.mkdir()
    home.state.mkdir(parents=True)
    (home.state / "spool").symlink_to(elsewhere)
    home.run(hook)
    assert home.nothing_happened()


@both
@pytest.mark.parametrize(
    ("changes", "inline"),
    [
        ({"CC_TRACE_WAIT": "1"}, True),
        ({"CI": "true"}, True),
        ({"CI": "1"}, True),
        ({"CLAUDE_CODE_REMOTE": "true"}, True),
        ({"CLAUDE_CODE_REMOTE": "1", "CI": "false"}, True),
        ({"CI": "true", "CC_TRACE_WAIT": "0"}, False),
        ({"CI": "false", "CLAUDE_CODE_REMOTE": ""}, False),
    ],
    ids=str,
)
def test_hook_waits_for_worker_in_ci(hook: list[str], home: HookHome, changes: Changes, *, inline: bool) -> None:
    home.run(hook, changes={"MODE": "fail" if inline else "hold", **changes})
    if inline:
        assert home.running() == set()
    [worker] = home.workers()
    [file] = home.kept()
    assert worker["argv"][5:] == ["--spooled", str(file), *(["--deadline", "10"] if inline else [])]
    assert worker["null"] == [True, True, True]


ENDS = json.dumps({"hook_event_name": "SessionEnd", "reason": "other"}, separators=(",", ":")).encode()


@both
def test_session_end_deadline_is_capped_at_50_seconds(hook: list[str], home: HookHome) -> None:
    """`cc-trace install` registers the hook with 60 s; Claude Code cancels it then, and tells the user."""
    waits = {"MODE": "fail", "CI": "true", "CC_TRACE_WAIT_SECONDS": "3600"}
    home.run(hook, ENDS, changes=waits)
    [worker] = home.workers()
    assert worker["argv"][-2:] == ["--deadline", "50"]
    assert home.running() == set()


@both
def test_plugin_session_end_does_not_wait(hook: list[str], home: HookHome) -> None:
    """Claude Code cancels a plugin's SessionEnd hook after 1.5 s. A plugin's Stop waits as usual."""
    inside = {"MODE": "hold", "CI": "true", "CLAUDE_PLUGIN_ROOT": "/plugin"}
    home.run(hook, ENDS, changes=inside)
    [worker] = home.workers()
    assert "--deadline" not in worker["argv"]
    home.end_workers()
    for file in home.records.iterdir():
        file.unlink()
    said = json.dumps({"hook_event_name": "Stop", "last_assistant_message": '"hook_event_name":"SessionEnd"'})
    home.run(hook, said.encode(), changes=inside | {"MODE": "fail"})
    [worker] = home.workers()
    assert "--deadline" in worker["argv"]


@both
def test_invalid_wait_seconds_use_default(hook: list[str], home: HookHome) -> None:
    given = [
        "",
        "abc",
        "-5",
        "08",
        "0",
        "2.5",
        "1e3",
        " 7",
        "7\n",
        "999999999999999999999",
        "²",
        "$(exit 3)",
        "7",
        "12345",
    ]
    deadlines = []
    for text in given:
        home.run(hook, changes={"MODE": "pass", "CC_TRACE_WAIT": "1", "CC_TRACE_WAIT_SECONDS": text})
        [record] = home.records.glob("*.started")
        deadlines.append(json.loads(record.read_text())["argv"][-1])
        for file in home.records.iterdir():
            file.unlink()
    assert deadlines == ["10"] * 12 + ["7", "12345"]


def test_worker_is_killed_after_deadline(home: HookHome) -> None:
    """All hooks at once, as each takes three seconds."""
    hooks = [command for command in [*SHELLS.values(), *PYTHON.values()] if shutil.which(command[0])]
    start = time.monotonic()
    processes = [home.start(hook, changes={"CC_TRACE_WAIT": "1", "CC_TRACE_WAIT_SECONDS": "1"}) for hook in hooks]
    for process in processes:
        feed(process, PAYLOAD)
    workers = home.workers(len(hooks))
    assert [process.poll() for process in processes] == [None] * len(hooks)
    results = [(process.communicate(timeout=30), process.returncode) for process in processes]
    assert results == [((b"", b""), 0)] * len(hooks)
    assert 2.5 < time.monotonic() - start < 10
    assert [exists(worker["pid"]) for worker in workers] == [False] * len(hooks)


@both
def test_project_modules_are_not_imported(hook: list[str], home: HookHome) -> None:
    """Neither by the hook nor by a real worker, though both run in the project's folder."""
    project = 'import os; open(os.environ["RECORDS"] + "/imported", "w").close()'
    for name in ("argparse.py", "subprocess.py", "selectors.py", "orjson.py"):
        (home.folder / name).write_text(project)
    home.run(hook, changes={"CC_TRACE_WAIT": "1", "CC_TRACE_PYTHON": sys.executable})
    assert list(home.records.iterdir()) == []


@each(SHELLS)
def test_python_lookup_order(hook: list[str], home: HookHome, tmp_path: Path) -> None:
    checkout, link = tmp_path / "check out" / "hooks", tmp_path / "bin" / "linked-hook"
    checkout.mkdir(parents=True)
    link.parent.mkdir()
    shutil.copy2(SCRIPT, checkout)
    link.symlink_to(f"../check out/hooks/{SCRIPT.name}")
    copied, linked = [*hook[:-1], str(checkout / SCRIPT.name)], [*hook[:-1], str(link)]

    def used(command: list[str], changes: Changes = NONE) -> Path:
        home.run(command, changes={"MODE": "pass", **changes})
        [worker] = home.workers()
        eventually(lambda: not home.running(), "the end of the worker")
        for file in home.records.iterdir():
            file.unlink()
        return Path(os.path.normpath(worker["python"]))

    home.run(copied, changes={"CC_TRACE_PYTHON": None})
    assert home.nothing_happened()  # nobody would ever take away what is kept without a Python
    installed = fake_python(home.folder / ".local/share/cc-trace/venv/bin/python")
    assert used(copied, changes={"CC_TRACE_PYTHON": None}) == installed
    elsewhere = fake_python(tmp_path / "data/cc-trace/venv/bin/python")
    assert used(copied, changes={"CC_TRACE_PYTHON": None, "XDG_DATA_HOME": str(tmp_path / "data")}) == elsewhere
    own = fake_python(checkout.parent / ".venv/bin/python")
    assert used(copied, changes={"CC_TRACE_PYTHON": str(tmp_path / "worker.py")}) == own
    assert used(copied, changes={"CC_TRACE_PYTHON": str(tmp_path)}) == own
    assert used(linked, changes={"CC_TRACE_PYTHON": None}) == own
    assert used(copied) == tmp_path / "python of choice"


EARLY = {
    "HOME": "/evil",
    "XDG_DATA_HOME": "/evil",
    "XDG_CONFIG_HOME": "/evil",
    "CLAUDE_CONFIG_DIR": "/evil",
    "CC_TRACE_HOME": "/evil",
    "CC_TRACE_PYTHON": "/evil",
    "CC_TRACE_WAIT": "1",
    "CC_TRACE_WAIT_SECONDS": "60",
    "CI": "true",
    "CLAUDE_CODE_REMOTE": "true",
}


def hostile_settings(path: Path) -> Iterator[None]:
    """Put EARLY into a settings file: plain, with escapes, in JSON too deep for Python, as UTF-16, as a pipe."""
    path.parent.mkdir(parents=True)
    told = json.dumps({"env": EARLY})
    deep = f'{told[:-1]}, "x": {"[" * 100_000}{"]" * 100_000}}}'
    for text in (told, told.replace("HOME", "\\u0048OME").replace("CC_TR", "CC\\u005fTR"), deep):
        path.write_text(text)
        yield
    path.write_bytes(b"\xff\xfe" + told.encode("utf-16-le"))  # which Claude Code reads, too
    yield
    path.unlink()
    os.mkfifo(path)
    yield


@each(SHELLS)
@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_script_delegates_to_python_if_project_sets_hook_variables(
    hook: list[str], home: HookHome, tmp_path: Path, name: str
) -> None:
    """That Python is found without any of these variables."""
    checkout, project = tmp_path / "checkout" / "hooks", tmp_path / "project"
    checkout.mkdir(parents=True)
    shutil.copy2(SCRIPT, checkout)
    own, evil = (
        fake_python(checkout.parent / ".venv/bin/python"),
        fake_python(tmp_path / "evil/cc-trace/venv/bin/python"),
    )
    changes = {**EARLY, "CC_TRACE_PYTHON": str(evil), "XDG_DATA_HOME": str(tmp_path / "evil")}
    changes |= {"CLAUDE_PROJECT_DIR": str(project), "MODE": "pass"}
    for _ in hostile_settings(project / ".claude" / name):
        home.run([*hook[:-1], str(checkout / SCRIPT.name)], changes=changes)
        [worker] = home.workers()
        assert Path(os.path.normpath(worker["python"])) == own
        assert worker["argv"] == ["-E", "-P", "-m", "cc_trace.hook"]
        for file in home.records.iterdir():
            file.unlink()
    (project / ".claude" / name).unlink()
    (project / ".claude" / name).write_text('{"env": {"CC_TRACE_TAGS": "x", "PATH": "y"}, "HOMES": 1}')
    home.run(hook, changes={"CLAUDE_PROJECT_DIR": str(project), "MODE": "pass"})
    assert home.workers()[0]["argv"][:5] == ["-E", "-P", "-m", "cc_trace", "sync"]


@each(SHELLS)
@pytest.mark.parametrize("where", ["root/sub/deep", "tree/sub", "tree", "odd/sub"])
def test_local_settings_of_repository_root_are_project_settings(
    hook: list[str], home: HookHome, tmp_path: Path, where: str
) -> None:
    """Claude Code reads them in all folders of the repository, and in its worktrees."""
    checkout, git, odd = tmp_path / "checkout/hooks", tmp_path / "root/.git/worktrees/tree", tmp_path / "odd/.git"
    for folder in (checkout, git, tmp_path / "root/.claude", tmp_path / "root/sub/deep", tmp_path / "tree/sub"):
        folder.mkdir(parents=True)
    (git / "commondir").write_text("../..\n")
    (tmp_path / "tree/.git").write_text(f"gitdir: {git}\n")
    (tmp_path / "odd/sub").mkdir(parents=True)
    odd.write_text(f"gitdir: {tmp_path / 'elsewhere'}\n")  # where a repository's own files may be
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/commondir").write_text(f"{tmp_path}/root/.git")
    shutil.copy2(SCRIPT, checkout)
    fake_python(checkout.parent / ".venv/bin/python")
    local = tmp_path / "root/.claude/settings.local.json"
    local.write_text(json.dumps({"env": EARLY}))
    changes = {"CLAUDE_PROJECT_DIR": str(tmp_path / where), "MODE": "pass"}
    home.run([*hook[:-1], str(checkout / SCRIPT.name)], changes=changes)
    assert [worker["argv"] for worker in home.workers()] == [["-E", "-P", "-m", "cc_trace.hook"]]
    given = {**EARLY, "CLAUDE_PROJECT_DIR": str(tmp_path / where), "PATH": "/bin"}
    assert set(_trusted(dict(given))) - {"HOME"} == {"CLAUDE_PROJECT_DIR", "PATH"}
    if not where.startswith("odd"):
        local.write_text('{"env": {"CC_TRACE_TAGS": "x"}}')
        for file in home.records.iterdir():
            file.unlink()
        home.run(hook, changes=changes)
        assert home.workers()[0]["argv"][:5] == ["-E", "-P", "-m", "cc_trace", "sync"]


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_project_values_of_hook_variables_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """HOME is then taken from the system."""
    monkeypatch.setenv("HOME", "/evil")
    system = pwd.getpwuid(os.getuid()).pw_dir
    given = {**EARLY, "CLAUDE_PROJECT_DIR": str(tmp_path), "PATH": "/bin"}
    for _ in hostile_settings(tmp_path / ".claude" / name):
        assert _trusted(dict(given)) == {"HOME": system, "CLAUDE_PROJECT_DIR": str(tmp_path), "PATH": "/bin"}
    (tmp_path / ".claude" / name).unlink()
    assert _trusted(dict(given)) == given
    (tmp_path / ".claude" / name).write_text('{"permissions": {"HOME": 1}, "env": {"CI": "1"}}')
    assert _trusted(dict(given)) == {key: value for key, value in given.items() if key != "CI"}


@each(SHELLS)
def test_missing_python_writes_stopped_note(hook: list[str], home: HookHome, tmp_path: Path) -> None:
    """If the state folder exists. Nothing is spooled, and a link is not followed."""
    elsewhere = tmp_path / "hooks" / SCRIPT.name
    elsewhere.parent.mkdir()
    shutil.copy2(SCRIPT, elsewhere)
    alone = [*hook[:-1], str(elsewhere)]
    changes = {"CC_TRACE_PYTHON": None, "XDG_DATA_HOME": str(tmp_path / "nothing")}
    home.run(alone, changes=changes)
    state = home.folder / ".claude" / "state" / "cc-trace"
    assert not state.exists()
    state.mkdir(parents=True)
    home.run(alone, changes=changes)
    assert [path.name for path in state.iterdir()] == ["stopped"]
    (state / "stopped").unlink()
    (state / "stopped").symlink_to(tmp_path / "target")
    home.run(alone, changes=changes)
    assert not (tmp_path / "target").exists()
    (state / "stopped").unlink()
    os.mkfifo(state / "stopped")
    home.run(alone, changes=changes)
    (state / "stopped").unlink()
    (state / "stopped").touch()
    os.utime(state / "stopped", (1, 1))
    home.run(alone, changes=changes)
    assert (state / "stopped").stat().st_mtime > 1  # a note of long ago does not stand for this one


@each(SHELLS)
@pytest.mark.parametrize("wait", ["0", "1"])
def test_python_without_cc_trace_writes_stopped_note(
    hook: list[str], home: HookHome, tmp_path: Path, wait: str
) -> None:
    """The payload stays for the next worker. A Python that fails otherwise writes no note."""
    upgraded, failing = tmp_path / "upgraded" / "bin" / "python", tmp_path / "failing"
    venv.create(tmp_path / "upgraded")
    home.run(hook, changes={"CC_TRACE_WAIT": wait, "CC_TRACE_PYTHON": str(upgraded)})
    eventually((home.state / "stopped").is_file, "the note")
    home.kept()
    (home.state / "stopped").unlink()
    failing.write_text(f'#!/bin/sh\n[ "$3" = -c ] && echo "$4" >{shlex.quote(str(tmp_path / "asked"))}\n')
    failing.chmod(0o755)
    home.run(hook, changes={"CC_TRACE_WAIT": wait, "CC_TRACE_PYTHON": str(failing)})
    eventually((tmp_path / "asked").is_file, "the question")
    assert not (home.state / "stopped").exists()
