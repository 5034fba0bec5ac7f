"""What every command shares: help, mistyped names, completion, narrow terminals, other encodings, the hook's note."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Any

import pytest
from shared import CASES

from cc_trace.cli.commands import COMMANDS, overview
from cc_trace.settings.catalogue import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SESSION = CASES / "2.1.325--b_tools"
PLAN, RETRIED = "2.1.325--g3b_plan_keep_context", "2.1.325--e1_overloaded_then_ok"
PUBLIC, SECRET = "pk-lf-" + "0" * 8, "sk-lf-" + "1" * 8


def cc_trace(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cc_trace", *arguments],
        env={"HOME": str(home), "PATH": os.environ["PATH"], **environment},
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=120,
        check=False,
    )


def in_terminal(home: Path, columns: int, *arguments: str, **environment: str) -> str:
    """What a command prints to a terminal of that width."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "cc_trace", *arguments],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm", **environment},
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    output = b""
    try:
        while chunk := os.read(master, 1 << 16):
            output += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(master)
        process.wait(120)
    return output.decode().replace("\r\n", "\n")


def test_no_arguments_print_the_help(tmp_path: Path) -> None:
    done = cc_trace(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{overview()}\n", "")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["doctr", "--json"], "unknown command 'doctr'; did you mean `cc-trace doctor`?"),
        (["confg", "set"], "unknown command 'confg'; did you mean `cc-trace config`?"),
        (["x\x1b[2J"], "unknown command 'x\\x1b[2J'; `cc-trace --help` lists all commands"),
        (
            ["config", "get", "langfuse_publc_key"],
            "unknown setting 'langfuse_publc_key'; did you mean langfuse_public_key?",
        ),
        (["show", "--trun", "1"], "`cc-trace show` does not accept '--trun'; did you mean --turn?"),
        (["status", "--jsno=1"], "`cc-trace status` does not accept '--jsno=1'; did you mean --json?"),
        (
            ["config", "get", "--projct", "x", "content"],
            "`cc-trace config get` does not accept '--projct'; did you mean --project?",
        ),
        (["doctor", "x"], "`cc-trace doctor` does not accept 'x'; `cc-trace doctor --help` shows what it accepts"),
        (
            ["sync", "--spoold"],
            "`cc-trace sync` does not accept '--spoold'; `cc-trace sync --help` shows what it accepts",
        ),
        (["config", "get", "zzz"], "unknown setting 'zzz'; `cc-trace config` lists all settings"),
        (["--verison"], "unknown option '--verison'; did you mean `cc-trace --version`?"),
        (["-x", "show"], "unknown option '-x'; `cc-trace --help` lists all commands"),
    ],
)
def test_typing_error_gets_a_suggestion(tmp_path: Path, typed: list[str], said: str) -> None:
    done = cc_trace(tmp_path, *typed)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cc-trace: {said}\n")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["show", "--turn", "x"], "--turn is 'x'; it must be a whole number"),
        (["report", "a", "--max-cost", "x"], "--max-cost is 'x'; it must be a number, 0 or more"),
        (["report", "a", "--max-cost", "nan"], "--max-cost is 'nan'; it must be a number, 0 or more"),
        (["report", "a", "--max-minutes", "-1"], "--max-minutes is '-1'; it must be a number, 0 or more"),
        (["sync", "--session", "a", "--transcript", "b"], "--transcript and --session cannot be used together"),
        (["show", "--turn"], "--turn needs a value"),
        (["search"], "`cc-trace search` needs TEXT; `cc-trace search --help` shows what it accepts"),
        (["config", "set"], "`cc-trace config set` needs NAME; `cc-trace config set --help` shows what it accepts"),
    ],
)
def test_wrong_arguments_are_reported(tmp_path: Path, typed: list[str], said: str) -> None:
    """In one line. A gate that nothing exceeds would let everything pass."""
    done = cc_trace(tmp_path, *typed)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cc-trace: {said}\n")


def test_a_wrong_choice_is_reported_with_all_choices(tmp_path: Path) -> None:
    said = cc_trace(tmp_path, "usage", "--by", "foo").stderr
    assert said.startswith("cc-trace: --by is 'foo'; it must be one of ")
    assert "project" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", ["show", "preview", "report"])
def test_a_file_that_is_no_transcript_is_an_error(tmp_path: Path, command: str) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0:root:/root:/bin/bash\n" * 20)
    done = cc_trace(tmp_path, command, "passwd")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("cc-trace: passwd ")
    assert len(done.stderr.splitlines()) == 1


def test_one_setting_is_printed(tmp_path: Path) -> None:
    """As `config` shows it: of a key the end at most. One that is not set is exit 1."""
    key = "sk-lf-" + "0123456789" * 3
    assert cc_trace(tmp_path, "config", "set", "langfuse_secret_key", key).returncode == 0
    assert cc_trace(tmp_path, "config", "get", "langfuse_secret_key").stdout == "****6789\n"
    assert cc_trace(tmp_path, "config", "get", "content").stdout == "full\n"
    assert cc_trace(tmp_path, "config", "get", "CC_TRACE_WAIT_SECONDS").stdout == "10\n"
    done = cc_trace(tmp_path, "config", "get", "user_id")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "cc-trace: user_id is not set\n")


def test_swapped_keys_are_noticed(tmp_path: Path) -> None:
    """When one is set, and when they come from elsewhere; without a word of the key itself."""
    done = cc_trace(tmp_path, "config", "set", "langfuse_public_key", SECRET)
    assert done.returncode == 2
    assert "langfuse_public_key holds a secret key (sk-lf-…); are the two keys swapped?" in done.stderr
    done = cc_trace(tmp_path, "config", "set", "langfuse_secret_key", PUBLIC)
    assert "langfuse_secret_key holds a public key (pk-lf-…)" in done.stderr
    keys = {"CC_LANGFUSE_PUBLIC_KEY": SECRET, "CC_LANGFUSE_SECRET_KEY": PUBLIC, "TRACE_TO_LANGFUSE": "true"}
    done = cc_trace(tmp_path, "doctor", **keys)
    assert "are the two keys swapped?" in done.stdout
    assert SECRET not in done.stdout


def test_the_doctor_puts_failures_first_and_colours_them(tmp_path: Path) -> None:
    """Colours in a terminal only, and not where NO_COLOR is set."""
    piped = [line.split()[0] for line in cc_trace(tmp_path, "doctor").stdout.splitlines() if line[:1].isalpha()]
    assert piped == sorted(piped, key=["failed", "warning", "ok"].index)
    assert piped[0] == "failed"  # the hook is not registered
    shown = in_terminal(tmp_path, 200, "doctor")
    assert shown.startswith("\x1b[31mfailed  \x1b[0m hook ")
    assert "\x1b[32mok      \x1b[0m " in shown
    assert "\x1b" not in in_terminal(tmp_path, 200, "doctor", NO_COLOR="1")


@pytest.mark.parametrize("command", ["--help", "doctor", "config", "status", "show", "report", "install --help"])
def test_a_narrow_terminal_breaks_no_word(tmp_path: Path, command: str) -> None:
    """Of 60 columns, and with colours: a line that is longer is one word, such as a path."""
    target = [str(next(SESSION.glob("*.jsonl")))] if command in ("show", "report") else []
    wide, narrow = (
        re.sub(r"\x1b\[[0-9;]*m", "", in_terminal(tmp_path, columns, *command.split(), *target))
        for columns in (400, 60)
    )
    for line in narrow.splitlines():
        assert len(line) <= 60 or " " not in line.strip(), line
    if command != "show":  # which cuts texts to the width
        words = set(wide.split())
        assert [word for word in narrow.split() if word.isalpha() and word not in words] == []


@pytest.mark.parametrize("encoding", ["iso-8859-1", "euc-jp", "ascii"])
def test_other_encodings_are_no_error(tmp_path: Path, encoding: str) -> None:
    """What they do not have is shown as an escape."""
    project = tmp_path / ".claude" / "projects" / "-p"
    shutil.copytree(SESSION, project, ignore=shutil.ignore_patterns("*.spans"))
    [path] = project.glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"go", "gö 日本 ☃ \\ud83d".encode()))
    commands = [("show", str(path)), ("show", str(path), "--full"), ("show", str(path), "--json"), ("status",)]
    commands += [
        ("preview", str(path), "--to", "local"),
        ("report", str(path)),
        ("report", str(path), "--format", "markdown"),
    ]
    commands += [
        ("install",),
        ("config",),
        ("doctor",),
        ("sync",),
        ("backfill", "--dry-run"),
        *((name, "--help") for name in COMMANDS),
    ]
    for command in commands:
        done = cc_trace(tmp_path, *command, PYTHONIOENCODING=encoding)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        assert done.returncode in (0, 1), (command, done.stderr)


def test_stopped_note_is_shown_until_the_hook_works_again(tmp_path: Path) -> None:
    state = tmp_path / ".claude" / "state" / "cc-trace"
    state.mkdir(parents=True)
    assert "could not start" not in cc_trace(tmp_path, "status").stderr
    (state / "stopped").touch()
    said = cc_trace(tmp_path, "status").stderr
    assert said.startswith("cc-trace: the hook could not start its Python (last at 20")
    assert said.endswith("`cc-trace sync` delivers what is pending\n")
    assert "the hook could not start its Python" in cc_trace(tmp_path, "doctor").stdout
    (state / "hooked").touch()
    os.utime(state / "stopped", (1, 1))  # a worker has run since
    assert cc_trace(tmp_path, "status").stderr == ""
    (state / "hooked").unlink()
    assert cc_trace(tmp_path, "install").returncode == 0
    assert cc_trace(tmp_path, "status").stderr == ""


def beginnings(message: Any) -> Iterator[str]:
    """How the lines of a message's contents begin, as far as they would be recognized where they are cut off."""
    match message:
        case str():
            yield from (line[:12] for line in message.splitlines() if len(line) >= 12)
        case list():
            for part in message:
                yield from beginnings(part)
        case dict():
            for name in message.keys() & {"content", "text", "thinking", "input", "command", "description"}:
                yield from beginnings(message[name])


def test_doctor_json_has_no_secrets_and_no_content(tmp_path: Path) -> None:
    """`doctor --json`, with keys in every place, a session that could not be delivered, and one that is broken."""
    project = tmp_path / ".claude" / "projects" / "-p"
    shutil.copytree(SESSION, project, ignore=shutil.ignore_patterns("*.spans"))
    [path] = project.glob("*.jsonl")
    texts = {text for line in path.read_text().splitlines() for text in beginnings(json.loads(line).get("message"))}
    assert {"[[tools]] us", "I should loo", "I will do th", "env | grep -", "AI_AGENT=cla"} <= texts
    (project / "11111111-0000-4000-8000-000000000001.jsonl").write_text('{"type":"user","message":"whispered words"\n')
    (tmp_path / ".config" / "cc-trace").mkdir(parents=True)
    (tmp_path / ".config" / "cc-trace" / "config.toml").write_text(
        'langfuse_public_key = "pk-lf-visible-9"\nlangfuse_secret_key = "sk-lf-hidden-8"\nmask = ["mine-[0-9]+"]\n'
        'langfuse_base_url = "http://someone:word@127.0.0.1:9/?key=queried"\n'
        'otlp_endpoint = "http://127.0.0.1:9"\notlp_headers = "authorization=Bearer headed-7"\n'
    )
    environment = {"ANTHROPIC_API_KEY": "sk-ant-api03-around-6", "CC_TRACE_TIMEOUT_SECONDS": "1"}
    cc_trace(tmp_path, "install", **environment)
    cc_trace(tmp_path, "sync", "--transcript", str(path), **environment)
    done = cc_trace(tmp_path, "doctor", "--json", **environment)
    checks = json.loads(done.stdout)
    assert {tuple(check) for check in checks} == {("name", "verdict", "found", "fix")}
    assert {check["name"] for check in checks} > {"python", "hook", "hook run"}
    said = "\n".join(text for check in checks for text in check.values() if text)
    hidden = ["hidden-8", "headed-7", "around-6", "queried", "someone:word", "mine-[", "whispered wo"]
    assert [text for text in (*hidden, *texts) if text in said] == []


def completed(tmp_path: Path, *typed: str) -> list[str]:
    """What bash offers after these words."""
    words = " ".join(f"'{word}'" for word in ("cc-trace", *typed))
    script = f'eval "$1"; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _cc_trace; printf "%s\\n" "${{COMPREPLY[@]}}"'
    made = cc_trace(tmp_path, "completion", "bash")
    assert (made.returncode, made.stderr) == (0, "")
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run([bash, "-c", script, "bash", made.stdout], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_settings(tmp_path: Path) -> None:
    assert completed(tmp_path, "") == [*COMMANDS, "--help", "--version"]
    assert completed(tmp_path, "do") == ["doctor"]
    assert completed(tmp_path, "install", "--p") == ["--project"]
    assert completed(tmp_path, "sync", "--sp") == []  # hidden
    assert completed(tmp_path, "config", "") == ["set", "unset", "get", "--help", "--json", "--project"]
    assert completed(tmp_path, "config", "set", "langfuse_se") == ["langfuse_secret_key"]
    assert completed(tmp_path, "completion", "z") == ["zsh"]


# What zsh has while it completes; the candidates are printed, and cut to those that begin as typed by zsh's own match.
ZSH = """
compdef() { :; }
_files() { print files; }
compadd() { shift; print -rl -- ${(M)@:#${words[CURRENT]}*}; (( $# )) }
eval "$1"; shift; words=(cc-trace "$@"); CURRENT=$#words; _cc_trace
"""
FISH = 'printf %s $argv[1] | source; complete -C (string join -- " " cc-trace $argv[2..])'


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_complete_the_same(tmp_path: Path, shell: str) -> None:
    made = cc_trace(tmp_path, "completion", shell)
    assert (made.returncode, made.stderr) == (0, "")
    for name in (*COMMANDS, *(setting.name for setting in SETTINGS)):
        assert name in made.stdout
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed; on Debian and Ubuntu: apt install {shell}")
    start = [program, "-f", "-c", ZSH, "zsh"] if shell == "zsh" else [program, "--no-config", "-c", FISH]

    def offered(*typed: str) -> set[str]:
        done = subprocess.run(
            [*start, made.stdout, *typed],
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return {line.partition("\t")[0] for line in done.stdout.splitlines()} - {""}

    assert offered("") >= COMMANDS.keys()
    assert offered("do") == {"doctor"}
    assert offered("install", "--p") == {"--project"}
    assert "--spool" not in offered("sync", "--")  # hidden
    assert offered("config", "s") == {"set"}
    assert {name for name in offered("config", "set", "") if not name.startswith("-")} == {
        each.name for each in SETTINGS
    }
    assert offered("config", "set", "langfuse_se") == {"langfuse_secret_key"}
    assert offered("completion", "z") == {"zsh"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_what_is_typed(tmp_path: Path) -> None:
    """In an interactive zsh with its own completion system, by the key."""
    made = cc_trace(tmp_path, "completion", "zsh")
    (tmp_path / ".zshrc").write_text(f"PS1='> '\nautoload -Uz compinit && compinit -u\n{made.stdout}\n")
    script = (
        "zmodload zsh/zpty; zpty shell zsh -d -i; zpty -r shell said '*> *'; "
        "zpty -w -n shell $'cc-trace config set langfuse_se\\t'; "
        "zpty -r -m shell said '*langfuse_secret_key*'; print ok"
    )
    done = subprocess.run(
        [shutil.which("zsh") or "", "-f", "-c", script],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")


@pytest.mark.parametrize("arguments", [["--deadline", "abc"], ["--until", "5"]])
def test_a_worker_that_is_called_wrongly_says_so_in_one_line(tmp_path: Path, arguments: list[str]) -> None:
    command = [sys.executable, "-m", "cc_trace", "sync", "--spooled", str(tmp_path / "1.json"), *arguments]
    done = subprocess.run(command, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_show_marks_waits(tmp_path: Path) -> None:
    plan, retried = (next((CASES / name).glob("*.jsonl")) for name in (PLAN, RETRIED))
    said = cc_trace(tmp_path, "show", str(plan)).stdout
    assert "ExitPlanMode · 2.1 s · waited 2.1 s for permission" in said
    assert re.search(r"^Turn 1 .* · 4\.3 s · waited 2\.1 s · ", said)
    assert "api_retry · waited 581 ms to try again · 529" in cc_trace(tmp_path, "show", str(retried)).stdout


@pytest.mark.parametrize("command", ["show", "preview"])
def test_a_reader_that_stops_early_is_no_error(tmp_path: Path, command: str) -> None:
    path = next((CASES / PLAN).glob("*.jsonl"))
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "cc_trace", command, str(path)],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert b"Error" not in process.stderr.read()
        assert process.wait(60) == 0
