"""Decides which agent's work belongs under which tool call.

An agent is matched by its meta file, its call's result, its prompt, its workflow's directory, or the turn it ran in;
each of these can be missing. Work without a matching call is placed under its turn. Nothing is dropped or placed twice.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from cc_trace.transcript import Prompt, Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from cc_trace.transcript import Entry
    from cc_trace.turns.model import Call, Turn

# Claude Code's own helpers, not work the user asked for.
_HELPERS: Final = ("acompact-", "aprompt_suggestion-")
_WARM_UP: Final = "Warmup"


@dataclass(slots=True)
class Agent:
    """One agent. `read` returns its runs; it is called when they are first needed."""

    id: str | None
    read: Callable[[], list[Turn]]
    source: Literal["file", "sidechain", "progress"] = "file"
    kind: str | None = None
    description: str | None = None
    name: str | None = None
    stage: str | None = None
    tool_use_id: str | None = None
    parent_id: str | None = None
    workflow_run_id: str | None = None
    prompt: str | None = None
    prompt_id: str | None = None
    start_ns: int | None = None
    session_id: str | None = None
    written_ns: int | None = None  # when its file was last written to
    over: bool = False  # its session is over, so its file will not grow
    at_rest: bool = False  # its file has not changed for a long time
    delegated: bool = False  # it runs a slash command, without a call: its first text is from Claude Code
    file: str | None = None  # the name of its file
    _runs: list[Turn] | None = field(default=None, init=False)  # None: not read yet
    _unplaced_runs: list[Turn] | None = field(default=None, init=False)  # None: none of them has been asked for

    @property
    def is_helper(self) -> bool:
        """Return whether this is one of Claude Code's own helpers, such as the one for compaction."""
        own = self.id is not None and self.id.startswith(_HELPERS)
        return own or (self.prompt is not None and self.prompt.strip() == _WARM_UP)

    @property
    def was_read(self) -> bool:
        """Return whether its runs have been read."""
        return self._runs is not None

    @property
    def is_exhausted(self) -> bool:
        """Return whether all of its runs are placed."""
        return self._unplaced_runs is not None and not self._unplaced_runs

    @property
    def runs(self) -> list[Turn]:
        """Return all its runs. The first call reads the file."""
        if self._runs is None:
            self._runs = self.read()
        return self._runs

    @property
    def unplaced_runs(self) -> list[Turn]:
        """Return its runs that are not placed yet."""
        if self._unplaced_runs is None:
            self._unplaced_runs = [*self.runs]
        return self._unplaced_runs

    def take_next_run(
        self,
        after_ns: int | None = None,
        before_ns: int | None = None,
        *,
        timed: bool = False,
        sent: bool = False,
        prompt_id: str | None = None,
    ) -> Turn | None:
        """Take its next unplaced run that started between these times, as far as they are known.

        With `timed`, only a run whose start is known; with `sent`, only one that a message started. A run with this
        prompt's id may start later than `before_ns`. Runs started by the agent's own tasks are left to
        `take_woken_runs`.
        """
        if self._was_last_written_before(after_ns):
            return None
        for index, run in enumerate(self.unplaced_runs):
            if (
                _started_between(run, after_ns, before_ns, timed=timed, prompt_id=prompt_id)
                and not (sent and run.start.trigger == "notification")
                and not self._woke_itself(run)
            ):
                return self.unplaced_runs.pop(index)
        return None

    def take_runs(
        self, after_ns: int | None = None, before_ns: int | None = None, *, timed: bool = False
    ) -> Iterator[Turn]:
        """Take its unplaced runs that started between these times, one after the other."""
        while (run := self.take_next_run(after_ns, before_ns, timed=timed)) is not None:
            yield run

    def take_run_for_prompt(self, prompt_id: str) -> Turn | None:
        """Take the next run for this prompt. The first run may have the prompt's id only on a later line."""
        for index, run in enumerate(self.unplaced_runs):
            own_prompt_id = run.start.head.prompt_id or (self.prompt_id if run is self.runs[0] else None)
            if own_prompt_id == prompt_id and not self._woke_itself(run):
                return self.unplaced_runs.pop(index)
        return None

    def take_woken_runs(self, run: Turn) -> Iterator[tuple[str, Turn]]:
        """Take the runs that began because a task of this run ended, each with the call that launched the task.

        If a task of such a run resumed the agent again, that run gets the same call. Otherwise an agent that waits in a
        loop would add a level to the tree with each round.
        """
        launching_call = {call: call for call in run.calls}
        for woken in [*self.unplaced_runs]:
            call = woken.start.launched_by
            if woken.start.trigger == "notification" and call is not None and call in launching_call:
                self.unplaced_runs.remove(woken)
                launching_call.update(dict.fromkeys(woken.calls, launching_call[call]))
                yield launching_call[call], woken

    def _was_last_written_before(self, time_ns: int | None) -> bool:
        """Return whether its file has not been read, and need not be: it was last written before this time.

        A long session has hundreds of agents that ended long ago.
        """
        unread = self._unplaced_runs is None and self.written_ns is not None
        return unread and time_ns is not None and self.written_ns is not None and self.written_ns < time_ns

    def _woke_itself(self, run: Turn) -> bool:
        """Return whether a run was started by the end of a task that the agent itself launched."""
        call = run.start.launched_by
        return call is not None and any(call in run.calls for run in self.runs)

    def is_waiting(self) -> bool:
        """Return whether tasks that it launched are still running; the end of one resumes the agent."""
        running: dict[str, str] = {}
        for turn in self.runs:
            woken_by = turn.start.launched_by
            running = {
                task: call for task, call in running.items() if task not in turn.finished_tasks and call != woken_by
            }
            running |= turn.running
        return bool(running)


@dataclass(slots=True)
class Runs:
    """The agents' runs below a turn: those that a call started, by call, and the others."""

    by_call: dict[str, list[Run]] = field(default_factory=dict)
    without_call: list[Run] = field(default_factory=list)

    def each(self) -> Iterator[Run]:
        """Yield all runs, including those of agents' agents."""
        for run in (*chain.from_iterable(self.by_call.values()), *self.without_call):
            yield run
            yield from run.below.each()


@dataclass(slots=True)
class Run:
    """One run of an agent, with the runs that its own calls started."""

    agent: Agent
    turn: Turn
    ended: bool  # it will not change
    status: str | None = None  # how it ended, if a notification says so
    below: Runs = field(default_factory=Runs)
    parent: Agent | None = None  # the agent that started it


class _Index:
    """Agents by every key that they are looked up by: a session may have tens of thousands."""

    def __init__(self, agents: Collection[Agent]) -> None:
        self.has_agents = bool(agents)
        self.by_name: dict[str, list[Agent]] = {}
        self.by_call: dict[str, list[Agent]] = {}
        self.by_workflow: dict[str, list[Agent]] = {}
        self.by_parent: dict[str, list[Agent]] = {}
        self.by_prompt_id: dict[str, list[Agent]] = {}
        self.by_prompt: dict[str, list[Agent]] = {}  # sidechains only: elsewhere an equal prompt proves nothing
        for agent in agents:
            _add(self.by_name, agent.id, agent)
            if agent.name != agent.id:
                _add(self.by_name, agent.name, agent)
            _add(self.by_call, agent.tool_use_id, agent)
            _add(self.by_workflow, agent.workflow_run_id, agent)
            _add(self.by_parent, agent.parent_id, agent)
            _add(self.by_prompt_id, agent.prompt_id, agent)
            if agent.source == "sidechain":
                _add(self.by_prompt, agent.prompt, agent)

    def of_call(self, call: Call) -> list[Agent]:
        """Return the agents that a call started or resumed."""
        use, result = call.use, call.result
        agents = [*self.by_call.get(call.id, ())]
        if use.agent_id is not None:
            agents += self.by_name.get(use.agent_id, ())
        if result is not None:
            if result.agent_id is not None:
                agents += self.by_name.get(result.agent_id, ())
            if result.workflow_run_id is not None:
                agents += self.by_workflow.get(result.workflow_run_id, ())
        if use.prompt is not None and self.by_prompt:
            agents += self.by_prompt.get(use.prompt, ())
        return agents if len(agents) < 2 else [*{id(agent): agent for agent in agents}.values()]  # noqa: PLR2004


def _add(index: dict[str, list[Agent]], key: str | None, agent: Agent) -> None:
    if key is not None:
        index.setdefault(key, []).append(agent)


class Agents:
    """The agents of a session; each run is placed once."""

    def __init__(self, agents: Iterable[Agent], ended: set[str]) -> None:
        # An agent starts before its own agents, so in this order parents are placed first.
        own = [agent for agent in agents if not agent.is_helper]
        own.sort(key=_by_start)
        self._index = _Index(own)
        self._later = deque(own)  # agents that begin after the current turn
        self._begun: list[Agent] = []  # agents that have begun and have unplaced runs
        self._ended = ended  # tasks and calls known to end in later turns

    def place_below(self, turn: Turn, inline: Iterable[Agent], until_ns: int | None, *, followed: bool) -> Runs:
        """Place and return the runs that belong under a turn of the main thread. Turns are passed in order.

        `inline`: agents known only from this turn's own lines. `until_ns`: when the next turn started, None
        for the last turn. `followed`: whether there is a next turn.
        """
        inline = [agent for agent in inline if not agent.is_helper and agent.id not in self._index.by_name]
        indexes = [index for index in (self._index, _Index(inline)) if index.has_agents]
        if not indexes:
            return Runs()
        placement = _Placement(turn, indexes, self._ended, until_ns if followed else None)
        runs = placement.place_linked(turn)
        if not followed or until_ns is not None:
            placement.place_continued(runs)
        self._add_begun(until_ns, followed=followed)
        for agent in self._without_call(turn, followed=followed):
            over = agent.over or bool(turn.delegated and turn.command_output)
            for run in _take_without_call(agent, turn, until_ns, followed=followed):
                runs.without_call.append(placement.place_run(agent, run, ended=over))
        for agent in inline:
            for run in agent.take_runs():
                runs.without_call.append(placement.place_run(agent, run, ended=agent.over or turn.closed))
        return runs

    def _add_begun(self, until_ns: int | None, *, followed: bool) -> None:
        """Add the agents that began before the next turn."""
        later = self._later
        while later and (not followed or _before(later[0].start_ns, until_ns)):
            self._begun.append(later.popleft())
        self._begun = [agent for agent in self._begun if not agent.is_exhausted]

    def _without_call(self, turn: Turn, *, followed: bool) -> list[Agent]:
        """Return the agents that may have runs under this turn without a matching call, in the order they began.

        Runs of an agent with a known parent are placed with that parent's, or under the last turn.
        """
        prompt_id = turn.start.head.prompt_id
        prompted = self._index.by_prompt_id.get(prompt_id, ()) if prompt_id is not None else ()
        agents = [*{id(agent): agent for agent in (*self._begun, *prompted)}.values()]
        agents.sort(key=_by_start)
        if not followed:
            return agents
        return [agent for agent in agents if agent.parent_id is None or agent.parent_id not in self._index.by_name]

    def is_waiting(self, turn: Turn) -> bool:
        """Return whether an agent of this turn is waiting for tasks of its own."""
        agents = chain.from_iterable(map(self._index.of_call, turn.calls.values()))
        return any(agent.is_waiting() for agent in agents)


def _take_without_call(agent: Agent, turn: Turn, until_ns: int | None, *, followed: bool) -> Iterator[Turn]:
    """Take an agent's runs that belong under a turn by their prompt's id, else by their time."""
    prompt_id = turn.start.head.prompt_id
    for_prompt = prompt_id is not None and agent.prompt_id == prompt_id
    if for_prompt and (run := agent.take_run_for_prompt(prompt_id or "")) is not None:
        yield run
    elif followed and not _before(agent.start_ns, until_ns):
        return
    # A run from before this turn belongs to an earlier turn, possibly one before the point where reading started. A run
    # without a time is kept for the last turn: a later call may still refer to it.
    after_ns = turn.start.head.time_ns if turn.number > 1 else None
    yield from agent.take_runs(after_ns, until_ns, timed=followed)


def _by_start(agent: Agent) -> tuple[bool, int]:
    return agent.start_ns is None, agent.start_ns or 0


class _Placement:
    """Places the runs below one turn of the main thread."""

    def __init__(self, turn: Turn, indexes: list[_Index], ended: set[str], until_ns: int | None) -> None:
        self.turn = turn
        self._indexes = indexes
        self._ended = ended
        self._until_ns = until_ns

    def place_linked(self, turn: Turn, parent: Agent | None = None) -> Runs:
        """Place and return the runs of agents that a turn's calls refer to. `parent`: the agent whose run it is."""
        runs = Runs()
        for call in turn.calls.values():
            for agent in self._agents_of(call):
                if agent.source == "sidechain" and call.id in runs.by_call:
                    continue
                if (run := self._take_run_of(call, agent, parent)) is not None:
                    self._place_under_call(runs, agent, run, call, parent)
        return runs

    def _take_run_of(self, call: Call, agent: Agent, parent: Agent | None) -> Turn | None:
        """Take the run that a call started: the first run if the call launched the agent, else the next one."""
        if agent.tool_use_id == call.id or agent.source != "file":
            return agent.take_next_run()
        until_ns = self._until_ns if parent is None else None
        sent = call.use.agent_id is not None
        return agent.take_next_run(call.start_ns, until_ns, sent=sent, prompt_id=self.turn.start.head.prompt_id)

    def place_continued(self, runs: Runs) -> None:
        """Place the runs of agents that continued without a call under the last call that refers to the agent."""
        last: dict[int, tuple[Agent, Call]] = {}
        for call in self.turn.calls.values():
            last.update({id(agent): (agent, call) for agent in self._agents_of(call)})
        for agent, call in last.values():
            for run in agent.take_runs(call.start_ns, self._until_ns):
                self._place_under_call(runs, agent, run, call, None, continued=True)

    def _agents_of(self, call: Call) -> list[Agent]:
        return [agent for index in self._indexes for agent in index.of_call(call)]

    def _place_under_call(
        self, runs: Runs, agent: Agent, run: Turn, call: Call, parent: Agent | None, *, continued: bool = False
    ) -> None:
        """Place a run under its call. That an agent's first run ended does not mean that a later one did."""
        turn = self.turn
        ids = {call.id} if call.use.agent_id is not None else {call.id, agent.id}
        ended = agent.source != "file" and turn.closed
        ended = ended or (not continued and _is_waited_for(call))
        ended = ended or not ids.isdisjoint(turn.finished_tasks) or not ids.isdisjoint(self._ended)
        placed = self.place_run(agent, run, ended=ended)
        placed.status = turn.finished_tasks.get(agent.id or "") or turn.finished_tasks.get(call.id)
        placed.parent = parent
        runs.by_call.setdefault(call.id, []).append(placed)

    def place_run(self, agent: Agent, run: Turn, *, ended: bool) -> Run:
        """Return a run with everything below it. `ended`: the agent is known to have ended after its last run.

        A run is over if there is a later one. An unfinished run is not over just because its file has been
        unchanged for a long time: a tool may be running.
        """
        below = self.place_linked(run, agent)
        for call, woken in agent.take_woken_runs(run):
            placed = Run(
                agent=agent,
                turn=woken,
                ended=self._is_over(agent, woken, ended=ended),
                below=self.place_linked(woken, agent),
                parent=agent,
            )
            below.by_call.setdefault(call, []).append(placed)
        self._place_children(agent, below, ended=ended)
        return Run(agent=agent, turn=run, ended=self._is_over(agent, run, ended=ended), below=below)

    def _place_children(self, agent: Agent, below: Runs, *, ended: bool) -> None:
        """Place the runs of agents whose parent is known, but not the call."""
        for index in self._indexes:
            for child in index.by_parent.get(agent.id or "", ()):
                if any(child.tool_use_id in turn.calls for turn in agent.runs):
                    continue  # belongs to another run
                for run in child.take_runs():
                    placed = self.place_run(child, run, ended=ended)
                    placed.parent = agent
                    below.without_call.append(placed)

    @staticmethod
    def _is_over(agent: Agent, run: Turn, *, ended: bool) -> bool:
        has_later = agent.runs[-1] is not run
        return ended or agent.over or has_later or (agent.at_rest and run.resting)


def _is_waited_for(call: Call) -> bool:
    """Return whether the call returns only when the agent has ended."""
    result, use = call.result, call.use
    if result is None or result.task_id is not None or result.workflow_run_id is not None:
        return False
    return use.prompt is not None or use.agent_id is None  # a message returns at once


def _started_between(
    run: Turn, after_ns: int | None, before_ns: int | None, *, timed: bool, prompt_id: str | None
) -> bool:
    """Return whether a run started between these times, as `Agent.take_next_run` defines it."""
    head = run.start.head
    start_ns = head.time_ns
    if start_ns is None:
        return not timed
    if after_ns is not None and start_ns < after_ns:
        return False
    same_prompt = prompt_id is not None and head.prompt_id == prompt_id
    return before_ns is None or start_ns < before_ns or same_prompt


def _before(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def sidechain_agents(entries: list[Entry], read: Callable[[list[Entry]], list[Turn]]) -> list[Agent]:
    """Return the agents whose lines are in the main file (up to 1.0.x), separated by following their uuids."""
    sidechains: list[list[Entry]] = []
    sidechain_of: dict[str, list[Entry]] = {}  # by the uuid of each of its lines
    for entry in entries:
        head = entry.head
        if head is None:
            continue
        sidechain = sidechain_of.get(head.parent_uuid or "")
        if sidechain is None:
            sidechain = [] if isinstance(entry, Prompt) or not sidechains else sidechains[-1]
            if not sidechain:
                sidechains.append(sidechain)
        sidechain.append(entry)
        if head.uuid is not None:
            sidechain_of[head.uuid] = sidechain
    return [_inline(sidechain, None, None, "sidechain", read) for sidechain in sidechains if _has_response(sidechain)]


def progress_agents(turn: Turn, read: Callable[[list[Entry]], list[Turn]]) -> list[Agent]:
    """Return the agents in a turn's progress lines; used only for agents without a file."""
    entries_by_agent: dict[tuple[str | None, str | None], list[Entry]] = {}
    for line in turn.progress:
        entries_by_agent.setdefault((line.agent_id, line.tool_use_id), []).append(line.entry)
    return [
        _inline(entries, *ids, "progress", read) for ids, entries in entries_by_agent.items() if _has_response(entries)
    ]


def _has_response(entries: list[Entry]) -> bool:
    return any(isinstance(entry, Reply) for entry in entries)


def _inline(
    entries: list[Entry],
    agent_id: str | None,
    tool_use_id: str | None,
    source: Literal["sidechain", "progress"],
    read: Callable[[list[Entry]], list[Turn]],
) -> Agent:
    prompt = next((entry for entry in entries if isinstance(entry, Prompt)), None)
    head = entries[0].head
    return Agent(
        agent_id or (head.agent_id if head is not None else None),
        lambda: read(entries),
        source,
        tool_use_id=tool_use_id,
        prompt=prompt.text if prompt is not None else None,
        start_ns=head.time_ns if head is not None else None,
    )
