"""Whether Claude Code will call the hook: registered, once, in files it can read, and not switched off."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from cc_trace.delivery import main_transcripts
from cc_trace.doctor.check import failed, listed, mtime, ok, warning
from cc_trace.errors import CcTraceError, JsonTextError
from cc_trace.install import EVENTS, Registration, meaning, read_settings, registered
from cc_trace.transcript import read_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cc_trace.doctor.check import Check, Subject

Scope: TypeAlias = Literal["user", "project", "managed"]

# What 2.0.77 knows; one event that it does not know makes it ignore the whole file, without a word.
_OLD_EVENTS: Final = frozenset(
    {
        "Notification",
        "PermissionRequest",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "PreToolUse",
        "SessionEnd",
        "SessionStart",
        "Stop",
        "SubagentStart",
        "SubagentStop",
        "UserPromptSubmit",
    }
)
# Further events that 2.1.325 knows. It skips unknown ones.
_NEW_EVENTS: Final = frozenset(
    {
        "ConfigChange",
        "CwdChanged",
        "DirectoryAdded",
        "Elicitation",
        "ElicitationResult",
        "FileChanged",
        "InstructionsLoaded",
        "MessageDisplay",
        "PermissionDenied",
        "PostCompact",
        "PostModelSwitch",
        "PostToolBatch",
        "PreModelSwitch",
        "Setup",
        "StopFailure",
        "TaskCompleted",
        "TaskCreated",
        "TeammateIdle",
        "UserPromptExpansion",
        "WorktreeCreate",
        "WorktreeRemove",
    }
)
_OLD_VERSIONS: Final = ("0.", "1.", "2.0.")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file of Claude Code that is there. `trouble`: why it means nothing."""

    path: Path
    scope: Scope
    hooks: tuple[Registration, ...] = ()  # ours
    values: Mapping[str, Any] | None = None
    trouble: str | None = None

    def value(self, key: str) -> Any:  # noqa: ANN401  (raw JSON)
        """Return what the file says."""
        return None if self.values is None else self.values.get(key)

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return the object under a key; empty if there is none."""
        value = self.value(key)
        return value if isinstance(value, dict) else {}


def settings_files(subject: Subject) -> list[SettingsFile]:
    """Return the settings files that hold here, the weakest first, each once: a project can be the home folder."""
    project = subject.project / ".claude"
    named: list[tuple[Path, Scope]] = [
        (subject.config_dir / "settings.json", "user"),
        (project / "settings.json", "project"),
        (project / "settings.local.json", "project"),
        *((path, "managed") for path in reversed(subject.sources.managed)),
    ]
    found: dict[Path, SettingsFile] = {}
    for path, scope in named:
        if (file := _read(path, scope)) is not None:
            found.setdefault(path.resolve(), file)
    return list(found.values())


def _read(path: Path, scope: Scope) -> SettingsFile | None:
    try:
        text = read_settings(path)
        if text is None:
            return None
        return SettingsFile(path, scope, tuple(registered(text)), meaning(text))
    except JsonTextError as error:
        return SettingsFile(path, scope, trouble=f"{path}: {error}")
    except CcTraceError as error:
        return SettingsFile(path, scope, trouble=str(error))


def enabled_plugins(files: list[SettingsFile]) -> dict[str, SettingsFile]:
    """Return our plugin's names where it is enabled, and which file says so; a stronger file can say no."""
    said = {
        name: (file, on)
        for file in files
        for name, on in file.mapping("enabledPlugins").items()
        if name.partition("@")[0] == "cc-trace"
    }
    return {name: file for name, (file, on) in said.items() if on is True}


def hook_environment(subject: Subject, *, trusted: bool = False) -> dict[str, str]:
    """Return the environment of a hook: this process's, and what the settings files put into it.

    `trusted`: without what a project's files say; a variable can make a program run another one.
    """
    files = [file for file in settings_files(subject) if not trusted or file.scope != "project"]
    said = {name: value for file in files for name, value in file.mapping("env").items() if isinstance(value, str)}
    return {**subject.environment, **said}


def settings_json(subject: Subject) -> Iterator[Check]:
    """Check that Claude Code can read its settings files: it ignores a broken one, with all its hooks."""
    files = settings_files(subject)
    broken = [file for file in files if file.trouble is not None]
    for file in broken:
        yield failed(
            "settings.json",
            f"{file.trouble}; Claude Code ignores the file",
            f"fix {file.path}; `cc-trace install` then registers the hook again if it is gone",
        )
    if not broken:
        yield ok("settings.json", listed((file.path for file in files), most=5) or "none")


def hook(subject: Subject) -> Iterator[Check]:
    """Check that the hook is registered once for each event."""
    files = settings_files(subject)
    places = {event: _where_registered(event, files) for event in EVENTS}
    missing = [event for event in EVENTS if not places[event]]
    everywhere = list(dict.fromkeys(place for event in EVENTS for place in places[event]))
    if not everywhere:
        looked = listed((file.path for file in files), most=5) or subject.config_dir / "settings.json"
        found = f"not registered in {looked}, and the plugin is not enabled there"
        yield failed("hook", found, "cc-trace install; nothing, if you always start Claude Code with --plugin-dir")
    elif missing:
        what = f"registered in {listed(everywhere)}, but not for {' and '.join(missing)}"
        check = failed if "Stop" in missing else warning
        yield check("hook", what, "cc-trace install")
    elif any(len(places[event]) > 1 for event in EVENTS):
        times = Counter(place for event in EVENTS for place in places[event])
        where = listed(f"{place} ({count} times)" if count > len(EVENTS) else place for place, count in times.items())
        found = f"registered more than once: {where}. Turns are still delivered once"
        yield warning("hook", found, _one_is_enough(files))
    elif others := sorted({each.event for file in files for each in file.hooks} - set(EVENTS)):
        yield warning("hook", f"also registered for {listed(others)}, where it does nothing", "cc-trace install")
    elif hurried := [file.path for file in files if any(each.hurried for each in file.hooks)]:
        found = f"{listed(hurried)}: the SessionEnd hook has no timeout of its own, so in CI it may be cancelled"
        yield warning("hook", found, "cc-trace install")
    else:
        yield ok("hook", f"registered for {' and '.join(EVENTS)} in {listed(everywhere)}")


def _where_registered(event: str, files: list[SettingsFile]) -> list[str]:
    """Return where the hook is registered for an event; a file is listed once per registration."""
    own = [str(file.path) for file in files for each in file.hooks if each.event == event]
    return [*own, *(f"plugin {name}" for name in enabled_plugins(files))]


def _one_is_enough(files: list[SettingsFile]) -> str:
    plugins = list(enabled_plugins(files))
    users = [file for file in files if file.hooks and file.scope == "user"]
    projects = [file for file in files if file.hooks and file.scope == "project"]
    if plugins and (users or projects):
        return f"`cc-trace uninstall`, or `claude plugin uninstall {plugins[0]}`: one is enough"
    if len(plugins) > 1:
        return f"claude plugin uninstall {plugins[0]}"
    if users and projects:
        return "`cc-trace uninstall --project` in this folder, or remove it from the project's settings by hand"
    return "cc-trace install, which keeps one"


def hook_events(subject: Subject) -> Iterator[Check]:
    """Check that all events are known, ours or not: one unknown event can disable all hooks of its file."""
    old = (_version(subject) or "").startswith(_OLD_VERSIONS)
    known = _OLD_EVENTS if old else _OLD_EVENTS | _NEW_EVENTS
    files = settings_files(subject)
    unknown = {file.path: sorted(set(file.mapping("hooks")) - known) for file in files}
    unknown = {path: events for path, events in unknown.items() if events}
    for path, events in unknown.items():
        found = f"{path} has hooks for {listed(events)}, which Claude Code {'2.0' if old else '2.1.325'} does not know"
        yield warning(
            "hook events",
            f"{found}; versions before 2.1 then silently ignore the whole file",
            f"remove {listed(events)} from {path} if mistyped, or update Claude Code",
        )
    if not unknown:
        yield ok("hook events", "all known to Claude Code")


def _version(subject: Subject) -> str | None:
    """Return the version of Claude Code that wrote the newest transcript."""
    newest = max(main_transcripts(subject.config_dir), key=mtime, default=None)
    heads = (entry.head for entry in read_head(newest) if entry.head is not None) if newest is not None else ()
    return next((head.context.version for head in heads if head.context.version is not None), None)


def hooks_enabled(subject: Subject) -> Iterator[Check]:
    """Check whether hooks are disabled altogether. Only an administrator can disable an administrator's."""
    files = settings_files(subject)
    managed = [file for file in files if file.scope == "managed"]
    by_managed = any(file.hooks for file in managed)
    off = [file for file in files if file.value("disableAllHooks") is True]
    for file in off:
        if file.scope == "managed" or not by_managed:
            found = f"{file.path} has disableAllHooks: Claude Code runs no hooks"
            yield failed("hooks enabled", found, f'remove "disableAllHooks" from {file.path}')
            return
    for file in managed:
        if file.value("allowManagedHooksOnly") is True and not by_managed:
            found = f"{file.path} has allowManagedHooksOnly: Claude Code runs only the hooks that are registered there"
            yield failed("hooks enabled", found, f"ask your administrator to register the hook in {file.path}")
            return
    yield ok("hooks enabled", "no settings file turns hooks off")


CHECKS: Final = (settings_json, hook, hook_events, hooks_enabled)
