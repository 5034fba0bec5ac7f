"""The real Claude Code with our hook: what arrived at the backend is what the API served."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from arrived import Arrived
from expected import cut, expected, own_tokens
from processes import started_in
from scenario import EVERY
from versions import CURRENT

if TYPE_CHECKING:
    from scenario import Scenario
    from theatre import Theatre

_LONGEST_MS: Final = 5000  # on a machine that is very busy; what it was is printed at the end

each_scenario = pytest.mark.parametrize("scenario", EVERY, ids=lambda each: f"{each.name}-{each.version}")


@each_scenario
def test_what_was_served_arrived_once(theatre: Theatre, scenario: Scenario) -> None:
    """Every response with its tokens, every tool, every agent in its place, prompt and final text; nothing twice."""
    stage = theatre.played(scenario)
    arrived = Arrived(stage.sink.spans)
    assert stage.api.unscripted == []
    assert arrived.twice() == []
    assert arrived.lost() == []
    assert arrived.turns() == expected(stage.api.exchanges, stage.unusual)


@each_scenario
def test_the_session_does_not_notice(theatre: Theatre, scenario: Scenario) -> None:
    """The hook prints nothing, fails never, and takes no time to speak of."""
    transcripts = theatre.played(scenario).transcripts
    assert transcripts.hook_output() == []
    assert [held_up_ms for held_up_ms in transcripts.held_up_ms() if held_up_ms > _LONGEST_MS] == []


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
    """Nothing but 127.0.0.1 is asked for; what 2.0 asks of others all the same was refused."""
    asked = set(theatre.played(scenario).api.outside)
    assert asked <= ({"api.anthropic.com:443"} if scenario.version.startswith("2.0.") else set())


def test_no_process_is_left(theatre: Theatre) -> None:
    """When all is over, nothing that it started runs any more."""
    theatre.all_played()
    assert started_in(theatre.folder) == {}
