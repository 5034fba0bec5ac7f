"""Which agent's work belongs under which tool call.

Every link is optional, in both directions: an agent is found by its meta file, by the result of its call, by its
prompt, by its workflow's directory, or by the turn it ran in. What cannot be linked hangs under its turn; nothing
is left out and nothing hangs in two places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from cc_trace.entries import Prompt, Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cc_trace.entries import Entry
    from cc_trace.turns import Call, Turn

# Claude Code's own helpers, not work the user asked for.
_HELPERS: Final = ("acompact-", "aprompt_suggestion-")
_WARM_UP: Final = "Warmup"


@dataclass(slots=True)
class Agent:
    """One agent and how its work is read. `turns` is None until it has been read."""

    id: str | None
    read: Callable[[], list[Turn]]
    source: Literal["file", "sidechain", "progress"] = "file"
    kind: str | None = None
    description: str | None = None
    name: str | None = None
    stage: str | None = None
    tool_use_id: str | None = None
    parent_id: str | None = None
    run_id: str | None = None
    prompt: str | None = None
    prompt_id: str | None = None
    start_ns: int | None = None
    session_id: str | None = None
    written_ns: int | None = None  # when its file was last written to
    at_rest: bool = False  # its file has not changed for long: nothing more will come
    turns: list[Turn] | None = None

    @property
    def helper(self) -> bool:
        """Tell whether this is Claude Code's own business."""
        own = self.id is not None and self.id.startswith(_HELPERS)
        return own or (self.prompt is not None and self.prompt.strip() == _WARM_UP)

    def take(self, after_ns: int | None = None, before_ns: int | None = None, *, timed: bool = False) -> Turn | None:
        """Return its next run that hangs nowhere yet and started between these times, as far as they are known.

        With `timed`, only one whose time is known.
        """
        if self.turns is None:
            if after_ns is not None and self.written_ns is not None and self.written_ns < after_ns:
                return None  # not read at all: a long session has hundreds of agents that ended long ago
            self.turns = self.read()
        for index, turn in enumerate(self.turns):
            start_ns = turn.start.head.time_ns
            if start_ns is None and timed:
                continue
            if start_ns is not None and after_ns is not None and start_ns < after_ns:
                continue
            if start_ns is not None and before_ns is not None and start_ns >= before_ns:
                continue
            return self.turns.pop(index)
        return None


@dataclass(slots=True)
class Runs:
    """Agents' runs below a turn: by the call that started them, and those without a call."""

    by_call: dict[str, list[Run]] = field(default_factory=dict)
    loose: list[Run] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """One run of an agent in its place, with the runs that its own calls started."""

    agent: Agent
    turn: Turn
    ended: bool  # nothing more will come
    status: str | None = None  # how it ended, where a notification says so
    below: Runs = field(default_factory=Runs)


class Agents:
    """The agents of a session; each run is handed out once."""

    def __init__(self, agents: Iterable[Agent], ended: set[str]) -> None:
        # An agent starts before those that it starts: in this order a parent finds its place first.
        own = [agent for agent in agents if not agent.helper]
        self._agents = sorted(own, key=lambda agent: (agent.start_ns is None, agent.start_ns or 0))
        self._ended = ended  # tasks and calls that are known to have ended in later turns

    def below(self, turn: Turn, inline: Iterable[Agent], until_ns: int | None, *, followed: bool) -> Runs:
        """Return the runs that belong under a turn of the main thread.

        `inline` are agents known only from this turn's own lines. `until_ns` is when the next turn started, None
        for the last one; `followed` says whether there is a next one.
        """
        known = {agent.id for agent in self._agents if agent.id is not None}
        present = [*self._agents, *(agent for agent in inline if not agent.helper and agent.id not in known)]
        runs = self._linked(turn, present)
        self._further(runs, turn, present, until_ns, followed=followed)
        # What ran before this turn belongs to an earlier one, which may lie before the place reading began at.
        after_ns = turn.start.head.time_ns if turn.number > 1 else None
        for agent in present:
            elsewhere = agent.parent_id is not None and agent.parent_id in known
            if elsewhere and followed:
                continue
            lines_here = agent.source != "file"
            if not lines_here and agent.prompt_id is not None and agent.prompt_id == turn.start.head.prompt_id:
                if (run := agent.take()) is not None:
                    runs.loose.append(self._run(agent, run, present, ended=agent.at_rest or bool(agent.turns)))
            # What has no time waits for the last turn: it may still be found to belong to a call.
            elif followed and not lines_here and not _before(agent.start_ns, until_ns):
                continue
            over = agent.at_rest or (turn.closed and lines_here)  # nothing tells when another one ends
            here = (None, None) if lines_here else (after_ns, until_ns)
            while (run := agent.take(*here, timed=followed and not lines_here)) is not None:
                runs.loose.append(self._run(agent, run, present, ended=over or bool(agent.turns)))
        return runs

    def _further(self, runs: Runs, turn: Turn, present: list[Agent], until_ns: int | None, *, followed: bool) -> None:
        """Add the runs of agents that went on without a call that names them: they follow the last one that does."""
        if followed and until_ns is None:
            return
        calls = _about_agents(turn, present)[::-1]
        for agent in present:
            call = next((call for call in calls if _names(call, agent)), None)
            while call is not None and (run := agent.take(call.start_ns, until_ns)) is not None:
                made = self._run_of(agent, run, call, turn, present)
                made.ended = agent.at_rest or bool(agent.turns) or agent.id in turn.ended or agent.id in self._ended
                runs.by_call.setdefault(call.id, []).append(made)

    def _linked(self, turn: Turn, present: list[Agent]) -> Runs:
        runs = Runs()
        for call in _about_agents(turn, present):
            for agent in present:
                if not _names(call, agent) or (agent.source == "sidechain" and call.id in runs.by_call):
                    continue
                spawned = agent.tool_use_id == call.id or agent.source != "file"
                if (run := agent.take(None if spawned else call.start_ns)) is not None:
                    runs.by_call.setdefault(call.id, []).append(self._run_of(agent, run, call, turn, present))
        return runs

    def _run_of(self, agent: Agent, run: Turn, call: Call, turn: Turn, present: list[Agent]) -> Run:
        result, use = call.result, call.use
        continued = use.agent_id is not None
        # A message to an agent is answered at once, whatever becomes of it; a call that tells it all waits for the end.
        waited = result is not None and result.task_id is None and result.run_id is None
        waited = waited and (use.prompt is not None or not continued)
        # The end of an agent's first run says nothing of a later one.
        names = {call.id} if continued else {call.id, agent.id}
        ended = waited or agent.at_rest or (agent.source != "file" and turn.closed)
        ended = ended or not names.isdisjoint(turn.ended) or not names.isdisjoint(self._ended)
        made = self._run(agent, run, present, ended=ended)
        made.status = turn.ended.get(agent.id or "") or turn.ended.get(call.id)
        return made

    def _run(self, agent: Agent, run: Turn, present: list[Agent], *, ended: bool) -> Run:
        below = self._linked(run, present)
        for child in present:
            if child.parent_id is not None and child.parent_id == agent.id:
                while (lost := child.take()) is not None:
                    below.loose.append(self._run(child, lost, present, ended=ended))
        return Run(agent, run, ended, None, below)


def _before(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def _about_agents(turn: Turn, present: list[Agent]) -> list[Call]:
    """Return the calls that can have to do with an agent at all: few can, and sessions have thousands."""
    ids = {agent.tool_use_id for agent in present}
    return [
        call
        for call in turn.calls.values()
        if call.id in ids
        or call.use.prompt is not None
        or call.use.agent_id is not None
        or (call.result is not None and (call.result.agent_id is not None or call.result.run_id is not None))
    ]


def _names(call: Call, agent: Agent) -> bool:
    """Tell whether a call started an agent, or told it to go on."""
    if agent.tool_use_id is not None and agent.tool_use_id == call.id:
        return True
    names = (agent.id, agent.name)
    if call.use.agent_id is not None and call.use.agent_id in names:
        return True
    result = call.result
    if result is not None:
        if result.agent_id is not None and result.agent_id in names:
            return True
        if result.run_id is not None and result.run_id == agent.run_id:
            return True
    return agent.source == "sidechain" and agent.prompt is not None and agent.prompt == call.use.prompt


def sidechains(entries: list[Entry], read: Callable[[list[Entry]], list[Turn]]) -> list[Agent]:
    """Tell apart the agents whose lines stand in the main file (up to 1.0.x), by the chain of their uuids."""
    chains: list[list[Entry]] = []
    member: dict[str, list[Entry]] = {}
    for entry in entries:
        head = entry.head
        if head is None:
            continue
        chain = member.get(head.parent_uuid or "")
        if chain is None:
            chain = [] if isinstance(entry, Prompt) or not chains else chains[-1]
            if not chain:
                chains.append(chain)
        chain.append(entry)
        if head.uuid is not None:
            member[head.uuid] = chain
    return [_inline(chain, None, None, "sidechain", read) for chain in chains if _works(chain)]


def from_progress(turn: Turn, read: Callable[[list[Entry]], list[Turn]]) -> list[Agent]:
    """Return the agents that a turn's progress lines tell of; used only where an agent has no file."""
    chains: dict[tuple[str | None, str | None], list[Entry]] = {}
    for entry in turn.progress:
        chains.setdefault((entry.agent_id, entry.tool_use_id), []).append(entry.entry)
    return [_inline(chain, *key, "progress", read) for key, chain in chains.items() if _works(chain)]


def _works(chain: list[Entry]) -> bool:
    return any(isinstance(entry, Reply) for entry in chain)


def _inline(
    chain: list[Entry],
    agent_id: str | None,
    tool_use_id: str | None,
    source: Literal["sidechain", "progress"],
    read: Callable[[list[Entry]], list[Turn]],
) -> Agent:
    prompt = next((entry for entry in chain if isinstance(entry, Prompt)), None)
    head = chain[0].head
    return Agent(
        agent_id or (head.agent_id if head is not None else None),
        lambda: read(chain),
        source,
        tool_use_id=tool_use_id,
        prompt=prompt.text if prompt is not None else None,
        start_ns=head.time_ns if head is not None else None,
    )
