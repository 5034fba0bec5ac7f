"""What Claude Code records about hooks: an attachment for each that printed, failed or decided something.

A silent hook leaves no line, except at Stop, where a summary lists all hooks.
"""

from __future__ import annotations

from typing import Any, Final

from cc_trace.transcript.blocks import count_field, object_field, plain_text, text_field
from cc_trace.transcript.entries import Entry, Head, Hook, StopHook

_FAILED: Final = ("hook_non_blocking_error", "hook_error_during_execution", "hook_cancelled")
_BLOCKED: Final = ("hook_blocking_error", "hook_stopped_continuation")
# The output of these hooks is context for the model. That of others is not, unless the line says so.
_PRINT_CONTEXT: Final = ("SessionStart", "UserPromptSubmit", "Setup")
_MAX_EXIT_CODE: Final = 1 << 31


def hook(raw: dict[str, Any], line: dict[str, Any], head: Head) -> Entry | None:
    """Return the hook that an attachment describes, or None if it does not name the event."""
    kind, event = text_field(raw, "type") or "", text_field(raw, "hookEvent")
    if event is None:
        return None
    error = object_field(raw, "blockingError")
    output = text_field(error, "blockingError") or _printed(raw)
    code = raw.get("exitCode")
    return Hook(
        head=head,
        event=event,
        command=text_field(raw, "command") or text_field(error, "command"),
        output=output,
        message=_message_to_model(line, kind, event, output),
        duration_ms=count_field(raw, "durationMs") if "durationMs" in raw else None,
        exit_code=code if type(code) is int and abs(code) < _MAX_EXIT_CODE else None,
        blocked=kind in _BLOCKED,
        failed=kind in _FAILED,
        ends_turn=kind == "hook_stopped_continuation",
        tool_use_id=text_field(raw, "toolUseID"),
    )


def _printed(raw: dict[str, Any]) -> str:
    """Return a hook's output: for the model, for the user, or plain."""
    texts = [plain_text(raw.get(name)).strip() for name in ("content", "message", "stdout", "stderr")]
    return "\n".join(dict.fromkeys(text for text in texts if text))


def _message_to_model(line: dict[str, Any], kind: str, event: str, output: str) -> str:
    """Return the message to the model. Before 2.1.3xx the line does not have it, only what it was made from."""
    rendered = line.get("rendered")
    if isinstance(rendered, list):
        texts = [plain_text(part.get("content")) for part in rendered if isinstance(part, dict)]
        return "\n".join(text for text in texts if text)
    if kind == "hook_success":
        content = plain_text(object_field(line, "attachment").get("content")).strip()
        return content if event in _PRINT_CONTEXT else ""
    return output if kind in ("hook_additional_context", "hook_blocking_error") else ""


def stop_hooks(raw: dict[str, Any]) -> tuple[StopHook, ...]:
    """Return the hooks in a `stop_hook_summary`, each with the error that mentions its command."""
    infos, errors = raw.get("hookInfos"), raw.get("hookErrors")
    texts = [error for error in errors if isinstance(error, str)] if isinstance(errors, list) else []
    hooks: list[StopHook] = []
    for info in infos if isinstance(infos, list) else ():
        command = text_field(info, "command") if isinstance(info, dict) else None
        if command is not None:
            own = [text for text in texts if command in text]
            ms = count_field(info, "durationMs") if "durationMs" in info else None
            hooks.append(StopHook(command, ms, "\n".join(own)))
    return tuple(hooks)
