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
from cc_trace.settings.lookup import ABSENT, ENVIRONMENT, HOOK_ENVIRONMENT, Layer, Settings, toml_value
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
    from_hook: bool  # started by a hook: Claude Code has put its project's settings into the environment
    managed: tuple[Path, ...] = MANAGED

    @property
    def config_file(self) -> Path:
        """Return the path of config.toml."""
        folder = self.environment.get("XDG_CONFIG_HOME") or self.home / ".config"
        return Path(folder) / "cc-trace" / "config.toml"

    @property
    def own_project(self) -> Path | None:
        """Return the project whose hook started us."""
        folder = self.environment.get("CLAUDE_PROJECT_DIR") if self.from_hook else None
        return None if folder is None else Path(folder)

    def settings(
        self, project: Path | None, hook_environment: HookEnvironment | None = None, overrides: Sequence[Layer] = ()
    ) -> Settings:
        """Return the settings for a session of a project, given the stored environment of its hook.

        Raises ConfigError for a file that cannot be used. `overrides`: layers that are stronger than all others.
        """
        is_own_project = self.own_project is not None and project in (None, self.own_project)
        # Claude Code has ignored a broken file of our own project, and its environment is ours.
        read = _lenient if is_own_project else env_layer
        user_folder = claude_folder(self.environment, self.home)
        managed = [read(path) for path in self.managed]
        user_layer = self._with_options(read(user_folder / "settings.json"))
        config = self._config_layers(project)
        files = [] if project is None else [path for path in project_files(project) if not _is_in(path, user_folder)]
        restrictions = [_project_restrictions(read(path)) for path in files]
        if hook_environment is not None:
            shell_layer, project_layer = self._stored_layers(project, hook_environment)
            restrictions.append(_without_known(_project_restrictions(project_layer), restrictions))
            environments = [shell_layer, _project_values(project_layer)]
        else:
            environments = []
        if not self.from_hook:
            environments = [Layer(ENVIRONMENT, self.environment), *environments]
        elif hook_environment is None:
            environments = [self._shell_layer(project, [*managed], [user_layer, *config])]
        return Settings([*overrides, *managed, *environments, user_layer, *config], restrictions)

    def hook_environment(self) -> HookEnvironment:
        """Return the environment of our own hook to store with its session, by author.

        Values from the user's or the administrator's files are left out, as the files can be read again. Raises
        ConfigError if it is unknown what the project has set.
        """
        return {
            author: {name: None if _is_secret(name, value) else readable(value) for name, value in variables.items()}
            for author, variables in zip(("shell", "project"), self._split_environment(), strict=True)
        }

    def _split_environment(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return our variables that the shell set, and those that the hook's project set."""
        project_names = frozenset[str]() if self.own_project is None else names_set_by(self.own_project)
        if project_names is None:
            message = (
                f"the settings files in {self.own_project}/.claude cannot be read, so it is not known which variables"
                " they set: each must be a regular file smaller than a megabyte"
            )
            raise ConfigError(message)
        user_folder = claude_folder(self.environment, self.home)
        if self.own_project is not None and _is_in(self.own_project / ".claude" / "settings.json", user_folder):
            project_names = frozenset()  # the user's own folder is the project
        managed = {name for path in self.managed for name in _lenient(path).values}
        user_variables = _lenient(user_folder / "settings.json").values
        variables = {
            name: value
            for name, value in self.environment.items()
            if name in _BY_VARIABLE and name not in managed and not name.startswith(OPTION)
        }
        variables = {name: value for name, value in variables.items() if not _BY_VARIABLE[name].hook_only}
        shell = {
            name: value for name, value in variables.items() if name not in project_names and name not in user_variables
        }
        return shell, {name: value for name, value in variables.items() if name in project_names}

    def _shell_layer(self, project: Path | None, stronger: list[Layer], weaker: list[Layer]) -> Layer:
        """Return our own shell's variables, for a session without a stored environment.

        If a variable in our project's files would protect the session, the shell may have set it for all sessions: then
        the session is left to its own next hook.
        """
        by_shell, by_project = self._split_environment()
        layer = Layer(ENVIRONMENT, by_shell)
        both = Layer(ENVIRONMENT, {**by_shell, **by_project})
        variable = _stricter_variable(Settings([*stronger, layer, *weaker]), Settings([*stronger, both, *weaker]))
        if variable is not None and project != self.own_project:
            message = (
                f"{variable} may be set only for {self.own_project}, or for {project} too: run `cc-trace sync`, or"
                " wait for its next turn"
            )
            raise ConfigError(message)
        return layer

    def _stored_layers(self, project: Path | None, stored: HookEnvironment) -> tuple[Layer, Layer]:
        """Return the stored environment of a session's hook: what the shell set, and what the project set.

        Secrets come from our own environment, if that has the same address beside them. Variables that another project
        set are never used.
        """
        by_our_shell, by_our_project = self._split_environment() if self.from_hook else (dict(self.environment), {})
        by_shell, by_project = stored.get("shell", {}), stored.get("project", {})
        own_variables = [by_our_project] if project is not None and project == self.own_project else []
        return (
            Layer(HOOK_ENVIRONMENT, _fill_secrets(by_shell, [by_our_shell])),
            Layer(
                f"{HOOK_ENVIRONMENT}, set by {project}",
                _fill_secrets(by_project, [*own_variables, by_our_shell]),
                project=True,
            ),
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
        project_paths = [] if project is None else [Path(os.path.realpath(project)), project]
        applicable = [
            (folder, table)
            for folder, table in tables
            if any(
                path.is_relative_to(base) for path in project_paths for base in (folder, Path(os.path.realpath(folder)))
            )
        ]
        applicable.sort(key=lambda folder_and_table: -len(folder_and_table[0].parts))
        layers = [Layer(f'{file} [project."{folder}"]', table, variables=False) for folder, table in applicable]
        return [*layers, Layer(str(file), toml, variables=False)]

    def folder(self, text: str) -> Path | None:
        """Return the folder that a table of config.toml is for; None if it is not absolute."""
        path = Path(f"{self.home}{text[1:]}" if text == "~" or text.startswith("~/") else text)
        return path if path.is_absolute() else None


def _fill_secrets(variables: Mapping[str, str | None], sources: Sequence[Mapping[str, str]]) -> dict[str, object]:
    """Return variables with their secrets filled in from the sources; a secret that is in none of them is absent."""
    values: dict[str, object] = {}
    for name, value in variables.items():
        if name not in _BY_VARIABLE:
            continue
        secrets = (source[name] for source in sources if name in source and _same_address(name, variables, source))
        values[name] = value if value is not None else next(secrets, ABSENT)
    return values


def _same_address(name: str, variables: Mapping[str, str | None], source: Mapping[str, str]) -> bool:
    """Return whether a secret in one source belongs to the address in the other."""
    address = _ADDRESSES.get(_BY_VARIABLE[name].name)
    if address is None:
        return True
    stored_address, source_address = _address(address, variables), _address(address, source)
    return stored_address == source_address or (source_address is not None and stored_address is ABSENT)


def _address(name: str, values: Mapping[str, str | None]) -> object:
    layer = Layer("", {key: ABSENT if value is None else value for key, value in values.items()})
    address = layer.value(BY_NAME[name])
    return None if address is None else ABSENT if address.absent else address.text.rstrip("/")


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


def _project_restrictions(layer: Layer) -> Layer:
    """Return the values of a project's layer that may restrict others."""
    return _only(layer, "restriction")


def _without_known(layer: Layer, files: Sequence[Layer]) -> Layer:
    """Return a layer without absent values that are still in a project's own files."""
    known = {name for file in files for name in file.values}
    return replace(
        layer, values={name: value for name, value in layer.values.items() if value is not ABSENT or name not in known}
    )


def _project_values(layer: Layer) -> Layer:
    return _only(layer, "value")


def _only(layer: Layer, use: str) -> Layer:
    values = {name: value for name, value in layer.values.items() if _BY_VARIABLE[name].in_project == use}
    values = {name: value for name, value in values.items() if not name.startswith(OPTION)}
    return Layer(layer.origin, values, project=True)


def _stricter_variable(sure: Settings, unsure: Settings) -> str | None:
    """Return a variable that makes the unsure settings stricter than the sure ones. Wrong values are ignored."""
    for name in _PROTECTING:
        with contextlib.suppress(ConfigError):
            value = unsure.value(name)
            if value is not None and _protection(unsure, name) - _protection(sure, name):
                return value.key
    return None


def _protection(settings: Settings, name: str) -> set[str]:
    """Return what a setting withholds, as comparable values."""
    allowed = BY_NAME[name].allowed  # from least to most protective
    match toml_value(BY_NAME[name], settings):
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
    variables = _plugin_options(raw.get("pluginConfigs"))
    if isinstance(env := raw.get("env"), dict):
        variables |= env
    return Layer(str(path), {name: value for name, value in variables.items() if name in _BY_VARIABLE})


def _plugin_options(plugins: Any) -> dict[str, Any]:  # noqa: ANN401  (raw JSON has no type)
    variables: dict[str, Any] = {}
    for name, plugin in plugins.items() if isinstance(plugins, dict) else ():
        match plugin:
            case {"options": dict(options)} if name.partition("@")[0] == PLUGIN:
                variables |= {f"{OPTION}{key.upper()}": value for key, value in options.items()}
    return variables


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
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        message = f"{path} is not valid TOML: {reason}"
        raise ConfigError(message) from error
    except OSError as error:
        message = f"cannot use {path}: {error.strerror}"
        raise ConfigError(message) from error
