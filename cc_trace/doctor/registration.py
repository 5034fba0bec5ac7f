"""Whether Claude Code will call the hook: registered, once, in files it can read, and not switched off."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from cc_trace.delivery import main_transcripts
from cc_trace.doctor.check import failed, listed, mtime, ok, warning
from cc_trace.errors import CcTraceError, JsonTextError
from cc_trace.install import EVENTS, Registration, parse_settings, read_settings, registered
from cc_trace.transcript import read_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cc_trace.doctor.check import Check, Subject

Scope: TypeAlias = Literal["user", "project", "managed"]

# For one event that it does not know, Claude Code before 2.1 silently ignores the whole file. Later versions skip it.
_STRICT_VERSIONS: Final = ("0.", "1.", "2.0.")
# What 2.0.77 knows.
_STRICT_EVENTS: Final = frozenset(
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


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file of Claude Code that exists. `problem`: why it cannot be read."""

    path: Path
    scope: Scope
    hooks: tuple[Registration, ...] = ()  # ours
    values: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return the object under a key; empty if there is none."""
        value = self.values.get(key)
        return value if isinstance(value, dict) else {}


def settings_files(subject: Subject) -> list[SettingsFile]:
    """Return the settings files that apply here, the weakest first, each once: a project can be the home folder."""
    project = subject.project / ".claude"
    paths: list[tuple[Path, Scope]] = [
        (subject.config_dir / "settings.json", "user"),
        (project / "settings.json", "project"),
        (project / "settings.local.json", "project"),
        *((path, "managed") for path in reversed(subject.sources.managed)),
    ]
    files: dict[Path, SettingsFile] = {}
    for path, scope in paths:
        if (file := _read(path, scope)) is not None:
            files.setdefault(path.resolve(), file)
    return list(files.values())


def _read(path: Path, scope: Scope) -> SettingsFile | None:
    try:
        text = read_settings(path)
        return None if text is None else SettingsFile(path, scope, tuple(registered(text)), parse_settings(text))
    except JsonTextError as error:
        return SettingsFile(path, scope, problem=f"{path}: {error}")
    except CcTraceError as error:
        return SettingsFile(path, scope, problem=str(error))


def enabled_plugins(files: list[SettingsFile]) -> dict[str, SettingsFile]:
    """Return the names under which our plugin is enabled, each with the file that decides it: the strongest."""
    decided = {
        name: (file, enabled)
        for file in files
        for name, enabled in file.mapping("enabledPlugins").items()
        if name.partition("@")[0] == "cc-trace"
    }
    return {name: file for name, (file, enabled) in decided.items() if enabled is True}


def hook_environment(subject: Subject, *, trusted: bool = False) -> dict[str, str]:
    """Return the environment of a hook: this process's, and the variables that settings files add.

    `trusted`: without those of a project's files, because a variable can make a program run another one.
    """
    files = [file for file in settings_files(subject) if not trusted or file.scope != "project"]
    added = {name: value for file in files for name, value in file.mapping("env").items() if isinstance(value, str)}
    return {**subject.environment, **added}


def settings_json(subject: Subject) -> Iterator[Check]:
    """Check that Claude Code can read its settings files: it ignores a broken one, with all its hooks."""
    files = settings_files(subject)
    broken = [file for file in files if file.problem is not None]
    for file in broken:
        found = f"{file.problem}; Claude Code ignores the file"
        fix = f"fix {file.path}; `cc-trace install` then registers the hook again if it is gone"
        yield failed("settings.json", found, fix)
    if not broken:
        yield ok("settings.json", listed((file.path for file in files), most=5) or "none")


def hook(subject: Subject) -> Iterator[Check]:
    """Check that the hook is registered once for each event."""
    files = settings_files(subject)
    places = {event: _where_registered(event, files) for event in EVENTS}
    missing = [event for event in EVENTS if not places[event]]
    times = Counter(place for event in EVENTS for place in places[event])
    if not times:
        searched = listed((file.path for file in files), most=5) or subject.config_dir / "settings.json"
        found = f"not registered in {searched}, and the plugin is not enabled there"
        yield failed("hook", found, "cc-trace install (not needed if you always start Claude Code with --plugin-dir)")
    elif missing:
        found = f"registered in {listed(times)}, but not for {' and '.join(missing)}"
        yield (failed if "Stop" in missing else warning)("hook", found, "cc-trace install")
    elif any(len(places[event]) > 1 for event in EVENTS):
        where = listed(f"{place} ({count} times)" if count > len(EVENTS) else place for place, count in times.items())
        found = f"registered more than once: {where}. Turns are still delivered once"
        yield warning("hook", found, _how_to_keep_one(files))
    elif others := sorted({each.event for file in files for each in file.hooks} - set(EVENTS)):
        yield warning("hook", f"also registered for {listed(others)}, where it does nothing", "cc-trace install")
    elif hurried := [file.path for file in files if any(each.hurried for each in file.hooks)]:
        found = f"{listed(hurried)}: the SessionEnd hook has no timeout of its own, so in CI it may be cancelled"
        yield warning("hook", found, "cc-trace install")
    else:
        yield ok("hook", f"registered for {' and '.join(EVENTS)} in {listed(times)}")


def _where_registered(event: str, files: list[SettingsFile]) -> list[str]:
    """Return where the hook is registered for an event; a file is listed once per registration."""
    own = [str(file.path) for file in files for each in file.hooks if each.event == event]
    return [*own, *(f"plugin {name}" for name in enabled_plugins(files))]


def _how_to_keep_one(files: list[SettingsFile]) -> str:
    """Return the command that removes a registration too many."""
    plugins = list(enabled_plugins(files))
    scopes = {file.scope for file in files if file.hooks} - {"managed"}
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
    files = settings_files(subject) if version.startswith(_STRICT_VERSIONS) else []
    unknown = {file.path: sorted(file.mapping("hooks").keys() - _STRICT_EVENTS) for file in files}
    for path, events in unknown.items():
        if events:
            found = f"{path} has hooks for {listed(events)}, so Claude Code {version} silently ignores the whole file"
            yield warning("hook events", found, f"update Claude Code, or remove {listed(events)} from {path}")
    if not any(unknown.values()):
        yield ok("hook events", "no hook event makes Claude Code ignore a settings file")


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
    disabling = [f.path for f in (managed if by_managed else files) if f.values.get("disableAllHooks") is True]
    restricting = [f.path for f in managed if f.values.get("allowManagedHooksOnly") is True and not by_managed]
    if disabling:
        found = f"{disabling[0]} has disableAllHooks: Claude Code runs no hooks"
        yield failed("hooks enabled", found, f'remove "disableAllHooks" from {disabling[0]}')
    elif restricting:
        path = restricting[0]
        found = f"{path} has allowManagedHooksOnly: Claude Code runs only the hooks that are registered there"
        yield failed("hooks enabled", found, f"ask your administrator to register the hook in {path}")
    else:
        yield ok("hooks enabled", "no settings file turns hooks off")


CHECKS: Final = (settings_json, hook, hook_events, hooks_enabled)
