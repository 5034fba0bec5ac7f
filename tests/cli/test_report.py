"""`cc-trace report`: what a run came to, and gates."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cc_trace.cli import main

RECORDINGS = Path(__file__).parents[1] / "transcript" / "stream" / "recordings"
KEY = "ghp_" + "a1B2" * 9


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("CC_TRACE_DESTINATIONS", "local")
    return tmp_path


def output(name: str) -> str:
    return str(RECORDINGS / name / "output")


def transcript(name: str) -> str:
    return str(next(path for path in (RECORDINGS / name / "transcript").glob("*.jsonl") if "agent" not in path.name))


def reported(*arguments: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main(["report", *arguments, "--format", "json"]) == code
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


@pytest.mark.parametrize("kind", ["hello-stream", "hello-jsonv", "hello-json"])
def test_the_figures_of_a_run(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = reported(output(f"2.1.325-{kind}"), capsys=capsys)
    assert (report["status"], report["turns"], report["output_tokens"]) == ("ok", 1, 1003)
    assert report["cost_usd"] == pytest.approx(0.015667)


def test_report_of_a_transcript(capsys: pytest.CaptureFixture[str]) -> None:
    name = "2.1.325-tools-stream"
    report = reported(transcript(name), capsys=capsys)
    assert report["asked"] == (RECORDINGS / name / "prompt").read_text().strip()
    assert (report["status"], report["why"], report["answered"]) == ("ok", None, "All are done.")
    assert (report["tool_calls"], report["tools"]) == (3, {"Read": 1, "Bash": 1, "Write": 1})
    assert (report["files_changed"], report["files"], report["errors"]) == (1, ["new.txt"], 0)
    assert report["tokens"] == {"input": 203, "output": 2009, "cache_read": 615, "cache_write": 114}
    assert report["usage_complete"] is True
    assert report["time_ms"]["tools"] > 0
    assert report["links"] == []


def test_errors_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    failing = reported(output("2.1.325-fails-stream"), capsys=capsys)
    assert (failing["errors"], failing["status"]) == (len(failing["error_messages"]), "ok")
    assert any(message.startswith("Bash: Exit code 3") for message in failing["error_messages"])
    refused = reported(output("2.1.325-refused-stream"), capsys=capsys)
    assert (refused["status"], refused["why"]) == ("error", "API Error: 400 scripted failure")


def test_run_reported_as_an_error_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its last turn may look well all the same: `--max-budget-usd`, for example."""
    lines = [json.loads(line) for line in Path(output("2.1.325-hello-stream")).read_text().splitlines()]
    lines[-1] |= {"is_error": True, "subtype": "error_max_budget_usd"}
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = reported(str(tmp_path / "run.jsonl"), "--fail-on", "error", capsys=capsys, code=1)
    assert (report["status"], report["why"]) == ("error", "error_max_budget_usd")


def test_several_runs_are_added_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("2.1.325-hello-stream", "2.1.325-tools-stream")
    (tmp_path / "runs.jsonl").write_bytes(b"".join(Path(output(name)).read_bytes() for name in names))
    report = reported(str(tmp_path / "runs.jsonl"), capsys=capsys)
    each = [reported(output(name), capsys=capsys) for name in names]
    assert report["turns"] == 2
    assert report["cost_usd"] == pytest.approx(sum(one["cost_usd"] for one in each))


def test_langfuse_has_a_link(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC_TRACE_DESTINATIONS", "langfuse")
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-lf-1")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-1")
    monkeypatch.setenv("LANGFUSE_BASE_URL", "https://traces.example/")
    monkeypatch.setenv("CC_TRACE_TRACEPARENT", f"00-{'a' * 32}-{'b' * 16}-01")
    (link,) = reported(output("2.1.325-hello-stream"), capsys=capsys)["links"]
    assert link.startswith("https://traces.example/trace/")
    assert main(["report", output("2.1.325-hello-stream"), "--format", "markdown"]) == 0
    assert f"| trace | <{link}> |" in capsys.readouterr().out


def test_the_link_is_that_of_the_trace_that_was_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that joined a pipeline's trace is found there, also by who reports without the variable."""
    monkeypatch.setenv("CC_TRACE_TRACEPARENT", f"00-{'a' * 32}-{'b' * 16}-01")
    assert main(["ingest", output("2.1.325-hello-stream")]) == 0
    monkeypatch.delenv("CC_TRACE_TRACEPARENT")
    monkeypatch.setenv("CC_TRACE_DESTINATIONS", "langfuse")
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk-lf-1")
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-1")
    capsys.readouterr()
    by_file = reported(output("2.1.325-hello-stream"), capsys=capsys)["links"]
    by_id = reported("eb4e4d28-e60d-506b-af76-2518e00dee3b", capsys=capsys)["links"]
    assert by_file == by_id == [f"https://cloud.langfuse.com/trace/{'a' * 32}"]


@pytest.mark.parametrize(
    ("name", "gates", "code"),
    [
        ("2.1.325-hello-stream", ["--max-cost", "0.02", "--max-minutes", "1", "--fail-on", "error"], 0),
        ("2.1.325-hello-stream", ["--max-cost", "0.01"], 1),
        ("2.1.325-tools-stream", ["--max-minutes", "0"], 1),
        ("2.1.325-refused-stream", ["--fail-on", "error"], 1),
        ("2.1.325-refused-stream", [], 0),
        ("2.1.325-turns-stream", ["--fail-on", "error"], 1),
    ],
)
def test_a_gate_sets_the_exit_code(name: str, gates: list[str], code: int) -> None:
    assert main(["report", output(name), *gates]) == code


@pytest.mark.parametrize(
    "gate", [["--max-cost", "much"], ["--max-cost", "-1"], ["--max-cost", "nan"], ["--max-minutes", "inf"]]
)
def test_a_wrong_option_is_wrong_usage(gate: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["report", output("2.1.325-hello-stream"), *gate])
    assert ended.value.code == 2


def test_unknown_cost_fails_the_gate(tmp_path: Path) -> None:
    """A killed run reports no cost, and its model has no price."""
    lines = Path(output("2.1.325-hello-stream")).read_text().splitlines()[:-1]
    (tmp_path / "run.jsonl").write_text("\n".join(lines).replace("claude-sonnet-4-5-20250929", "unheard-of") + "\n")
    assert main(["report", str(tmp_path / "run.jsonl"), "--max-cost", "100"]) == 1


def test_markdown_is_a_table_in_which_nothing_is_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a|b\n\n# big <img src=x> [link](http://x.example) @team `code` **bold** _it_ www.x.example &lt;"
    lines = [json.loads(line) for line in Path(output("2.1.325-hello-stream")).read_text().splitlines()]
    lines[1]["message"]["content"][0]["text"] = hostile
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    main(["report", str(tmp_path / "run.jsonl"), "--format", "markdown", "--max-cost", "0.01"])
    printed = capsys.readouterr().out
    assert printed.startswith("| Claude Code | |\n|---|---|\n| session id | <code>eb4e4d28")
    assert "**Failed:** cost_usd is 0.015667; the limit is 0.01" in printed
    (answered,) = [row for row in printed.splitlines() if row.startswith("| answer |")]
    text = answered.removeprefix("| answer | <code>").removesuffix("</code> |")
    assert html.unescape(text) == " ".join(hostile.split())
    assert not set("|<>[](){}*_`@.:!#~\\&") & set(re.sub(r"&#\d+;", "", text))


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_secrets_are_masked(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job's summary is read by others than the session was."""
    data = Path(output("2.1.325-hello-stream")).read_text().replace("Hello there", f"Hello {KEY}")
    (tmp_path / "run.jsonl").write_text(data)
    assert main(["report", str(tmp_path / "run.jsonl"), "--format", form]) == 0
    printed = capsys.readouterr().out
    assert "Hello" in printed
    assert KEY not in html.unescape(printed)


def test_report_without_content_has_only_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC_TRACE_CONTENT", "metadata")
    report = reported(transcript("2.1.325-tools-stream"), capsys=capsys)
    assert (report["asked"], report["answered"], report["files"]) == (None, None, [])
    assert (report["tool_calls"], report["status"], report["files_changed"]) == (3, "ok", 1)


def test_wrong_settings_show_no_texts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be masked is not known then. The figures, and with them the gates, are."""
    monkeypatch.setenv("CC_TRACE_DESTINATIONS", "nowhere")
    assert main(["report", output("2.1.325-hello-stream"), "--max-cost", "0.01"]) == 1
    printed = capsys.readouterr()
    assert "Hello" not in printed.out
    assert printed.err.startswith("cc-trace: texts are left out because the settings are wrong: ")


def test_unreadable_input_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("Hello.\n")
    assert main(["report", str(tmp_path / "text")]) == 2
    assert main(["report", str(tmp_path / "missing")]) == 2
