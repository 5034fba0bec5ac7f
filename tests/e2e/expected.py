"""The traces that ought to have arrived, from what the scripted API was asked and what it served."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from script import PIECE_CHARS, START_OUTPUT_TOKENS, TAG
from tree import AgentRun, Generation, ToolCall, Turn, Usage, plain_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from api_calls import ApiCall, ToolResult
    from script import Tokens, Use

_MAIN: Final = "invoke_agent claude-code"
_BROKEN_OFF: Final = "interrupted: interrupted while answering"


@dataclass(frozen=True, slots=True)
class Unusual:
    """What a scenario says of a turn that did not end well, or in which something happened besides responses.

    `prompt`: what was typed, where the model was asked something else. `asked`: what it was asked, where that came in
    parts. `repeats`: what was typed has the tag of what the model was asked, and is shown with it. `output`: what the
    turn came to, where it is not the last text that was served. `no_result`: result and status of a call whose result
    never reached the model.
    """

    status: str = "ok"
    events: tuple[str, ...] = ()
    prompt: str | None = None
    asked: str | None = None
    repeats: bool = False
    output: str | None = None
    no_result: tuple[str | None, str] = (None, "ok")

    @classmethod
    def interrupted(cls, by: str, no_result: tuple[str | None, str] = (None, "ok")) -> Unusual:
        """Return what is known of a turn that the user broke off, which Claude Code puts into these words."""
        return cls(f"interrupted: {by}", (f"interruption: interrupted: {by}",), no_result=no_result)


def expected(api_calls: Sequence[ApiCall], unusual: Mapping[str, Unusual]) -> dict[str, list[Turn]]:
    """Return the turns of each session, in the order in which they were begun. `unusual` is by the prompt's tag."""
    return _Served(api_calls, unusual).turns()


def own_tokens(api_calls: Iterable[ApiCall]) -> dict[str, Counter[str]]:
    """Return what Claude Code spent on its own business, which no transcript tells, by model."""
    spent: dict[str, Counter[str]] = {}
    for api_call in api_calls:
        said = api_call.message
        if api_call.request.internal_purpose is not None and said is not None:
            spent.setdefault(said.model, Counter()).update(_counted(said.tokens))
    return spent


def cut(api_calls: Iterable[ApiCall]) -> set[str]:
    """Return the ids of responses that the client broke off."""
    return {each.message.id for each in api_calls if each.message is not None and each.outcome == "cut"}


class _Served:
    """The API calls of all conversations, and who launched whom."""

    def __init__(self, api_calls: Sequence[ApiCall], unusual: Mapping[str, Unusual]) -> None:
        self._unusual = unusual
        self._prompts: dict[tuple[str, str], str] = {}  # (session, tag) -> the prompt, in order
        self._answered: dict[tuple[str, str], list[ApiCall]] = {}
        self._plans: dict[str, dict[str, str]] = {}  # session -> the plan it wrote last
        self._results: dict[str, ToolResult] = {}
        self._launched: dict[tuple[str, str], str] = {}  # (session, tag) -> the call that gave an agent this prompt
        for api_call in api_calls:
            if api_call.request.internal_purpose is None:
                self._note(api_call)

    def _note(self, api_call: ApiCall) -> None:
        request, said = api_call.request, api_call.message
        assert request.prompt is not None
        tag, text, _ = request.prompt
        key = (request.session_id, tag)
        self._prompts.setdefault(key, text)
        for id_, result in request.results.items():
            self._results.setdefault(id_, result)
        if said is None:
            return
        self._answered.setdefault(key, []).append(api_call)
        for id_, use in said.uses:
            if use.name == "Write" and "/plans/" in use.input["file_path"]:
                plan = {"plan": use.input["content"], "planFilePath": use.input["file_path"]}
                self._plans[request.session_id] = plan
            for launched in TAG.findall(str(use.input.get("prompt", ""))):
                self._launched[request.session_id, launched] = id_

    def turns(self) -> dict[str, list[Turn]]:
        found: dict[str, list[Turn]] = {}
        for (session, tag), prompt in self._prompts.items():
            if (session, tag) not in self._launched:
                found.setdefault(session, []).append(self._turn(session, tag, prompt))
        return found

    def _turn(self, session: str, tag: str, prompt: str) -> Turn:
        unusual = self._unusual.get(tag, Unusual())
        generations = self._generations(session, tag, unusual)
        output = _last_text(generations) if unusual.output is None else unusual.output
        return Turn(_MAIN, unusual.prompt or prompt, output, unusual.status, unusual.events, generations)

    def _generations(self, session: str, tag: str, unusual: Unusual) -> tuple[Generation, ...]:
        answered = self._answered.get((session, tag), ())
        return tuple(
            self._generation(api_call, session, unusual, first=not index) for index, api_call in enumerate(answered)
        )

    def _generation(self, api_call: ApiCall, session: str, unusual: Unusual, *, first: bool) -> Generation:
        request, said = api_call.request, api_call.message
        assert request.prompt is not None
        assert said is not None
        _, prompt, step = request.prompt
        prompts, results = ((unusual.asked or prompt,), {}) if step == 0 else ((), request.new_results)
        if first and unusual.repeats and unusual.prompt is not None:
            prompts = (unusual.prompt, *prompts)
        asked = prompts, tuple((id_, plain_result(result.text)) for id_, result in results.items())
        known = f"chat {said.model}", said.id, said.model
        if api_call.outcome == "cut":
            usage = replace(_usage(said.tokens), output=START_OUTPUT_TOKENS)
            text = said.text[:PIECE_CHARS]
            return Generation(*known, usage, *asked, "", text, "error", _BROKEN_OFF, ())
        calls = tuple(self._call(session, id_, use, unusual) for id_, use in said.uses)
        finish = "tool_call" if calls else "stop"
        return Generation(*known, _usage(said.tokens), *asked, said.thinking, said.text, finish, "ok", calls)

    def _call(self, session: str, id_: str, use: Use, unusual: Unusual) -> ToolCall:
        # Claude Code puts the plan into the call that asks whether it is accepted.
        arguments = use.input | (self._plans[session] if use.name == "ExitPlanMode" else {})
        outcome = unusual.no_result
        if (result := self._results.get(id_)) is not None:
            text = plain_result(result.text)
            outcome = (text, f"error: {text}" if result.failed else "ok")
        call = ToolCall(f"execute_tool {use.name}", id_, use.name, json.dumps(arguments, sort_keys=True), *outcome)
        launched = [tag for (where, tag), by in self._launched.items() if (where, by) == (session, id_)]
        return replace(call, agents=tuple(self._agent(session, tag, use) for tag in launched))

    def _agent(self, session: str, tag: str, use: Use) -> AgentRun:
        unusual = self._unusual.get(tag, Unusual())
        generations = self._generations(session, tag, unusual)
        kind, prompt = use.input["subagent_type"], use.input["prompt"]
        return AgentRun(f"invoke_agent {kind}", kind, prompt, _last_text(generations), unusual.status, generations)


def _last_text(generations: Sequence[Generation]) -> str:
    return next((each.text for each in reversed(generations) if each.text), "")


def _usage(tokens: Tokens) -> Usage:
    written = tokens.cache_write_5m + tokens.cache_write_1h
    return Usage(tokens.input + tokens.cache_read + written, tokens.output, tokens.cache_read, written)


def _counted(tokens: Tokens) -> Counter[str]:
    written = tokens.cache_write_5m + tokens.cache_write_1h
    return Counter(input=tokens.input, output=tokens.output, cache_read=tokens.cache_read, cache_write=written)
