"""Settings per project at work: who is left out, for how long, and what traces are tied to."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from backend import OK, REFUSE, HttpBackend
from lines import Line, prompt, reply, write
from test_worker import Home

from cc_trace.cli.status import SUPPRESSED
from cc_trace.delivery.sweep import MAX_SESSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONE = "11111111-0000-4000-8000-000000000001"
TWO = "22222222-0000-4000-8000-000000000002"
THREE = "33333333-0000-4000-8000-000000000003"


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


class Machine(Home):
    """A home whose sessions were started in chosen folders."""

    def turn(self, session_id: str, project: Path, *words: str) -> Path:
        """Add turns to a session."""
        path = self.projects / f"{session_id}.jsonl"
        before = path.read_bytes() if path.exists() else b""
        lines: list[Line] = []
        for word in words:
            at = len(before.splitlines()) + len(lines)
            fields = {"sessionId": session_id, "cwd": str(project)}
            lines += [prompt(word, at, **fields), reply(f"msg_{session_id[:4]}_{word}", word, at=at + 1, **fields)]
        write(path, lines)
        path.write_bytes(before + path.read_bytes())
        return path

    def hook(self, path: Path, project: Path, **environment: str) -> int:
        """Be the worker of a hook in a project."""
        (self.state / "swept").unlink(missing_ok=True)
        return self.work(self.payload(path), CLAUDE_PROJECT_DIR=str(project), **environment)

    def configure(self, project: Path, **settings: str) -> None:
        """Set something for a project in the user's own configuration."""
        for name, value in settings.items():
            assert self.command("config", "set", "--project", str(project), name, value).returncode == 0

    def settings(self, project: Path, **env: str) -> None:
        (project / ".claude").mkdir(parents=True, exist_ok=True)
        (project / ".claude" / "settings.json").write_text(json.dumps({"env": env}))


@pytest.fixture
def machine(tmp_path: Path, backend: HttpBackend) -> Machine:
    made = Machine(tmp_path, backend)
    made.environment["CC_TRACE_REST_SECONDS"] = "0"  # all that nobody writes to is over
    made.install()
    return made


def sessions(backend: HttpBackend) -> set[str]:
    """The sessions that something arrived of."""
    found = set()
    for span in backend.spans:
        found |= {pair.value.string_value for pair in span.attributes if pair.key == "session.id"}
    return found


def test_a_sweep_goes_by_the_settings_of_the_project_it_finds(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """A project that is off stays off, whichever project's hook comes by."""
    on, off = tmp_path / "on", tmp_path / "off"
    machine.settings(off, CC_TRACE_ENABLED="false")
    first = machine.turn(ONE, on, "a")
    assert machine.hook(first, on) == 0
    machine.turn(TWO, off, "b")
    machine.turn(ONE, on, "c")
    assert machine.hook(first, on) == 0
    assert sessions(backend) == {ONE}


def test_a_sweep_leaves_alone_what_the_shell_may_have_protected(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """The hook's project says what the shell does: nothing is sent in full, nothing left out for good."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    machine.environment["CC_TRACE_CONTENT"] = "metadata"
    machine.settings(mine, CC_TRACE_CONTENT="metadata")
    machine.turn(TWO, other, "private")
    path = machine.turn(ONE, mine, "a")
    assert machine.hook(path, mine) == 0
    assert sessions(backend) == {ONE}
    assert machine.command("sync").stdout == f"{TWO}: 2 spans to otlp\n"
    assert sessions(backend) == {ONE, TWO}
    assert "gen_ai.input.messages" not in {pair.key for span in backend.spans for pair in span.attributes}


def test_hook_environment_counts_for_its_own_session(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """In another worktree, say: the settings of the project it runs in hold, then and later."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    machine.settings(mine, CC_TRACE_CONTENT="metadata")
    path = machine.turn(ONE, other, "private")
    assert machine.hook(path, mine, CC_TRACE_CONTENT="metadata") == 0
    machine.turn(ONE, other, "more")
    assert machine.command("sync").returncode == 0
    assert len(backend.spans) == 4
    assert "gen_ai.input.messages" not in {pair.key for span in backend.spans for pair in span.attributes}


def test_undeliverable_sessions_do_not_delay_others(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """However many there are, and however long another one has been waiting."""
    bad, good = tmp_path / "bad", tmp_path / "good"
    machine.configure(bad, destinations="otel:nothing-of-that-name")
    for number in range(MAX_SESSIONS + 1):
        machine.turn(f"{number:08}-0000-4000-8000-000000000001", bad, "x")
    path = machine.turn(ONE, good, "a")
    backend.behaviour = REFUSE
    machine.hook(path, good)
    backend.behaviour = OK
    machine.hook(machine.turn(TWO, good, "b"), good)
    assert sessions(backend) == {ONE, TWO}


def test_session_written_while_off_stays_suppressed(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """Until the user asks for that session by name."""
    project = tmp_path / "p"
    path = machine.turn(ONE, project, "secret")
    assert machine.hook(path, project, CC_TRACE_ENABLED="false") == 0
    other = machine.turn(TWO, project, "open")
    assert machine.hook(other, project) == 0
    assert machine.command("sync").returncode == 0
    assert machine.command("backfill").returncode == 0
    assert sessions(backend) == {TWO}
    done = machine.command("sync", "--session", ONE)
    assert (done.returncode, done.stdout) == (0, f"{ONE}: 2 spans to otlp\n")
    assert sessions(backend) == {ONE, TWO}
    machine.turn(ONE, project, "more")
    machine.hook(path, project)
    assert len(backend.spans) == 6  # asked for, it is traced again


def test_only_what_is_written_while_off_is_left_out(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """Not what was behind when tracing was turned off, nor the history that a user looks at meanwhile."""
    old = machine.turn(ONE, tmp_path, "a")
    backend.behaviour = REFUSE
    machine.hook(old, tmp_path)
    backend.behaviour = OK
    machine.turn(TWO, tmp_path, "b")
    off = {"CC_TRACE_ENABLED": "false"}
    for command in ("sync", "backfill"):
        machine.environment |= off
        assert machine.command(command).returncode == 0
    del machine.environment["CC_TRACE_ENABLED"]
    assert sessions(backend) == set()
    assert machine.command("backfill").returncode == 0
    assert sessions(backend) == {ONE, TWO}


def test_a_wrong_setting_does_not_hide_that_tracing_is_off(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """What is written meanwhile is suppressed, and the log names both."""
    project = tmp_path / "p"
    path = machine.turn(ONE, project, "secret")
    wrong = {"CC_TRACE_ENABLED": "false", "CC_TRACE_DESTINATIONS": "langfuse"}
    assert machine.hook(path, project, **wrong) == 0
    log = (machine.state / "cc-trace.log").read_text()
    off = "CC_TRACE_ENABLED in the environment of its hook is false"
    assert f"{project}: {off}; and destination langfuse needs LANGFUSE_PUBLIC_KEY;" in log
    assert machine.command("sync").returncode == 0
    assert sessions(backend) == set()
    assert machine.command("status").stdout.splitlines()[:-1] == [f"{ONE}  {SUPPRESSED}"]


def forked(origin: Path, session_id: str, how: str) -> Path:
    """Copy a session as Claude Code does: with a mark on each line, with the old id on prompts, with neither."""
    path = origin.with_name(f"{session_id}.jsonl")
    lines = [json.loads(line) for line in origin.read_text().splitlines()]
    for line in lines:
        if how == "/branch":
            line["forkedFrom"] = {"sessionId": line["sessionId"], "messageUuid": line["uuid"]}
        if how != "--fork-session before 2.1" or line["type"] != "user":
            line["sessionId"] = session_id
    write(path, lines)
    return path


@pytest.mark.parametrize("how", ["/branch", "--fork-session before 2.1", "--fork-session"])
def test_a_fork_of_what_was_written_while_off_stays_out(
    machine: Machine, backend: HttpBackend, tmp_path: Path, how: str
) -> None:
    """It holds the same turns. Until the user asks for it by name."""
    origin = machine.turn(ONE, tmp_path, "secret")
    machine.hook(origin, tmp_path, CC_TRACE_ENABLED="false")
    fork = forked(origin, TWO, how)
    machine.turn(TWO, tmp_path, "new")
    assert "2 sessions not traced" in machine.command("backfill", "--dry-run").stdout
    assert machine.hook(fork, tmp_path) == 0
    assert machine.command("sync").returncode == 0
    assert machine.command("backfill").returncode == 0
    assert sessions(backend) == set()
    said = f"{TWO}: not traced as {ONE}, whose turns it has: it was written to while tracing was off"
    assert said in (machine.state / "cc-trace.log").read_text()
    assert machine.command("status").stdout.splitlines()[:-1] == [f"{ONE}  {SUPPRESSED}", f"{TWO}  {SUPPRESSED}"]
    assert machine.command("sync", "--session", TWO).returncode == 0
    assert sessions(backend) == {TWO}


def test_source_of_a_fork_written_while_off_is_not_suppressed(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """What the fork has in common with it was written before."""
    origin = machine.turn(ONE, tmp_path, "open")
    fork = forked(origin, TWO, "--fork-session")
    machine.turn(TWO, tmp_path, "secret")
    machine.hook(fork, tmp_path, CC_TRACE_ENABLED="false")
    assert machine.command("sync").returncode == 0
    assert sessions(backend) == {ONE}


def test_what_was_written_before_tracing_was_off_is_not_left_out(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """A session was killed, and no hook spoke of it; what is written after a worker has seen it off stays out."""
    off = {"CC_TRACE_ENABLED": "false"}
    machine.turn(ONE, tmp_path, "a")
    other = machine.turn(TWO, tmp_path, "b")
    machine.hook(other, tmp_path, **off)
    machine.turn(THREE, tmp_path, "c")
    machine.hook(other, tmp_path, **off)
    assert sorted(path.name for path in (machine.state / "off").iterdir()) == [TWO, THREE]
    assert machine.command("sync").returncode == 0
    assert sessions(backend) == {ONE}


def test_tracing_that_is_on_again_and_off_again_is_off_from_then_on(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    off = {"CC_TRACE_ENABLED": "false"}
    other = machine.turn(TWO, tmp_path, "b")
    machine.hook(other, tmp_path, **off)
    first = machine.turn(THREE, tmp_path, "c")
    machine.hook(first, tmp_path)
    machine.turn(ONE, tmp_path, "a")
    machine.hook(other, tmp_path, **off)
    assert machine.command("sync").returncode == 0
    assert sessions(backend) == {ONE, THREE}


def test_status_names_what_is_left_out_and_what_never_was_delivered(machine: Machine, tmp_path: Path) -> None:
    path = machine.turn(ONE, tmp_path / "off", "a")
    machine.hook(path, tmp_path / "off", CC_TRACE_ENABLED="false")
    machine.settings(tmp_path / "bad", CC_TRACE_CONTENT="some")
    machine.turn(TWO, tmp_path / "bad", "b")
    wrong = f"CC_TRACE_CONTENT in {tmp_path / 'bad' / '.claude' / 'settings.json'} is 'some'"
    assert machine.command("status").stdout.splitlines()[:-1] == [
        f"{TWO}  nothing delivered: {wrong}; it must be one of full, no-tool-content, metadata",
        f"{ONE}  {SUPPRESSED}",
    ]
    rows = {row["session_id"]: row for row in json.loads(machine.command("status", "--json").stdout)}
    assert {id_: (row["suppressed"], row["left_out"]) for id_, row in rows.items()} == {
        TWO: (False, False),
        ONE: (True, True),
    }


def test_a_hook_does_not_send_a_users_key_where_only_its_project_says(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """Claude Code has put the project's address into the environment, where it looks like the user's own."""
    project = tmp_path / "cloned"
    machine.settings(project, CC_TRACE_OTLP_ENDPOINT=backend.url)
    machine.environment["CC_TRACE_OTLP_HEADERS"] = "authorization=Bearer mine"
    path = machine.turn(ONE, project, "a")
    assert machine.hook(path, project, CC_TRACE_OTLP_ENDPOINT=backend.url) == 2
    assert backend.requests == []
    assert (
        "a key is sent only to an address that is set in the same place" in (machine.state / "cc-trace.log").read_text()
    )


def test_a_worker_that_cannot_go_on_says_so(machine: Machine, tmp_path: Path) -> None:
    """In the log: nobody reads what it prints."""
    (machine.state / "ledger.db").mkdir()
    path = machine.turn(ONE, tmp_path, "a")
    assert machine.hook(path, tmp_path) == 2
    assert "cannot use" in (machine.state / "cc-trace.log").read_text()


def test_sessions_that_cannot_be_delivered_do_not_take_the_places_of_others(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """A sweep takes twenty; more than that are newer, in a project with a wrong setting."""
    machine.turn(ONE, tmp_path / "good", "a")
    machine.settings(tmp_path / "bad", CC_TRACE_CONTENT="some")
    for number in range(25):
        machine.turn(f"33333333-0000-4000-8000-{number:012}", tmp_path / "bad", f"b{number}")
    other = machine.turn(TWO, tmp_path / "good", "c")
    machine.hook(other, tmp_path / "good")
    assert sessions(backend) == {ONE, TWO}


def test_folders_are_left_out(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """By pattern, and also when the user asks for the session: what is excluded is excluded."""
    private = tmp_path / "private" / "deep"
    path = machine.turn(ONE, private, "a")
    machine.environment["CC_TRACE_EXCLUDE"] = str(tmp_path / "private")
    assert machine.hook(path, private) == 0
    done = machine.command("sync", "--session", ONE)
    assert done.stdout == f"{ONE}: not traced: CC_TRACE_EXCLUDE contains {tmp_path / 'private'}\n"
    assert done.returncode == 1
    assert sessions(backend) == set()


def test_a_wrong_setting_is_in_the_log_and_loses_nothing(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """Nobody sees what a worker prints; when the setting is fixed all is delivered."""
    path = machine.turn(ONE, tmp_path, "a")
    assert machine.hook(path, tmp_path, CC_TRACE_CONTENT="some") == 2
    log = (machine.state / "cc-trace.log").read_text()
    where = "CC_TRACE_CONTENT in the environment of its hook"
    assert f"nothing is delivered: {where} is 'some'; it must be one of full, no-tool-content, metadata" in log
    assert machine.hook(path, tmp_path, CC_TRACE_CONTENT="metadata") == 0
    assert sessions(backend) == {ONE}


def test_a_wrong_value_of_a_shell_is_not_replaced_elsewhere(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    """By what another project's worker or a user's command has: it may let more leave."""
    path, other = machine.turn(ONE, tmp_path / "a", "a"), machine.turn(TWO, tmp_path / "b", "b")
    assert machine.hook(path, tmp_path / "a", CC_TRACE_CONTENT="metadta") == 2
    assert machine.hook(other, tmp_path / "b") == 0
    for command in (["sync"], ["sync", "--session", ONE], ["backfill"]):
        done = machine.command(*command)
        assert done.returncode == 1
        assert "CC_TRACE_CONTENT in the environment of its hook is 'metadta'" in done.stdout + done.stderr
        assert sessions(backend) == {TWO}
    machine.environment["CC_TRACE_CONTENT"] = "metadata"
    assert machine.command("sync").returncode == 0
    assert sessions(backend) == {ONE, TWO}


def test_a_command_uses_the_environment_of_a_request_that_is_not_handled(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    for session_id, command in ((ONE, ["sync", "--session", ONE]), (TWO, ["backfill"])):
        path = machine.turn(session_id, tmp_path, "private words")
        killed = {"CC_TRACE_DIE_AT": "spool taken", "CC_TRACE_CONTENT": "metadata"}
        assert machine.hook(path, tmp_path, **killed) < 0
        assert machine.command(*command).returncode == 0
    assert sessions(backend) == {ONE, TWO}
    keys = {pair.key for span in backend.spans for pair in span.attributes}
    assert "gen_ai.request.model" in keys
    assert "gen_ai.input.messages" not in keys


def test_a_wrong_setting_of_one_project_holds_up_no_other(
    machine: Machine, backend: HttpBackend, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    machine.turn(ONE, bad, "a")
    machine.turn(TWO, good, "b")
    machine.settings(bad, CC_TRACE_CONTENT="some")
    done = machine.command("sync")
    assert done.returncode == 1
    wrong = f"CC_TRACE_CONTENT in {bad / '.claude' / 'settings.json'} is 'some'"
    assert f"{ONE}: pending: {wrong}" in done.stdout
    assert sessions(backend) == {TWO}


def test_status_tells_of_a_wrong_setting_of_a_session_that_was_delivered(machine: Machine, tmp_path: Path) -> None:
    """Its further turns stay pending, with that as the reason."""
    path = machine.turn(ONE, tmp_path, "a")
    assert machine.command("sync").returncode == 0
    assert json.loads(machine.command("status", "--json").stdout)[0]["error"] is None
    machine.turn(ONE, tmp_path, "b")
    machine.settings(tmp_path, CC_TRACE_CONTENT="some")
    wrong = f"CC_TRACE_CONTENT in {tmp_path / '.claude' / 'settings.json'} is 'some'; it must be one of full"
    assert f"{path.stem}: pending: {wrong}" in machine.command("sync").stdout
    assert f"  pending: {wrong}" in machine.command("status").stdout
    assert json.loads(machine.command("status", "--json").stdout)[0]["error"].startswith(wrong)


def trace_ids(backend: HttpBackend) -> dict[str, str]:
    """Trace ids by the prompt of their root."""
    found = {}
    for span in backend.spans:
        given = {pair.key: pair.value.string_value for pair in span.attributes}
        if given["gen_ai.operation.name"] == "invoke_agent":
            said = json.loads(given["gen_ai.input.messages"])[0]["parts"][0]["content"]
            found[said] = span.trace_id.hex()
    return found


def test_a_seed_makes_trace_ids_predictable(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """The trace id of turn N is the beginning of SHA-256 of `seed:N`."""
    path = machine.turn(ONE, tmp_path, "a", "b")
    assert machine.hook(path, tmp_path, CC_TRACE_SEED="build-7") == 0
    assert trace_ids(backend) == {
        "a": hashlib.sha256(b"build-7:1").hexdigest()[:32],
        "b": hashlib.sha256(b"build-7:2").hexdigest()[:32],
    }


def test_turns_hang_under_a_given_span(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """All turns are in its trace; a TRACEPARENT that happens to be there is not followed."""
    ours, stray = f"00-{'a' * 32}-{'b' * 16}-01", f"00-{'c' * 32}-{'d' * 16}-01"
    path = machine.turn(ONE, tmp_path, "x", "y")
    assert machine.hook(path, tmp_path, CC_TRACE_TRACEPARENT=ours, TRACEPARENT=stray) == 0
    assert {span.trace_id.hex() for span in backend.spans} == {"a" * 32}
    roots = [span for span in backend.spans if span.name.startswith("invoke_agent")]
    assert {span.parent_span_id.hex() for span in roots} == {"b" * 16}


def test_trace_link_is_remembered(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """The backend was down; the worker that delivers it later has no seed, and must not use its own."""
    path = machine.turn(ONE, tmp_path, "a")
    backend.behaviour = REFUSE
    machine.hook(path, tmp_path, CC_TRACE_SEED="first")
    backend.behaviour = OK
    other = machine.turn(TWO, tmp_path, "b")
    assert machine.hook(other, tmp_path, CC_TRACE_SEED="second") == 0
    assert trace_ids(backend) == {
        "a": hashlib.sha256(b"first:1").hexdigest()[:32],
        "b": hashlib.sha256(b"second:1").hexdigest()[:32],
    }


def test_resumed_session_uses_the_link_of_its_new_run(machine: Machine, backend: HttpBackend, tmp_path: Path) -> None:
    """Turns that were sent keep their link."""
    path = machine.turn(ONE, tmp_path, "a")
    machine.hook(path, tmp_path, CC_TRACE_SEED="first")
    machine.turn(ONE, tmp_path, "b")
    machine.hook(path, tmp_path, CC_TRACE_SEED="second")
    machine.turn(ONE, tmp_path, "c")
    machine.hook(path, tmp_path)
    plain = hashlib.sha256(f"turn:msg_{ONE[:4]}_c".encode()).hexdigest()[:32]
    assert trace_ids(backend) == {
        "a": hashlib.sha256(b"first:1").hexdigest()[:32],
        "b": hashlib.sha256(b"second:2").hexdigest()[:32],
        "c": plain,
    }
    assert max(backend.counts.values()) == 1
