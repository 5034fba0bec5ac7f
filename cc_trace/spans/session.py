"""A session: its files become spans, and a summary of it as a whole.

`Session.spans` streams: it holds two turns in memory, never the file. The summary is complete when it has ended.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from cc_trace.files import read_regular
from cc_trace.paths import is_uuid
from cc_trace.requests import SessionRequests
from cc_trace.spans.build import from_turn
from cc_trace.spans.summary import OUTPUT_CHARS, TITLE_CHARS, SessionSummary
from cc_trace.transcript import (
    BEGINNING,
    MAX_LINE_BYTES,
    Delivered,
    Injected,
    ModeChange,
    Position,
    Prompt,
    Reply,
    Results,
    SessionNote,
    Skipped,
    ToolUse,
    Totals,
    agent_id,
    agent_meta,
    identify,
    journal_stages,
    line_time,
    parse,
    read_head,
    read_lines,
    rewound_prompts,
    scan,
)
from cc_trace.turns import Agent, Agents, Runs, Seen, assemble, progress_agents, sidechain_agents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from cc_trace.requests import RequestContent
    from cc_trace.spans.model import Span, TraceLink
    from cc_trace.transcript import AgentFile, Context, Entry, Head, Line, OpenTranscript
    from cc_trace.turns import Turn

_BATCH: Final = 64
_ASKED: Final = ("prompt", "command", "continuation", "teammate")
_TITLES: Final = ("custom-title", "ai-title", "summary")  # the first of these that exists is the session's title
_SHORT_BYTES: Final = 1 << 14
_TIMED_LINES: Final = 8  # skipped lines at either end of a file whose times are read


# How a transcript ends, as far as is known: `growing`: more may follow; `quiet`: not written to for a while; `stopped`:
# a hook said that the turn ended; `nothing_running`: and that no agent or task is running; `over`: nothing more will
# follow.
Ending: TypeAlias = Literal["growing", "quiet", "stopped", "nothing_running", "over"]
_NOTHING_RUNS: Final = ("nothing_running", "over")


@dataclass(slots=True)
class Resume:
    """Where to resume reading a session, and what is known from the turns before."""

    position: Position = BEGINNING
    turns: int = 0
    call_by_task: dict[str, str] = field(default_factory=dict)  # background tasks: id -> the call that launched it
    trace_by_call: dict[str, str] = field(default_factory=dict)  # such calls -> the trace they are in
    finished_tasks: set[str] = field(default_factory=set)  # finished tasks, and the calls that launched them


@dataclass(slots=True)
class Placed:
    """Where an agent's work is placed: the first turn that has some of it, and its parent agent's file."""

    turn: int = 0
    begin: Position = BEGINNING
    parent: str | None = None
    command: str | None = None  # the prompt's id, if it runs a slash command for the main thread
    waiting: bool = False  # it has running tasks of its own, and will continue


class Trace(NamedTuple):
    """One turn and its spans, in tree order. `awaited`: number of background agents without a file yet."""

    turn: Turn
    spans: list[Span]
    awaited: int


class Session:
    """One session, read from its transcript and its agents' files."""

    def __init__(
        self,
        path: Path,
        resume: Resume | None = None,
        *,
        ending: Ending = "growing",
        hook_ns: int | None = None,
        rest_ns: int | None = None,
        links: Mapping[int, TraceLink] | None = None,
        files: Sequence[AgentFile] | None = None,
        delivered: Mapping[str, Delivered] = MappingProxyType({}),
        transcript: OpenTranscript | None = None,
        look_ahead: bool = False,
        requests: bool = False,
        request_content: RequestContent = "none",
    ) -> None:
        """Read from `resume` on. An agent whose file has not changed since `rest_ns` counts as over.

        `hook_ns`: when the hook that reported the ending ran. Its worker may start late; turns begun since then are not
        covered by the ending.
        `links`: trace links, by the number of the first turn that each applies to.
        `files`: the agents' files to read, by default all; `delivered`: the others, which need not be read.
        `transcript`: the file at `path`, if it is already open.
        `look_ahead`: also mark turns as rewound that only later lines show to be. Deliveries do not use it: a span must
        be final before those lines are written.
        `requests`: add what filled each request's context, and why the cache was missed. Files in which requests are
        recorded are then read a second time. `request_content`: the same, and add the content of each request to the
        input of its response.
        """
        self.path = path
        self.resume = resume or Resume()
        self._ending = ending
        self._hook_ns = hook_ns
        self._rest_ns = rest_ns
        self._links = links or {}
        self._requests = SessionRequests(request_content) if requests or request_content != "none" else None
        if self._requests is not None:
            self._requests.add(path)
        self._files = files
        self._delivered = delivered
        self.finished = False  # everything has been read
        self.placed: dict[str, Placed] = {}  # file name -> the place of each agent that was read and placed
        self.agent_files_read: set[str] = set()  # by name, those that could be read
        self.agent_files_unplaced: set[str] = set()  # those of them with runs that could not be placed
        self._transcript = transcript
        session_id, self._is_agent = identify(path) if transcript is None else transcript.head.identify(path)
        self.summary = SessionSummary(session_id, is_subagent=self._is_agent)
        self._rewound = rewound_prompts(path) if look_ahead else set[str]()
        self._titles: dict[str, str] = {}
        self._summaries: dict[str, str] = {}  # a line, possibly of another session -> its summary
        self._seen = Seen()
        self._lineage: dict[str, str] = {}
        self._last_asked = -1  # offset of the last prompt
        self.summarized = False  # the last line is a summary
        self.last_turn_began_after_hook = False  # after the hook that reported the ending
        self._unanswered: list[Turn] = []  # at most one, at the end

    def has_prompt_after(self, turn: Turn | None) -> bool:
        """Return whether a prompt after this turn has no response yet."""
        return self._last_asked > (turn.start.head.offset if turn is not None else -1)

    def spans(self) -> Iterator[Span]:
        """Yield the session's spans, turn by turn, each turn's in tree order."""
        for trace in self.traces():
            yield from trace.spans

    def traces(self) -> Iterator[Trace]:
        """Yield the session's turns with their spans."""
        resume = self.resume
        with_files = [] if self._is_agent else list(self._agents_with_files())
        agents = Agents(with_files, resume.finished_tasks)
        delegated = {agent.prompt_id for agent in with_files if agent.delegated and agent.prompt_id is not None}
        delegated.update(before.command for before in self._delivered.values() if before.command is not None)
        entries, number = self._entries(), resume.turns + 1
        held: Turn | None = None
        main = not self._is_agent
        for turn in assemble(
            entries,
            self._seen,
            number=number,
            main=main,
            call_by_task=resume.call_by_task,
            delegated=delegated,
            unanswered=self._unanswered,
        ):
            if held is not None:
                yield self._trace(held, turn, agents)
            held = turn
        if held is not None:
            self.last_turn_began_after_hook = self._is_later(held.start.head.time_ns)
            held.closed |= self._is_over(held, agents)
            yield self._trace(held, None, agents)
        for turn in self._unanswered:
            texts = [*(message.text for message in turn.start.earlier), turn.start.text]
            self.summary.unanswered_prompts += [text for text in texts if text]
        self._finish(with_files)

    def unanswered(self) -> Trace | None:
        """Return the turn at the end that has no response, once all others were read, and count it in the summary.

        It is only shown, never sent: its spans get other ids with the first response.
        """
        if not self._unanswered:
            return None
        (turn,) = self._unanswered
        self.summary.turns += 1
        self._note_prompt(turn)
        root, *others = from_turn(turn, Runs(), self.summary.session_id, {})
        if root.status == "ok":
            root = root._replace(status="incomplete", error="no response")
        return Trace(turn, [root, *others], 0)

    def _is_over(self, turn: Turn, agents: Agents) -> bool:
        """Return whether the last turn counts as over although no line says so."""
        ending = self._ending_of(turn.start.head.time_ns)
        if ending in ("growing", "over"):
            return ending == "over"
        if ending == "quiet" and turn.last_activity != "stop":
            return False
        if ending != "quiet" and (turn.goal_unmet or not turn.resting):
            return False  # a Stop hook, or a goal, made the model continue
        if turn.running and ending != "nothing_running":
            return False
        waiting = any(before.waiting and before.turn == turn.number for before in self._delivered.values())
        return not waiting and not agents.is_waiting(turn)

    def _ending_of(self, began_ns: int | None) -> Ending:
        """Return the ending that applies to work begun at a time."""
        return "growing" if self._is_later(began_ns) else self._ending

    def _is_later(self, began_ns: int | None) -> bool:
        return self._hook_ns is not None and began_ns is not None and began_ns > self._hook_ns

    def _trace(self, turn: Turn, following: Turn | None, agents: Agents) -> Trace:
        inline = [*sidechain_agents(turn.sidechain, self._assembled), *progress_agents(turn, self._assembled)]
        until_ns = following.start.head.time_ns if following is not None else None
        runs = agents.place_below(turn, inline, until_ns, followed=following is not None)
        self._note_places(turn, runs)
        summary, resume = self.summary, self.resume
        summary.turns += 1
        turn.rewound |= turn.start.head.uuid in self._rewound
        unanswered = [call.use for call in turn.calls.values() if call.result is None]
        summary.pending_tool_use = unanswered[-1] if unanswered else None
        summary.max_turns_reached = turn.limit is not None
        self._note_prompt(turn)
        summary.latest_output = turn.output[:OUTPUT_CHARS] or summary.latest_output
        link = self._links.get(max((first for first in self._links if first <= turn.number), default=0))
        spans = from_turn(turn, runs, summary.session_id, resume.trace_by_call, link, self._requests)
        for span in spans:
            summary.count(span, main=span.parent_id == spans[0].span_id)
        resume.finished_tasks.update(turn.finished_tasks)
        if turn.start.launched_by is not None:
            resume.finished_tasks.add(turn.start.launched_by)
        return Trace(turn, spans, self._awaited(turn, runs))

    def _note_prompt(self, turn: Turn) -> None:
        summary = self.summary
        if turn.start.trigger in _ASKED and not summary.first_prompt:
            summary.first_prompt = turn.start.text_without_ide_tags[:TITLE_CHARS]
            summary.first_prompt_typed = turn.start.origin.speaker == "human"

    def _awaited(self, turn: Turn, runs: Runs) -> int:
        """Count the launched agents that have no file yet."""
        if self._ending_of(turn.start.head.time_ns) in _NOTHING_RUNS:
            return 0
        launching = [turn.calls[call] for call in turn.running.values() if call in turn.calls]
        delivered = {agent_id(name) for name in self._delivered} if launching else set[str]()
        return sum(
            call.result is not None
            and call.result.agent_id is not None
            and call.id not in runs.by_call
            and call.id not in self.resume.finished_tasks
            and call.result.agent_id not in delivered
            for call in launching
        )

    def _entries(self) -> Iterator[Entry]:
        """Yield the main file's entries, and record what they say about the session."""
        summary, summaries, context = self.summary, self._summaries, None
        first_ns, last_ns = 1 << 64, -1
        for entry in self._read(self.path, self.resume.position):
            if (head := entry.head) is not None:
                if summaries and head.uuid in summaries:
                    self._titles["summary"] = summaries[head.uuid]
                if (time_ns := head.time_ns) is not None:
                    if time_ns > last_ns:
                        last_ns = summary.last_ns = time_ns
                    if time_ns < first_ns:
                        first_ns = summary.first_ns = time_ns
                if head.context is not context:
                    context = head.context
                    self._note_context(context)
                kind = type(entry)
                if kind is not Reply and kind is not Results:  # true of most
                    self._note_entry(entry, head)
                    if kind is SessionNote:
                        continue
            yield entry

    def _note_entry(self, entry: Entry, head: Head) -> None:
        summary = self.summary
        match entry:
            case Prompt():
                self._last_asked = head.offset
                summary.mode = entry.permission_mode or summary.mode
                if entry.predecessor is not None:
                    self._lineage.setdefault("plan", entry.predecessor)
            case ModeChange():
                summary.mode = entry.mode
            case Totals():
                summary.reported_cost_usd, summary.reported_models = entry.cost_usd, entry.models
            case SessionNote():
                self._note_session(entry)
            case _:
                pass

    def _note_session(self, entry: SessionNote) -> None:
        """Record what a line says about the session as a whole."""
        match entry:
            case SessionNote(name="summary", value=str(title), leaf=str(leaf)):
                # Before the first prompt there can be summaries of other sessions, each with the line it was made for.
                if self._last_asked < 0:
                    self._summaries[leaf] = title.strip()
                else:
                    self._titles["summary"] = title.strip()
            case SessionNote(name="custom-title" | "ai-title" | "summary", value=str(title)) if title.strip():
                self._titles[entry.name] = title.strip()
            case SessionNote(name="pr-link", value=dict(link)):
                self.summary.pr = link
            case SessionNote(value={"worktreePath": str(path), "worktreeName": name, "originalCwd": origin}):
                details = [each if isinstance(each, str) else None for each in (name, origin)]
                self.summary.note_worktree(path, *details)

    def _note_context(self, context: Context) -> None:
        summary = self.summary
        if context.cwd is not None and summary.cwd is None:
            summary.note_worktree(context.cwd)
        summary.cwd = summary.cwd or context.cwd
        summary.git_branch = context.git_branch or summary.git_branch
        summary.version = context.version or summary.version
        summary.slug = context.slug or summary.slug
        if context.forked_from is not None:
            self._lineage.setdefault("fork", context.forked_from)
        if context.session_id is not None:
            if is_uuid(self.path.stem) and context.session_id != self.path.stem:
                self._lineage.setdefault("copied lines", context.session_id)
            if context.process_session_id is not None and context.process_session_id != context.session_id:
                self._lineage.setdefault("clear", context.process_session_id)

    def _note_places(self, turn: Turn, runs: Runs) -> None:
        for run in runs.each():
            agent = run.agent
            if agent.file is None:
                continue
            place = self.placed.get(agent.file)
            if place is None:
                parent = run.parent.file if run.parent is not None and run.parent is not agent else None
                place = self.placed[agent.file] = Placed(turn.number, turn.begin, parent)
                place.command = turn.start.head.prompt_id if turn.delegated and agent.delegated else None
            place.waiting = not agent.over and agent.is_waiting()

    def _finish(self, agents: list[Agent]) -> None:
        for agent in agents:
            if agent.file is not None:
                self.agent_files_read.add(agent.file)
                # A file that was not opened belongs to an earlier turn than those that were read.
                if not agent.is_helper and (not agent.was_read or agent.unplaced_runs):
                    self.agent_files_unplaced.add(agent.file)
        self.finished = True
        titles = (self._titles[name][:TITLE_CHARS] for name in _TITLES if self._titles.get(name))
        self.summary.title = next(titles, None)
        for how in ("fork", "plan", "clear", "copied lines"):
            if self._lineage.get(how) not in (None, self.summary.session_id):
                self.summary.predecessor, self.summary.lineage = self._lineage[how], how
                break
        for reason, count in (("repeated line", self._seen.repeated), ("result without a call", self._seen.unmatched)):
            if count:
                self.summary.skipped[reason] += count

    def _read(self, path: Path, start: Position = BEGINNING) -> Iterator[Entry]:
        """Yield a file's entries, and count the lines that are skipped.

        Lines are parsed and assembled in batches: alternating per line would keep evicting the processor's caches.
        """
        skipped = self.summary.skipped
        batch: list[Entry] = []
        latest: Entry | None = None
        reason = ""  # why the last line was skipped; empty if it was not
        started = start.offset > 0  # there was an entry before
        early: list[Line] = []  # skipped lines before the first entry
        late: deque[Line] = deque(maxlen=_TIMED_LINES)  # and the last skipped lines
        opened = self._transcript if path == self.path else None
        for line in read_lines(path, start, torn=True) if opened is None else opened.lines(start):
            for entry in parse(line):
                if type(entry) is Skipped:
                    reason = entry.reason
                    skipped[reason] += 1
                    if line.data is not None and len(line.data) < _SHORT_BYTES:  # keeping long ones takes time
                        late.append(line)
                        if not started and len(early) < _TIMED_LINES:
                            early.append(line)
                else:
                    reason, started, latest = "", True, entry
                    batch.append(entry)
            if len(batch) >= _BATCH:
                yield from batch
                batch.clear()
        yield from batch
        if path == self.path:
            self.summarized = not reason and isinstance(latest, SessionNote) and latest.name == "summary"
            self._note_times([*early, *late])

    def _note_times(self, lines: Iterable[Line]) -> None:
        """Use the times of skipped lines to determine when a session began and ended."""
        summary = self.summary
        for time_ns in map(line_time, lines):
            if time_ns is not None:
                summary.first_ns = time_ns if summary.first_ns is None else min(summary.first_ns, time_ns)
                summary.last_ns = time_ns if summary.last_ns is None else max(summary.last_ns, time_ns)

    def _assembled(self, entries: Iterable[Entry]) -> list[Turn]:
        return list(assemble(entries, self._seen, main=False))

    def _agents_with_files(self) -> Iterator[Agent]:
        """Yield the agents with files. A file beside the transcript counts only if it belongs to this session."""
        stages: dict[Path, dict[str, str]] = {}
        for file in scan(self.path) if self._files is None else self._files:
            path = Path(file.path)
            folder = path.parent
            try:
                agent = self._agent(path, file)
            except OSError:
                self.summary.skipped["unreadable agent file"] += 1
                continue
            if folder.name.startswith("wf_"):
                if folder not in stages:
                    stages[folder] = journal_stages(_bytes(folder / "journal.jsonl"))
                agent.workflow_run_id, agent.stage = folder.name, stages[folder].get(agent.id or "")
            if not file.shared or self._is_of_this_session(agent):
                yield agent

    def _is_of_this_session(self, agent: Agent) -> bool:
        return agent.session_id in (self.summary.session_id, self.path.stem)

    def _agent(self, path: Path, file: AgentFile) -> Agent:
        meta = agent_meta(_bytes(path.with_suffix(".meta.json")))
        agent = Agent(path.stem.removeprefix("agent-"), partial(self._file_turns, path, meta.tool_use_id))
        agent.kind, agent.description, agent.name = meta.kind, meta.description, meta.name
        agent.tool_use_id, agent.parent_id = meta.tool_use_id, meta.parent_id
        agent.written_ns, agent.file = file.written_ns, file.name
        first = True
        for entry in read_head(path):
            head = entry.head
            if head is None:
                continue
            agent.session_id = head.context.session_id or agent.session_id
            agent.start_ns = agent.start_ns if agent.start_ns is not None else head.time_ns
            agent.prompt_id = agent.prompt_id or head.prompt_id
            if first and isinstance(entry, Injected | Prompt):
                first = False
                # A slash command run by an agent has no call; the agent's file begins with the command's expansion.
                agent.delegated = isinstance(entry, Injected) and meta.tool_use_id is None and meta.parent_id is None
            if isinstance(entry, Prompt) and agent.prompt is None:
                agent.prompt = entry.text
            if isinstance(entry, Reply):
                break
        agent.over = self._ending_of(agent.start_ns) in _NOTHING_RUNS
        agent.at_rest = self._rest_ns is not None and agent.written_ns < self._rest_ns
        return agent

    def _file_turns(self, path: Path, call: str | None) -> list[Turn]:
        if self._requests is not None:
            self._requests.add(path)
        try:
            return self._assembled(_after_call(list(self._read(path)), call))
        except OSError:  # gone or unreadable: the call is shown without the agent's work
            self.summary.skipped["unreadable agent file"] += 1
            return []


def _after_call(entries: list[Entry], call: str | None) -> list[Entry]:
    """Drop the copied conversation that a forked agent starts with: everything up to the call that started it."""
    copied = 0
    for index, entry in enumerate(entries if call is not None else ()):
        if isinstance(entry, Reply) and any(isinstance(block, ToolUse) and block.id == call for block in entry.blocks):
            copied = index + 1
    return entries[copied:]


def _bytes(path: Path) -> bytes:
    """Return a small file's contents, empty if it cannot be read."""
    try:
        return read_regular(path, MAX_LINE_BYTES, any_owner=True)
    except OSError:
        return b""
