"""Where settings come from: the environment, Claude Code's managed and the user's settings files, and config.toml.

The layers, the strongest first:

    --to DESTINATION                       if given to a command
    managed-settings.json (env)            always
    the environment                        for a command that the user runs
    the environment of the session's hook  if stored: what the shell set, then what its project may set
    our own shell's variables              for a worker, if the session has no stored environment
    ~/.claude/settings.json (env)          always, with the plugin's options
    config.toml, [project."FOLDER"]        for sessions of FOLDER and below, the nearest folder first
    config.toml                            always

An example: a session of /home/dev/acme was started with CC_TRACE_TAGS=nightly in its shell and ended while the backend
was down. An hour later the worker of another project's hook delivers it: with the tag, which was stored with the
session, and to the destination that config.toml has for /home/dev/acme. From the worker's own environment only keys are
used, and only those that the session's hook also had, for the same address.

Rules:
- A project's own files are read only for restrictions and for the names of the variables they set.
- Claude Code puts the `env` of a project's files into the environment of its hooks: its user has trusted the project.
  That applies to the hook's own session, and is stored with it: a later worker of any project, and a later command,
  send the session where its own hook would have. Of secrets only the names are stored.
"""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from cc_trace.errors import ConfigError
from cc_trace.files import read_regular
from cc_trace.paths import claude_folder
from cc_trace.settings.catalogue import BY_NAME, OPTION, SETTINGS
from cc_trace.settings.distrust import names_set_by, project_files
from cc_trace.settings.lookup import ABSENT, ENVIRONMENT, HOOK_ENVIRONMENT, Layer, Settings, checked
from cc_trace.values import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cc_trace.settings.catalogue import Setting
    from cc_trace.settings.config import TracingScope

# The variables of a session's own hook, by who set them ("shell", "project"). None: a secret, which is not stored.
HookEnvironment: TypeAlias = "Mapping[str, Mapping[str, str | None]]"

# From Claude Code's documentation. An administrator's settings there override all others.
MANAGED: Final = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
PLUGIN: Final = "cc-trace"
_BY_VARIABLE: Final = {variable: setting for setting in SETTINGS for variable in setting.variables}
_PROTECTING: Final = tuple(setting.name for setting in SETTINGS if setting.in_project == "restriction")
# Each key belongs to one address.
_ADDRESSES: Final = {
    "otlp_headers": "otlp_endpoint",
    "langfuse_public_key": "langfuse_base_url",
    "langfuse_secret_key": "langfuse_base_url",
}


def why_off(scope: TracingScope, project: str | None) -> str | None:
    """Return why sessions of a project are not traced; None if they are. Symlinks are resolved on both sides."""
    return scope.off(project, os.path.realpath)


@dataclass(frozen=True, slots=True)
class Sources:
    """The environment of this process, and the files."""

    environment: Mapping[str, str]
    home: Path
    hooked: bool  # started by a hook: Claude Code has put its project's settings into the environment
    managed: tuple[Path, ...] = MANAGED

    @property
    def config_file(self) -> Path:
        """Return the path of config.toml."""
        folder = self.environment.get("XDG_CONFIG_HOME") or self.home / ".config"
        return Path(folder) / "cc-trace" / "config.toml"

    @property
    def own_project(self) -> Path | None:
        """Return the project whose hook started us."""
        own = self.environment.get("CLAUDE_PROJECT_DIR") if self.hooked else None
        return None if own is None else Path(own)

    def settings(
        self, project: Path | None, remembered: HookEnvironment | None = None, above: Sequence[Layer] = ()
    ) -> Settings:
        """Return the settings for a session of a project, given the stored environment of its hook.

        Raises ConfigError for a file that cannot be used. `above`: layers that are stronger than all others.
        """
        own = self.own_project is not None and project in (None, self.own_project)
        read = _lenient if own else env_layer  # Claude Code has ignored a broken file, and we have the environment
        user = claude_folder(self.environment, self.home)
        managed = [read(path) for path in self.managed]
        users = self._with_options(read(user / "settings.json"))
        config = self._config_layers(project)
        files = [] if project is None else [path for path in project_files(project) if not _is_in(path, user)]
        restrictions = [_restricting(read(path)) for path in files]
        if remembered is not None:
            shell, theirs = self._recalled(project, remembered)
            restrictions.append(_without_known(_restricting(theirs), restrictions))
            settings = [shell, _valued(theirs)]
        else:
            settings = []
        if not self.hooked:
            settings = [Layer(ENVIRONMENT, self.environment), *settings]
        elif remembered is None:
            settings = [self._stand_in(project, [*managed], [users, *config])]
        return Settings([*above, *managed, *settings, users, *config], restrictions)

    def remember(self) -> HookEnvironment:
        """Return the environment of our own hook to store with its session, by author.

        Values from the user's or the administrator's files are left out, as the files can be read again. Raises
        ConfigError if it is unknown what the project has set.
        """
        return {
            who: {name: None if _is_secret(name, value) else readable(value) for name, value in part.items()}
            for who, part in zip(("shell", "project"), self._parts(), strict=True)
        }

    def _parts(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return our variables that the shell set, and those that the hook's project set."""
        named = frozenset[str]() if self.own_project is None else names_set_by(self.own_project)
        if named is None:
            message = (
                f"the settings files in {self.own_project}/.claude cannot be read, so it is not known which variables"
                " they set: each must be a regular file smaller than a megabyte"
            )
            raise ConfigError(message)
        user = claude_folder(self.environment, self.home)
        if self.own_project is not None and _is_in(self.own_project / ".claude" / "settings.json", user):
            named = frozenset()  # the user's own folder is the project
        managed = {name for path in self.managed for name in _lenient(path).values}
        users = _lenient(user / "settings.json").values
        ours = {
            name: value
            for name, value in self.environment.items()
            if name in _BY_VARIABLE and name not in managed and not name.startswith(OPTION)
        }
        ours = {name: value for name, value in ours.items() if not _BY_VARIABLE[name].hook_only}
        shell = {name: value for name, value in ours.items() if name not in named and name not in users}
        return shell, {name: value for name, value in ours.items() if name in named}

    def _stand_in(self, project: Path | None, stronger: list[Layer], weaker: list[Layer]) -> Layer:
        """Return our own shell's variables, for a session without a stored environment.

        If a variable that our project names would protect the session, the shell may have set it for all sessions: then
        the session is left to its own next hook.
        """
        shell, theirs = self._parts()
        layer = Layer(ENVIRONMENT, shell)
        both = Layer(ENVIRONMENT, {**shell, **theirs})
        doubt = _doubt(Settings([*stronger, layer, *weaker]), Settings([*stronger, both, *weaker]))
        if doubt is not None and project != self.own_project:
            message = (
                f"{doubt} may be set only for {self.own_project}, or for {project} too: run `cc-trace sync`, or"
                " wait for its next turn"
            )
            raise ConfigError(message)
        return layer

    def _recalled(self, project: Path | None, remembered: HookEnvironment) -> tuple[Layer, Layer]:
        """Return the stored environment of a session's hook: what the shell set, and what the project set.

        Secrets come from our own environment, if that has the same address beside them. Variables that another project
        set are never used.
        """
        shell, theirs = self._parts() if self.hooked else (dict(self.environment), {})
        by_shell, by_project = remembered.get("shell", {}), remembered.get("project", {})
        own = [theirs] if project is not None and project == self.own_project else []
        return (
            Layer(HOOK_ENVIRONMENT, _filled(by_shell, [shell])),
            Layer(f"{HOOK_ENVIRONMENT}, set by {project}", _filled(by_project, [*own, shell]), project=True),
        )

    def _with_options(self, users: Layer) -> Layer:
        """Return the user's layer with the options of the plugin. Secret options are only passed to the hook."""
        options = {name: value for name, value in self.environment.items() if name.startswith(OPTION)}
        return replace(users, values={**users.values, **options})

    def _config_layers(self, project: Path | None) -> list[Layer]:
        """Return config.toml: the tables of a project and of the folders above it, the nearest first, then the rest."""
        file = self.config_file
        toml = read_toml(file)
        tables = [(folder, table) for text, table in project_tables(toml) if (folder := self.folder(text)) is not None]
        there = [] if project is None else [Path(os.path.realpath(project)), project]
        fitting = [
            (folder, table)
            for folder, table in tables
            if any(path.is_relative_to(each) for path in there for each in (folder, Path(os.path.realpath(folder))))
        ]
        fitting.sort(key=lambda each: -len(each[0].parts))
        layers = [Layer(f'{file} [project."{folder}"]', table, variables=False) for folder, table in fitting]
        return [*layers, Layer(str(file), toml, variables=False)]

    def folder(self, text: str) -> Path | None:
        """Return the folder that a table of config.toml is for; None if it is not absolute."""
        path = Path(f"{self.home}{text[1:]}" if text == "~" or text.startswith("~/") else text)
        return path if path.is_absolute() else None


def _filled(part: Mapping[str, str | None], sources: Sequence[Mapping[str, str]]) -> dict[str, object]:
    """Return variables with their secrets filled in from the sources; the others are absent."""
    made: dict[str, object] = {}
    for name, value in part.items():
        if name not in _BY_VARIABLE:
            continue
        given = (source[name] for source in sources if name in source and _same_address(name, part, source))
        made[name] = value if value is not None else next(given, ABSENT)
    return made


def _same_address(name: str, part: Mapping[str, str | None], source: Mapping[str, str]) -> bool:
    """Return whether a secret in one source belongs to the address in the other."""
    address = _ADDRESSES.get(_BY_VARIABLE[name].name)
    if address is None:
        return True
    there, here = _address(address, part), _address(address, source)
    return there == here or (here is not None and there is ABSENT)


def _address(name: str, values: Mapping[str, str | None]) -> object:
    found = Layer("", {key: ABSENT if value is None else value for key, value in values.items()}).found(BY_NAME[name])
    return None if found is None else ABSENT if found.absent else found.text.rstrip("/")


def _is_secret(name: str, value: str) -> bool:
    """Return whether a value may be a secret, including expressions that match one and addresses that contain a key."""
    setting = _BY_VARIABLE[name]
    if setting.kind != "url":
        return setting.secret or setting.kind == "lines"
    try:
        parts = urlsplit(value)
    except ValueError:
        return True
    return bool("@" in parts.netloc or parts.query or parts.fragment)


def _restricting(layer: Layer) -> Layer:
    """Return the values of a project's layer that can restrict."""
    return _only(layer, "restriction")


def _without_known(layer: Layer, files: Sequence[Layer]) -> Layer:
    """Return a layer without absent values that are still in a project's own files."""
    known = {name for file in files for name in file.values}
    return replace(
        layer, values={name: it for name, it in layer.values.items() if it is not ABSENT or name not in known}
    )


def _valued(layer: Layer) -> Layer:
    return _only(layer, "value")


def _only(layer: Layer, use: str) -> Layer:
    kept = {name: value for name, value in layer.values.items() if _BY_VARIABLE[name].in_project == use}
    kept = {name: value for name, value in kept.items() if not name.startswith(OPTION)}
    return Layer(layer.origin, kept, project=True)


def _doubt(sure: Settings, unsure: Settings) -> str | None:
    """Return a variable that makes the unsure settings stricter than the sure ones. Wrong values are ignored."""
    for name in _PROTECTING:
        with contextlib.suppress(ConfigError):
            found = unsure.found(name)
            if found is not None and _protection(unsure, name) - _protection(sure, name):
                return found.key
    return None


def _protection(settings: Settings, name: str) -> set[str]:
    """Return what a setting withholds, as comparable values."""
    allowed = BY_NAME[name].allowed  # the more a value protects, the later it stands
    match checked(BY_NAME[name], settings):
        case list(patterns):
            return set(patterns)
        case str(content):
            return set(allowed[: allowed.index(content)])
        case enabled:
            return set() if enabled else {"all"}


def _is_in(path: Path, user: Path) -> bool:
    """Return whether a project's settings file is the user's own: the home folder can be a project, too."""
    return os.path.realpath(path.parent) == os.path.realpath(user)


def _lenient(path: Path) -> Layer:
    """Return the variables that Claude Code read from a settings file: none from a broken one."""
    try:
        return env_layer(path)
    except ConfigError:
        return Layer(str(path), {})


def env_layer(path: Path) -> Layer:
    """Return our variables in a settings file. Raises ConfigError for a file that cannot be used.

    Among them are the options of our plugin, which Claude Code gives to its hooks as variables.
    """
    try:
        raw = json.loads(read_regular(path))
    except (FileNotFoundError, NotADirectoryError):
        raw = {}
    except OSError as error:
        message = f"cannot use {path}: {error.strerror}"
        raise ConfigError(message) from error
    except (ValueError, RecursionError) as error:
        message = f"{path} is not valid JSON: {error}"
        raise ConfigError(message) from error
    raw = raw if isinstance(raw, dict) else {}
    given = _plugin_options(raw.get("pluginConfigs"))
    if isinstance(env := raw.get("env"), dict):
        given |= env
    return Layer(str(path), {name: value for name, value in given.items() if name in _BY_VARIABLE})


def _plugin_options(plugins: Any) -> dict[str, Any]:  # noqa: ANN401  (raw JSON has no type)
    found: dict[str, Any] = {}
    for name, plugin in plugins.items() if isinstance(plugins, dict) else ():
        match plugin:
            case {"options": dict(options)} if name.partition("@")[0] == PLUGIN:
                found |= {f"{OPTION}{key.upper()}": value for key, value in options.items()}
    return found


def project_tables(toml: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the tables that config.toml has for projects, by their folders."""
    tables = toml.get("project")
    return (
        [(folder, table) for folder, table in tables.items() if isinstance(table, dict)]
        if isinstance(tables, dict)
        else []
    )


def unknown_keys(path: Path) -> list[str]:
    """Return the unknown keys of config.toml; most are typos."""
    toml = read_toml(path)
    tables = project_tables(toml)
    unknown = [key for key in toml if not _is_setting(key) and not (key == "project" and _are_tables(toml[key]))]
    unknown += [f'project."{folder}"' for folder, _ in tables if not folder.startswith(("/", "~"))]
    return unknown + [f'project."{folder}".{key}' for folder, table in tables for key in table if not _is_setting(key)]


def _are_tables(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(table, dict) for table in value.values())


def _is_setting(key: str) -> bool:
    setting: Setting | None = BY_NAME.get(key)
    return setting is not None and not setting.hook_only


def read_toml(path: Path) -> dict[str, Any]:
    """Read config.toml; empty if there is none. Raises ConfigError."""
    try:
        return tomllib.loads(read_regular(path).decode())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        message = f"{path} is not valid TOML: {why}"
        raise ConfigError(message) from error
    except OSError as error:
        message = f"cannot use {path}: {error.strerror}"
        raise ConfigError(message) from error
