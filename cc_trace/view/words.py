"""Words for what the store names shortly: a person who has read no documentation is to understand them."""

from __future__ import annotations

from typing import Final

_WORDS: Final = {
    "idle": "waiting",
    "unknown": "other",
    "no tool": "no tool called",
    "between": "between turns",
    "generation": "request",
    "subagent": "agent",
}
_MEANINGS: Final = {
    "model": "From a request to the end of its response",
    "tools": "From a call of a tool to its result",
    "permission": "Waiting for you to allow or deny a call",
    "hooks": "Running hooks",
    "retries": "From a failed request to the next attempt",
    "between": "From the end of a turn to your next prompt",
    "idle": "Waiting for you or a background task after a response, or for your answer to a question",
    "unknown": "Claude Code's own work in between, and calls for which it is not known how long you were asked",
}
_TRIGGERS: Final = {
    "prompt": "your prompt",
    "command": "a slash command",
    "bash": "a ! command",
    "notification": "a notification",
    "teammate": "another agent",
    "continuation": "continuing after compaction",
    "injected": "Claude Code itself",
}
_DECIDERS: Final = {
    "config": "your settings",
    "hook": "a hook",
    "user_permanent": "you, from now on",
    "user_temporary": "you, this once",
    "user_reject": "you",
    "user_abort": "you",
}


def word(name: str) -> str:
    """Return the word for a kind of time or step, else the name itself."""
    return _WORDS.get(name, name)


def meaning(kind: str) -> str:
    """Explain a kind of time."""
    return _MEANINGS.get(kind, "")


def trigger(name: str) -> str:
    """Return what started a turn."""
    return _TRIGGERS.get(name, name)


def decider(source: str) -> str:
    """Return who decided about a call."""
    return _DECIDERS.get(source, source.replace("_", " "))
