"""Whether Claude Code will call the hook: registered, once, in files it can read, and not switched off."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from cc_trace.delivery import main_transcripts
from cc_trace.doctor.check import failed, listed, mtime, ok, warning
from cc_trace.install import EVENTS
from cc_trace.transcript import read_head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cc_trace.doctor.check import Check
    from cc_trace.doctor.subject import Subject

# For one event that it does not know, Claude Code before 2.1 silently ignores the whole file. Later versions skip it.
_STRICT_VERSIONS: Final = ("0.", "1.", "2.0.")
# What 2.0.77 knows.
_STRICT_EVENTS: Final = frozenset(
    {
        *("Notification", "PermissionRequest", "PostToolUse", "PostToolUseFailure", "PreCompact", "PreToolUse"),
        *("SessionEnd", "SessionStart", "Stop", "SubagentStart", "SubagentStop", "UserPromptSubmit"),
    }
)


def settings_json(subject: Subject) -> Iterator[Check]:
    """Check that Claude Code can read its settings files: it ignores a broken one, with all its hooks."""
    broken = [file for file in subject.files if file.problem is not None]
    for file in broken:
        finding = f"{file.problem}; Claude Code ignores the file"
        fix = f"correct {file.path}; `cc-trace install` then registers the hook again if it is gone"
        yield failed("settings.json", finding, fix)
    if subject.files and not broken:
        yield ok("settings.json", listed((file.path for file in subject.files), limit=5))


def hook(subject: Subject) -> Iterator[Check]:
    """Check that the hook is registered once for each event."""
    files = subject.files
    plugins = [f"plugin {name}" for name in subject.plugins]
    places = {
        event: [
            *(str(file.path) for file in files for hook in file.hooks if hook.event == event),
            *plugins,
        ]
        for event in EVENTS
    }
    missing = [event for event in EVENTS if not places[event]]
    times = Counter(place for event in EVENTS for place in places[event])
    if not times and any(file.problem for file in files):
        return  # where it may be registered
    if not times:
        searched = listed((file.path for file in files), limit=5) or subject.config_dir / "settings.json"
        finding = f"not registered in {searched}, and the plugin is not enabled there"
        yield failed("hook", finding, "cc-trace install (not needed if you always start Claude Code with --plugin-dir)")
    elif missing:
        finding = f"registered in {listed(times)}, but not for {' and '.join(missing)}"
        yield (failed if "Stop" in missing else warning)("hook", finding, "cc-trace install")
    elif any(len(registrations) > 1 for registrations in places.values()):
        listing = listed(f"{place} ({count} times)" if count > len(EVENTS) else place for place, count in times.items())
        finding = f"registered more than once: {listing}. Turns are still delivered once"
        yield warning("hook", finding, _removal_command(subject))
    elif short := [file.path for file in files if any(hook.timeout_is_short for hook in file.hooks)]:
        finding = f"{listed(short)}: the SessionEnd hook has no timeout of its own, so in CI it may be cancelled"
        yield warning("hook", finding, "cc-trace install")
    else:
        yield ok("hook", f"registered for {' and '.join(EVENTS)} in {listed(times)}")


def _removal_command(subject: Subject) -> str:
    """Return the command that removes a redundant registration."""
    plugins = list(subject.plugins)
    scopes = {file.scope for file in subject.files if file.hooks} - {"managed"}
    if plugins and scopes:
        return f"`cc-trace uninstall`, or `claude plugin uninstall {plugins[0]}`: one is enough"
    if len(plugins) > 1:
        return f"claude plugin uninstall {plugins[0]}"
    if len(scopes) > 1:
        return "`cc-trace uninstall --project` in this folder, or remove it from the project's settings by hand"
    return "cc-trace install, which keeps one"


def hook_events(subject: Subject) -> Iterator[Check]:
    """Check that no unknown event, ours or not, makes an old Claude Code ignore a settings file."""
    version = _version(subject) or ""
    for file in subject.files if version.startswith(_STRICT_VERSIONS) else ():
        if unknown := sorted(file.mapping("hooks").keys() - _STRICT_EVENTS):
            finding = (
                f"{file.path} has hooks for {listed(unknown)}, so Claude Code {version} silently ignores the whole file"
            )
            yield warning("hook events", finding, f"update Claude Code, or remove {listed(unknown)} from {file.path}")


def _version(subject: Subject) -> str | None:
    """Return the version of Claude Code that wrote the newest transcript."""
    newest = max(main_transcripts(subject.config_dir), key=mtime, default=None)
    heads = (entry.head for entry in read_head(newest) if entry.head is not None) if newest is not None else ()
    return next((head.context.version for head in heads if head.context.version is not None), None)


def hooks_enabled(subject: Subject) -> Iterator[Check]:
    """Check whether hooks are disabled altogether. Only an administrator can disable an administrator's."""
    managed = [file for file in subject.files if file.scope == "managed"]
    by_managed = any(file.hooks for file in managed)
    for file in managed if by_managed else subject.files:
        if file.values.get("disableAllHooks") is True:
            finding = f"{file.path} has disableAllHooks: Claude Code runs no hooks"
            yield failed("hooks enabled", finding, f'remove "disableAllHooks" from {file.path}')
            return
    for file in [] if by_managed else managed:
        if file.values.get("allowManagedHooksOnly") is True:
            finding = (
                f"{file.path} has allowManagedHooksOnly: Claude Code runs only the hooks that are registered there"
            )
            yield failed("hooks enabled", finding, f"ask your administrator to register the hook in {file.path}")
            return
