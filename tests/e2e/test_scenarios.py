"""The real Claude Code with our hook: what arrived at the backend is what the API served."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from expected import cut, expected, own_tokens
from processes import descendants, started_in
from received import ReceivedTraces, facts_of
from scenario import EVERY
from span_times import untimely
from versions import CURRENT

if TYPE_CHECKING:
    from runner import ScenarioRunner
    from scenario import Scenario

_LONGEST_MS: Final = 5000  # on a machine that is very busy; what it was is printed at the end
_MEDIAN_MS: Final = 500
_MS: Final = 1_000_000

each_scenario = pytest.mark.parametrize("scenario", EVERY, ids=lambda each: f"{each.name}-{each.version}")


@each_scenario
def test_what_was_served_arrived_once(runner: ScenarioRunner, scenario: Scenario) -> None:
    """Every response with its tokens, every tool, every agent in its place, prompt and final text; nothing twice."""
    sandbox = runner.result(scenario)
    received = ReceivedTraces(sandbox.sink.spans)
    assert sandbox.api.unscripted == []
    assert received.twice() == []
    assert received.astray() == []
    assert received.turns() == expected(sandbox.api.calls, sandbox.unusual)


@each_scenario
def test_spans_are_when_it_happened(runner: ScenarioRunner, scenario: Scenario) -> None:
    """While the scenario ran; children in their parents' time; a response when it was asked for."""
    sandbox = runner.result(scenario)
    asked_ns = {each.message.id: each.asked_ns for each in sandbox.api.calls if each.message is not None}
    assert untimely(sandbox.sink.spans, sandbox.began_ns, sandbox.ended_ns, asked_ns) == []


@pytest.mark.parametrize(
    "scenario",
    [each for each in EVERY if each.run.__module__ == "scenarios.time_spent"],
    ids=lambda each: f"{each.name}-{each.version}",
)
def test_time_is_told_by_what_took_it(runner: ScenarioRunner, scenario: Scenario) -> None:
    """At least as long as it took, and nothing for what did not happen."""
    sandbox = runner.result(scenario)
    (turn,) = [span for span in sandbox.sink.spans if not span.parent_span_id]
    spent: dict[str, int] = json.loads(facts_of(turn)["cc_trace.time_ms"])
    assert sum(spent.values()) == turn.end_time_unix_nano // _MS - turn.start_time_unix_nano // _MS
    least = sandbox.spent_ms
    assert {kind: spent[kind] >= ms for kind, ms in least.items()} == dict.fromkeys(least, True), spent
    waits = ("permission", "hooks", "retries", "idle")
    assert {kind: spent[kind] for kind in waits if kind not in least and spent[kind]} == {}


@each_scenario
def test_the_session_does_not_notice(runner: ScenarioRunner, scenario: Scenario) -> None:
    """The hook is called at every Stop and at the end, prints nothing, fails never, and takes no time to speak of."""
    sandbox = runner.result(scenario)
    calls = sandbox.home.hook_calls()
    assert [call for call in calls if (call.code, call.stdout, call.stderr) != (0, "", "")] == []
    assert [call for call in calls if call.ms > _LONGEST_MS] == []
    # Which the current version tells, of a plugin's hook too.
    assert sandbox.transcripts.hook_output(ours=sandbox.has_other_hooks) == []
    turns = expected(sandbox.api.calls, sandbox.unusual).values()
    least = Counter(Stop=sum(turn.status == "ok" for session in turns for turn in session), SessionEnd=1)
    assert not sandbox.home.watched or Counter(call.event for call in calls) >= least


@each_scenario
def test_the_log_tells_of_nothing_wrong(runner: ScenarioRunner, scenario: Scenario) -> None:
    """It tells what was sent, and where the backend was not well what is behind; nothing else happened."""
    sandbox = runner.result(scenario)
    expected_line = re.compile(
        r"\S+ otlp: \d+ spans? sent" + (r"(?:, \d+ pending: .+)?" if sandbox.may_be_pending else "")
    )
    assert [line for line in sandbox.home.log() if not expected_line.fullmatch(line)] == []


@each_scenario
def test_tokens_are_claude_codes_own(runner: ScenarioRunner, scenario: Scenario) -> None:
    """Where Claude Code wrote its totals, ours are the same by model.

    They include what it spent on its own business, in whatever session it then was, and what a fork copied; they
    leave out responses that were broken off.
    """
    sandbox = runner.result(scenario)
    reported: dict[str, Counter[str]] = {}
    counted = own_tokens(sandbox.api.calls)
    tokens, left_out = ReceivedTraces(sandbox.sink.spans).tokens(), cut(sandbox.api.calls)
    for session, models in sandbox.transcripts.reported_tokens().items():
        for model, spent in models.items():
            reported.setdefault(model, Counter()).update(spent)
        for model, spent in (tokens[id_] for id_ in sandbox.transcripts.responses(session) & tokens.keys() - left_out):
            counted.setdefault(model, Counter()).update(spent)
    assert bool(reported) == (scenario.version == CURRENT)  # the versions before did not tell
    assert not reported or counted == reported


@each_scenario
def test_cost_is_claude_codes_own(runner: ScenarioRunner, scenario: Scenario) -> None:
    """Where Claude Code wrote its price, and spent nothing on its own business, ours is the same."""
    sandbox = runner.result(scenario)
    reported = {} if own_tokens(sandbox.api.calls) else sandbox.transcripts.reported_cost_usd()
    costs, left_out = ReceivedTraces(sandbox.sink.spans).costs_usd(), cut(sandbox.api.calls)
    counted = {
        session: sum(costs[id_] for id_ in sandbox.transcripts.responses(session) & costs.keys() - left_out)
        for session in reported
    }
    assert counted == pytest.approx(reported)


@each_scenario
def test_nothing_leaves_the_machine(runner: ScenarioRunner, scenario: Scenario) -> None:
    """The proxy is asked for nothing; what 2.0 asks of it all the same was refused.

    What goes past the proxy is not seen. It gets nowhere in `unshare -rn sh -c 'ip link set lo up && make test-e2e'`.
    """
    asked = set(runner.result(scenario).api.outside)
    assert asked <= ({"api.anthropic.com:443"} if scenario.version.startswith("2.0.") else set())


@each_scenario
def test_nothing_is_left_lying_about(runner: ScenarioRunner, scenario: Scenario) -> None:
    """No file in the folder for temporary files, nor in the user's home, but those that are known."""
    assert runner.result(scenario).home.leftovers() == []


def test_nothing_is_left_in_the_real_home(runner: ScenarioRunner) -> None:
    """The home of whoever runs the tests: nothing named after us is new there."""
    assert runner.leftovers() == set()


@pytest.mark.parametrize("event", ["Stop", "SessionEnd"])
def test_sessions_are_not_held_up(runner: ScenarioRunner, event: str) -> None:
    """Over all scenarios, a call of the hook takes a moment."""
    taken = [call.ms for call in runner.hook_calls() if call.event == event]
    assert statistics.median(taken) < _MEDIAN_MS


def test_no_process_is_left(runner: ScenarioRunner) -> None:
    """When all is over, nothing that it started runs any more, wherever it went."""
    runner.finished()
    assert descendants() == {}
    assert started_in(runner.folder) == {}
