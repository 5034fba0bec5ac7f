"""The real Claude Code with our hook: what arrived at the backend is what the API served."""

from __future__ import annotations

import json
import re
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from arrived import Arrived, facts_of
from clock import untimely
from expected import cut, expected, own_tokens
from processes import descendants, started_in
from scenario import EVERY
from versions import CURRENT

if TYPE_CHECKING:
    from scenario import Scenario
    from theatre import Theatre

_LONGEST_MS: Final = 5000  # on a machine that is very busy; what it was is printed at the end
_MEDIAN_MS: Final = 500
_MS: Final = 1_000_000

each_scenario = pytest.mark.parametrize("scenario", EVERY, ids=lambda each: f"{each.name}-{each.version}")


@each_scenario
def test_what_was_served_arrived_once(theatre: Theatre, scenario: Scenario) -> None:
    """Every response with its tokens, every tool, every agent in its place, prompt and final text; nothing twice."""
    stage = theatre.played(scenario)
    arrived = Arrived(stage.sink.spans)
    assert stage.api.unscripted == []
    assert arrived.twice() == []
    assert arrived.astray() == []
    assert arrived.turns() == expected(stage.api.exchanges, stage.unusual)


@each_scenario
def test_spans_are_when_it_happened(theatre: Theatre, scenario: Scenario) -> None:
    """While the scenario was played; children in their parents' time; a response when it was asked for."""
    stage = theatre.played(scenario)
    asked_ns = {each.message.id: each.asked_ns for each in stage.api.exchanges if each.message is not None}
    assert untimely(stage.sink.spans, stage.began_ns, stage.ended_ns, asked_ns) == []


@pytest.mark.parametrize(
    "scenario",
    [each for each in EVERY if each.play.__module__ == "scenarios.time_spent"],
    ids=lambda each: f"{each.name}-{each.version}",
)
def test_time_is_told_by_what_took_it(theatre: Theatre, scenario: Scenario) -> None:
    """At least as long as it took, and nothing for what did not happen."""
    stage = theatre.played(scenario)
    (turn,) = [span for span in stage.sink.spans if not span.parent_span_id]
    spent: dict[str, int] = json.loads(facts_of(turn)["cc_trace.time_ms"])
    assert sum(spent.values()) == turn.end_time_unix_nano // _MS - turn.start_time_unix_nano // _MS
    least = stage.spent_ms
    assert {kind: spent[kind] >= ms for kind, ms in least.items()} == dict.fromkeys(least, True), spent
    waits = ("permission", "hooks", "retries", "idle")
    assert {kind: spent[kind] for kind in waits if kind not in least and spent[kind]} == {}


@each_scenario
def test_the_session_does_not_notice(theatre: Theatre, scenario: Scenario) -> None:
    """The hook is called at every Stop and at the end, prints nothing, fails never, and takes no time to speak of."""
    stage = theatre.played(scenario)
    calls = stage.home.hook_calls()
    assert [call for call in calls if (call.code, call.stdout, call.stderr) != (0, "", "")] == []
    assert [call for call in calls if call.ms > _LONGEST_MS] == []
    # Which the current version tells, of a plugin's hook too.
    assert stage.transcripts.hook_output(ours=stage.has_other_hooks) == []
    turns = expected(stage.api.exchanges, stage.unusual).values()
    least = Counter(Stop=sum(turn.status == "ok" for session in turns for turn in session), SessionEnd=1)
    assert not stage.home.watched or Counter(call.event for call in calls) >= least


@each_scenario
def test_the_log_tells_of_nothing_wrong(theatre: Theatre, scenario: Scenario) -> None:
    """It tells what was sent, and where the backend was not well what is behind; nothing else happened."""
    stage = theatre.played(scenario)
    told = re.compile(r"\S+ otlp: \d+ spans? sent" + (r"(?:, \d+ pending: .+)?" if stage.may_be_behind else ""))
    assert [line for line in stage.home.log() if not told.fullmatch(line)] == []


@each_scenario
def test_tokens_are_claude_codes_own(theatre: Theatre, scenario: Scenario) -> None:
    """Where Claude Code wrote its totals, ours are the same by model.

    They include what it spent on its own business, in whatever session it then was, and what a fork copied; they
    leave out responses that were broken off.
    """
    stage = theatre.played(scenario)
    reported: dict[str, Counter[str]] = {}
    counted = own_tokens(stage.api.exchanges)
    tokens, left_out = Arrived(stage.sink.spans).tokens(), cut(stage.api.exchanges)
    for session, models in stage.transcripts.reported_tokens().items():
        for model, spent in models.items():
            reported.setdefault(model, Counter()).update(spent)
        for model, spent in (tokens[id_] for id_ in stage.transcripts.responses(session) & tokens.keys() - left_out):
            counted.setdefault(model, Counter()).update(spent)
    assert bool(reported) == (scenario.version == CURRENT)  # the versions before did not tell
    assert not reported or counted == reported


@each_scenario
def test_cost_is_claude_codes_own(theatre: Theatre, scenario: Scenario) -> None:
    """Where Claude Code wrote its price, and spent nothing on its own business, ours is the same."""
    stage = theatre.played(scenario)
    reported = {} if own_tokens(stage.api.exchanges) else stage.transcripts.reported_cost_usd()
    costs, left_out = Arrived(stage.sink.spans).costs_usd(), cut(stage.api.exchanges)
    counted = {
        session: sum(costs[id_] for id_ in stage.transcripts.responses(session) & costs.keys() - left_out)
        for session in reported
    }
    assert counted == pytest.approx(reported)


@each_scenario
def test_nothing_leaves_the_machine(theatre: Theatre, scenario: Scenario) -> None:
    """The proxy is asked for nothing; what 2.0 asks of it all the same was refused.

    What goes past the proxy is not seen. It gets nowhere in `unshare -rn sh -c 'ip link set lo up && make test-e2e'`.
    """
    asked = set(theatre.played(scenario).api.outside)
    assert asked <= ({"api.anthropic.com:443"} if scenario.version.startswith("2.0.") else set())


@each_scenario
def test_nothing_is_left_lying_about(theatre: Theatre, scenario: Scenario) -> None:
    """No file in the folder for temporary files, nor in the user's home, but those that are known."""
    assert theatre.played(scenario).home.litter() == []


def test_nothing_is_left_in_the_real_home(theatre: Theatre) -> None:
    """The home of whoever runs the tests: nothing named after us is new there."""
    assert theatre.litter() == set()


@pytest.mark.parametrize("event", ["Stop", "SessionEnd"])
def test_sessions_are_not_held_up(theatre: Theatre, event: str) -> None:
    """Over all scenarios, a call of the hook takes a moment."""
    taken = [call.ms for call in theatre.hook_calls() if call.event == event]
    assert statistics.median(taken) < _MEDIAN_MS


def test_no_process_is_left(theatre: Theatre) -> None:
    """When all is over, nothing that it started runs any more, wherever it went."""
    theatre.all_played()
    assert descendants() == {}
    assert started_in(theatre.folder) == {}
