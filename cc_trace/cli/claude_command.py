"""The prompt and the session in a command line that calls `claude`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cc_trace.paths import is_session_id

if TYPE_CHECKING:
    from collections.abc import Sequence

# From `claude --help`. All other options take one value.
_FLAGS: Final = frozenset(
    (
        *("-p", "--print", "-c", "--continue", "-h", "--help", "-v", "--version", "--verbose", "--bare", "--brief"),
        *("--allow-dangerously-skip-permissions", "--dangerously-skip-permissions", "--ax-screen-reader", "--bg"),
        *(
            "--background",
            "--chrome",
            "--desktop",
            "--disable-slash-commands",
            "--fork-session",
            "--ide",
            "--no-chrome",
        ),
        *(
            "--exclude-dynamic-system-prompt-sections",
            "--forward-subagent-text",
            "--include-hook-events",
            "--mcp-debug",
        ),
        *("--include-partial-messages", "--no-session-persistence", "--replay-user-messages", "--restricted", "--tmux"),
        *("--safe-mode", "--strict-mcp-config"),
    )
)
# May be followed by a value. Whatever follows that is not an option is taken as one, as Claude Code does.
_MAY_HAVE_VALUE: Final = frozenset(
    (
        "-d",
        "--debug",
        "-r",
        "--resume",
        "-w",
        "--worktree",
        "--cloud",
        "--from-pr",
        "--teleport",
        "--prompt-suggestions",
    )
)
_MANY_VALUES: Final = frozenset(
    (
        *("--add-dir", "--allowedTools", "--allowed-tools", "--disallowedTools", "--disallowed-tools", "--betas"),
        *("--file", "--mcp-config", "--tools"),
    )
)


@dataclass(frozen=True, slots=True)
class ClaudeCommand:
    """A call of `claude`, as far as its command line shows."""

    prompt: str | None = None
    session_id: str | None = None


def read_command(command: Sequence[str]) -> ClaudeCommand:
    """Return the prompt and the session of a command line; neither if it does not call `claude` itself."""
    start = next((index for index, word in enumerate(command) if _is_claude(word)), None)
    return ClaudeCommand() if start is None else _read(list(command[start + 1 :]))


def _is_claude(word: str) -> bool:
    name = word.rpartition("/")[2]
    return name == "claude" or ("claude-code" in word and not word.startswith("-") and " " not in word)


def _read(words: list[str]) -> ClaudeCommand:
    options: dict[str, str] = {}
    texts: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            texts += words
            break
        name, _, value = word.partition("=")
        if not word.startswith("-") or word == "-":
            texts.append(word)
        elif name != word:
            options[name] = value
        elif word in _MANY_VALUES:
            while words and not words[0].startswith("-"):
                words.pop(0)
        elif word in _FLAGS or _is_flags(word) or not words:
            options[word] = ""
        elif word not in _MAY_HAVE_VALUE or not words[0].startswith("-"):
            options[word] = words.pop(0)
    session = options.get("--session-id") or options.get("--resume") or options.get("-r")
    if session is None or not is_session_id(session) or ("--fork-session" in options and "--session-id" not in options):
        session = None
    return ClaudeCommand(texts[0] if texts else None, session)


def _is_flags(word: str) -> bool:
    """Tell whether these are several flags of one letter each: `-pc`."""
    return not word.startswith("--") and all(f"-{letter}" in _FLAGS for letter in word[1:])
