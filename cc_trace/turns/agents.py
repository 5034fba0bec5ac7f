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
    from collections.abc import Callable, Iterable, Iterator

    from cc_trace.transcript import Entry
    from cc_trace.turns.model import Call, Turn

# Claude Code's own helpers, not work the user asked for.
_HELPERS: Final = ("acompact-", "aprompt_suggestion-")
_WARM_UP: Final = "Warmup"


@dataclass(slots=True)
class Agent:
    """One agent. Its file is read when its runs are first needed: until then `all_runs` and `turns` are None."""

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
    over: bool = False  # its session is over, so its file will not grow
    at_rest: bool = False  # its file has not changed for a long time
    delegated: bool = False  # it runs a slash command, without a call: its first text is from Claude Code
    file: str | None = None  # the name of its file
    turns: list[Turn] | None = None  # runs that are not placed yet
    all_runs: list[Turn] | None = None

    @property
    def is_helper(self) -> bool:
        """Return whether this is one of Claude Code's own helpers, such as the one for compaction."""
        own = self.id is not None and self.id.startswith(_HELPERS)
        return own or (self.prompt is not None and self.prompt.strip() == _WARM_UP)

    @property
    def is_exhausted(self) -> bool:
        """Return whether all of its runs are placed."""
        return self.turns is not None and not self.turns

    @property
    def runs(self) -> list[Turn]:
        """Return all its runs. The first call reads the file."""
        if self.all_runs is None:
            self.all_runs = self.read()
        return self.all_runs

    @property
    def unplaced(self) -> list[Turn]:
        """Return its runs that are not placed yet."""
        if self.turns is None:
            self.turns = [*self.runs]
        return self.turns

    def take(
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
        prompt's id may start later than `before_ns`. Runs started by the agent's own tasks are left to `take_woken`.
        """
        unread = self.turns is None and self.written_ns is not None
        if unread and after_ns is not None and self.written_ns is not None and self.written_ns < after_ns:
            return None  # without reading its file: a long session has hundreds of agents that ended long ago
        for index, turn in enumerate(self.unplaced):
            head = turn.start.head
            start_ns = head.time_ns
            if (start_ns is None and timed) or (sent and turn.start.trigger == "notification"):
                continue
            if turn.start.launched_by is not None and self._has_made(turn.start.launched_by):
                continue
            if start_ns is not None and after_ns is not None and start_ns < after_ns:
                continue
            same = prompt_id is not None and head.prompt_id == prompt_id
            if start_ns is not None and before_ns is not None and start_ns >= before_ns and not same:
                continue
            return self.unplaced.pop(index)
        return None

    def take_for_prompt(self, prompt_id: str) -> Turn | None:
        """Take the next run for this prompt. The first run may have the prompt's id only on a later line."""
        for index, turn in enumerate(self.unplaced):
            asked = turn.start.head.prompt_id or (self.prompt_id if turn is self.runs[0] else None)
            by_task = turn.start.launched_by is not None and self._has_made(turn.start.launched_by)
            if asked == prompt_id and not by_task:
                return self.unplaced.pop(index)
        return None

    def _has_made(self, call: str) -> bool:
        return any(call in run.calls for run in self.runs)

    def take_woken(self, run: Turn) -> Iterator[tuple[str, Turn]]:
        """Take the runs that began because a task of this run ended, each with the call that launched the task.

        If a task of such a run resumed the agent again, that run gets the same call. Otherwise an agent that waits in a
        loop would add a level to the tree with each round.
        """
        origin = {call: call for call in run.calls}
        for turn in [*self.unplaced]:
            call = turn.start.launched_by
            if turn.start.trigger == "notification" and call is not None and call in origin:
                self.unplaced.remove(turn)
                origin.update(dict.fromkeys(turn.calls, origin[call]))
                yield origin[call], turn

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
    """Agents by every key that a lookup can use: a session may have tens of thousands."""

    def __init__(self, agents: Iterable[Agent]) -> None:
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
            _add(self.by_workflow, agent.run_id, agent)
            _add(self.by_parent, agent.parent_id, agent)
            _add(self.by_prompt_id, agent.prompt_id, agent)
            if agent.source == "sidechain":
                _add(self.by_prompt, agent.prompt, agent)

    def named(self, call: Call) -> list[Agent]:
        """Return the agents that a call started or resumed."""
        use, result = call.use, call.result
        found = [*self.by_call.get(call.id, ())]
        if use.agent_id is not None:
            found += self.by_name.get(use.agent_id, ())
        if result is not None:
            if result.agent_id is not None:
                found += self.by_name.get(result.agent_id, ())
            if result.run_id is not None:
                found += self.by_workflow.get(result.run_id, ())
        if use.prompt is not None and self.by_prompt:
            found += self.by_prompt.get(use.prompt, ())
        return found if len(found) < 2 else [*{id(agent): agent for agent in found}.values()]  # noqa: PLR2004


def _add(index: dict[str, list[Agent]], key: str | None, agent: Agent) -> None:
    if key is not None:
        index.setdefault(key, []).append(agent)


class Agents:
    """The agents of a session; each run is placed once."""

    def __init__(self, agents: Iterable[Agent], ended: set[str]) -> None:
        # An agent starts before its own agents, so in this order parents are placed first.
        own = [agent for agent in agents if not agent.is_helper]
        own.sort(key=lambda agent: (agent.start_ns is None, agent.start_ns or 0))
        self._index = _Index(own)
        self._waiting = deque(own)  # agents that begin after the current turn
        self._begun: list[Agent] = []  # agents that have begun and have unplaced runs
        self._ended = ended  # tasks and calls known to end in later turns

    def below(self, turn: Turn, inline: Iterable[Agent], until_ns: int | None, *, followed: bool) -> Runs:
        """Return the runs that belong under a turn of the main thread.

        `inline`: agents known only from this turn's own lines. `until_ns`: when the next turn started, None
        for the last turn. `followed`: whether there is a next turn.
        """
        known = self._index.by_name
        here = [agent for agent in inline if not agent.is_helper and agent.id not in known]
        placement = _Placement(turn, (self._index, _Index(here)), self._ended, until_ns if followed else None)
        runs = placement.linked(turn)
        if not followed or until_ns is not None:
            placement.add_continued(runs)
        self._place_unnamed(placement, runs, here, until_ns, followed=followed)
        return runs

    def _place_unnamed(
        self, placement: _Placement, runs: Runs, inline: list[Agent], until_ns: int | None, *, followed: bool
    ) -> None:
        """Place the runs without a matching call by their prompt's id, else by their time."""
        turn = placement.turn
        self._begin(until_ns, followed=followed)
        # A run from before this turn belongs to an earlier turn, possibly one before the point where reading started.
        after_ns = turn.start.head.time_ns if turn.number > 1 else None
        prompt_id = turn.start.head.prompt_id
        prompted = self._index.by_prompt_id.get(prompt_id, ()) if prompt_id is not None else ()
        begun = [*{id(agent): agent for agent in (*self._begun, *prompted)}.values()]
        begun.sort(key=lambda agent: (agent.start_ns is None, agent.start_ns or 0))
        for agent in begun:
            if agent.parent_id is not None and agent.parent_id in self._index.by_name and followed:
                continue
            over = agent.over or bool(turn.delegated and turn.command_output)
            asked = prompt_id is not None and agent.prompt_id == prompt_id
            if asked and (run := agent.take_for_prompt(prompt_id or "")) is not None:
                runs.without_call.append(placement.run(agent, run, ended=over))
            # A run without a time is kept for the last turn: a later call may still refer to it.
            elif followed and not _before(agent.start_ns, until_ns):
                continue
            while (run := agent.take(after_ns, until_ns, timed=followed)) is not None:
                runs.without_call.append(placement.run(agent, run, ended=over))
        for agent in inline:
            while (run := agent.take()) is not None:
                runs.without_call.append(placement.run(agent, run, ended=agent.over or turn.closed))

    def _begin(self, until_ns: int | None, *, followed: bool) -> None:
        """Add the agents that began before the next turn."""
        waiting = self._waiting
        while waiting and (not followed or _before(waiting[0].start_ns, until_ns)):
            self._begun.append(waiting.popleft())
        self._begun = [agent for agent in self._begun if not agent.is_exhausted]

    def is_waiting(self, turn: Turn) -> bool:
        """Return whether an agent of this turn is waiting for tasks of its own."""
        named = chain.from_iterable(map(self._index.named, turn.calls.values()))
        return any(agent.is_waiting() for agent in named)


class _Placement:
    """Finds the runs below one turn of the main thread."""

    def __init__(self, turn: Turn, indexes: tuple[_Index, _Index], ended: set[str], until_ns: int | None) -> None:
        self.turn = turn
        self._indexes = indexes
        self._ended = ended
        self._until_ns = until_ns

    def linked(self, turn: Turn, within: Agent | None = None) -> Runs:
        """Return the runs of agents that a turn's calls refer to. `within`: the agent whose run the turn is."""
        runs = Runs()
        for call in turn.calls.values():
            for agent in self._named(call):
                if agent.source == "sidechain" and call.id in runs.by_call:
                    continue
                if (run := self._take_run(agent, call, within)) is not None:
                    self._place(runs, agent, run, call, within)
        return runs

    def _take_run(self, agent: Agent, call: Call, within: Agent | None) -> Turn | None:
        """Take the run that a call started: the first run if the call launched the agent, else the next one."""
        if agent.tool_use_id == call.id or agent.source != "file":
            return agent.take()
        until_ns = self._until_ns if within is None else None
        sent = call.use.agent_id is not None
        return agent.take(call.start_ns, until_ns, sent=sent, prompt_id=self.turn.start.head.prompt_id)

    def add_continued(self, runs: Runs) -> None:
        """Place the runs of agents that continued without a call under the last call that refers to the agent."""
        last: dict[int, tuple[Agent, Call]] = {}
        for call in self.turn.calls.values():
            last.update({id(agent): (agent, call) for agent in self._named(call)})
        for agent, call in last.values():
            while (run := agent.take(call.start_ns, self._until_ns)) is not None:
                self._place(runs, agent, run, call, None, continued=True)

    def _named(self, call: Call) -> list[Agent]:
        own, inline = self._indexes
        return [*own.named(call), *inline.named(call)]

    def _place(
        self, runs: Runs, agent: Agent, run: Turn, call: Call, within: Agent | None, *, continued: bool = False
    ) -> None:
        """Place a run under its call. That an agent's first run ended does not mean that a later one did."""
        turn = self.turn
        names = {call.id} if call.use.agent_id is not None else {call.id, agent.id}
        ended = agent.source != "file" and turn.closed
        ended = ended or (not continued and _is_waited_for(call))
        ended = ended or not names.isdisjoint(turn.finished_tasks) or not names.isdisjoint(self._ended)
        made = self.run(agent, run, ended=ended)
        made.status = turn.finished_tasks.get(agent.id or "") or turn.finished_tasks.get(call.id)
        made.parent = within
        runs.by_call.setdefault(call.id, []).append(made)

    def run(self, agent: Agent, run: Turn, *, ended: bool) -> Run:
        """Return a run with everything below it. `ended`: the agent is known to have ended after its last run.

        A run is over if there is a later one. An unfinished run is not over just because its file has been
        unchanged for a long time: a tool may be running.
        """
        below = self.linked(run, agent)
        for call, woken in agent.take_woken(run):
            made = Run(
                agent=agent,
                turn=woken,
                ended=self._is_over(agent, woken, ended=ended),
                status=None,
                below=self.linked(woken, agent),
                parent=agent,
            )
            below.by_call.setdefault(call, []).append(made)
        self._add_by_parent(agent, below, ended=ended)
        return Run(agent=agent, turn=run, ended=self._is_over(agent, run, ended=ended), status=None, below=below)

    def _add_by_parent(self, agent: Agent, below: Runs, *, ended: bool) -> None:
        """Place the runs of agents whose parent is known, but not the call."""
        for index in self._indexes:
            for child in index.by_parent.get(agent.id or "", ()):
                if any(child.tool_use_id in turn.calls for turn in agent.runs):
                    continue  # belongs to another run
                while (lost := child.take()) is not None:
                    made = self.run(child, lost, ended=ended)
                    made.parent = agent
                    below.without_call.append(made)

    @staticmethod
    def _is_over(agent: Agent, run: Turn, *, ended: bool) -> bool:
        later = agent.runs[-1] is not run
        return ended or agent.over or later or (agent.at_rest and run.resting)


def _is_waited_for(call: Call) -> bool:
    """Return whether the call returns only when the agent has ended."""
    result, use = call.result, call.use
    if result is None or result.task_id is not None or result.run_id is not None:
        return False
    return use.prompt is not None or use.agent_id is None  # a message returns at once


def _before(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def sidechains(entries: list[Entry], read: Callable[[list[Entry]], list[Turn]]) -> list[Agent]:
    """Separate the agents whose lines are in the main file (up to 1.0.x) by following their uuids."""
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
    """Return the agents in a turn's progress lines; used only for agents without a file."""
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
