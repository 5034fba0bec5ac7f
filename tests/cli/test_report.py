"""`cc-trace report`: figures and gates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cc_trace.cli import main

RECORDINGS = Path(__file__).parents[1] / "transcript" / "stream" / "recordings"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))


def output(name: str) -> str:
    return str(RECORDINGS / name / "output")


@pytest.mark.parametrize("kind", ["hello-stream", "hello-jsonv", "hello-json"])
def test_the_figures_of_a_run(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", output(f"2.1.325-{kind}"), "--format", "json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["status"], figures["turns"], figures["output_tokens"]) == ("ok", 1, 1003)
    assert figures["cost_usd"] == pytest.approx(0.015667)


def test_a_transcript_has_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    transcript = next((RECORDINGS / "2.1.325-tools-stream" / "transcript").glob("*.jsonl"))
    assert main(["report", str(transcript), "--format", "json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["tool_calls"], figures["files_changed"], figures["status"]) == (3, 1, "ok")


@pytest.mark.parametrize(
    ("name", "gates", "code"),
    [
        ("2.1.325-hello-stream", ["--max-cost", "0.02", "--max-minutes", "1", "--fail-on", "error"], 0),
        ("2.1.325-hello-stream", ["--max-cost", "0.01"], 1),
        ("2.1.325-tools-stream", ["--max-minutes", "0"], 1),
        ("2.1.325-refused-stream", ["--fail-on", "error"], 1),
        ("2.1.325-refused-stream", [], 0),
    ],
)
def test_a_gate_sets_the_exit_code(name: str, gates: list[str], code: int) -> None:
    assert main(["report", output(name), *gates]) == code


def test_markdown_is_a_table_and_quotes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", output("2.1.325-hello-stream"), "--format", "markdown", "--max-cost", "0.01"])
    printed = capsys.readouterr().out
    assert printed.startswith("| Claude Code | |\n|---|---|\n| session id | eb4e4d28")
    assert "**Failed:** cost_usd is 0.015667, the limit is 0.01" in printed
    assert "Hello" not in printed


def test_what_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Hello.\n")
    assert main(["report", str(tmp_path / "text")]) == 2
    assert main(["report", str(tmp_path / "missing")]) == 2
