"""Where settings come from: the environment, the `env` of Claude Code's settings files, and config.toml.

Claude Code puts the `env` of its settings files into the environment of a hook. So a worker that a hook started finds
there what holds for its own project. For a session of another project, which it may find left behind, that must not
hold: what the files name is taken out again, whatever its value, and that project's files are asked instead. Where a
variable that is taken out would protect the other project, that project's sessions are left to a hook of its own: the
shell may have set it for all.
"""

from __future__ import annotations

import contextlib
import json
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cc_trace.errors import ConfigError
from cc_trace.settings import BY_NAME, OPTION, SETTINGS, Layer, Settings, as_text, checked
from cc_trace.transcript import claude_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

# By Claude Code's documentation; what an administrator writes there goes before all else.
MANAGED: Final = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
PLUGIN: Final = "cc-trace"
_VARIABLES: Final = frozenset(variable for setting in SETTINGS for variable in setting.variables)
_PROTECTING: Final = ("enabled", "exclude", "content", "mask")


@dataclass(frozen=True, slots=True)
class Sources:
    """The environment of this process, and the files."""

    environment: Mapping[str, str]
    home: Path
    hooked: bool  # a hook started us: Claude Code has put the settings of its project into the environment
    managed: tuple[Path, ...] = MANAGED

    @property
    def config_file(self) -> Path:
        """Return where our own configuration is."""
        folder = self.environment.get("XDG_CONFIG_HOME") or self.home / ".config"
        return Path(folder) / "cc-trace" / "config.toml"

    def layers(self, project: Path | None) -> list[Layer]:
        """Return the layers for a session of a project, the strongest first."""
        own = self.environment.get("CLAUDE_PROJECT_DIR") if self.hooked else None
        file = Layer(str(self.config_file), read_toml(self.config_file), variables=False)
        user = claude_folder(self.environment, self.home)
        if own is not None and (project is None or project == Path(own)):
            return [*self._own_layers(Path(own), user), file]
        managed = [env_layer(path) for path in self.managed]
        users = self._with_options(env_layer(user / "settings.json"))
        below = [*([] if project is None else _project_layers(project, user)), users, file]
        if not self.hooked:
            return [*managed, Layer("environment", self.environment), *below]
        mine = _without(self.environment, [*managed, users])
        theirs = [] if own is None else _lenient(_project_files(Path(own)), user)
        layers = [*managed, Layer("environment", _without(mine, theirs)), *below]
        doubt = _doubt(Settings(layers), Settings([*managed, Layer("environment", mine), *below]))
        if doubt is not None:
            message = f"{doubt} may be set for {own} alone or for {project} too: that is left to a hook of its own"
            raise ConfigError(message)
        return layers

    def _own_layers(self, project: Path, user: Path) -> list[Layer]:
        """Return the layers of a hook's own project: what in its environment stems from files goes to their places."""
        users = [self._with_options(layer) for layer in _lenient([user / "settings.json"])]
        theirs: dict[str, object] = {}
        for layer in reversed(_lenient(_project_files(project), user)):
            if layer.shared:
                theirs |= self._from(layer)
        named = {*theirs, *(name for layer in users for name in self._from(layer))}
        mine = {name: value for name, value in self.environment.items() if name not in named}
        return [Layer("environment", mine), Layer(str(project / ".claude"), theirs, shared=True), *users]

    def _with_options(self, users: Layer) -> Layer:
        """Return the user's layer with the options of the plugin; of those that are secret only the hook is told."""
        options = {name: value for name, value in self.environment.items() if name.startswith(OPTION)}
        return replace(users, values={**users.values, **options})

    def _from(self, layer: Layer) -> dict[str, object]:
        """Return what of a settings file is in the environment."""
        return {name: said for name, said in layer.values.items() if self.environment.get(name) == as_text(said)}


def _without(environment: Mapping[str, str], layers: list[Layer]) -> dict[str, str]:
    """Return the environment without what settings files name: one may have been edited since Claude Code read it."""
    return {name: value for name, value in environment.items() if not any(name in layer.values for layer in layers)}


def _doubt(sure: Settings, unsure: Settings) -> str | None:
    """Return the variable by which unsure settings protect more than sure ones do; a wrong value protects nothing."""
    for name in _PROTECTING:
        with contextlib.suppress(ConfigError):
            found = unsure.found(name)
            if found is not None and _protection(unsure, name) - _protection(sure, name):
                return found.key
    return None


def _protection(settings: Settings, name: str) -> set[str]:
    """Return what a setting keeps from leaving, as things that can be compared."""
    allowed = BY_NAME[name].allowed  # the more a value protects, the later it stands
    match checked(BY_NAME[name], settings):
        case list(patterns):
            return set(patterns)
        case str(content):
            return set(allowed[: allowed.index(content)])
        case enabled:
            return set() if enabled else {"all"}


def _project_files(project: Path) -> list[Path]:
    return [project / ".claude" / name for name in ("settings.local.json", "settings.json")]


def _project_layers(project: Path, user: Path) -> list[Layer]:
    return [_layer(path, user) for path in _project_files(project)]


def _layer(path: Path, user: Path | None) -> Layer:
    shared = user is not None and path.parent.resolve() != user.resolve()  # home can be a project, too
    return env_layer(path, shared=shared)


def _lenient(paths: list[Path], user: Path | None = None) -> list[Layer]:
    """Return what Claude Code took from settings files; a broken one it has ignored, and so do we."""
    found = []
    for path in paths:
        with contextlib.suppress(ConfigError):
            found.append(_layer(path, user))
    return found


def env_layer(path: Path, *, shared: bool = False) -> Layer:
    """Return the variables of ours in a settings file; a file that is there and cannot be read is a ConfigError.

    In a user's own file there are also the options of our plugin, which Claude Code gives to its hooks as variables. In
    a project's file it ignores them.
    """
    try:
        raw = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raw = {}
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise ConfigError(message) from error
    except (ValueError, RecursionError) as error:
        message = f"{path} is not valid JSON: {error}"
        raise ConfigError(message) from error
    raw = raw if isinstance(raw, dict) else {}
    given = {} if shared else _plugin_options(raw.get("pluginConfigs"))
    if isinstance(env := raw.get("env"), dict):
        given |= env
    return Layer(str(path), {name: value for name, value in given.items() if name in _VARIABLES}, shared=shared)


def _plugin_options(plugins: Any) -> dict[str, Any]:  # noqa: ANN401  (raw JSON has no type)
    found: dict[str, Any] = {}
    for name, plugin in plugins.items() if isinstance(plugins, dict) else ():
        match plugin:
            case {"options": dict(options)} if name.partition("@")[0] == PLUGIN:
                found |= {f"{OPTION}{key.upper()}": value for key, value in options.items()}
    return found


def unknown_keys(path: Path) -> list[str]:
    """Return the keys of config.toml that mean nothing; most are mistyped."""
    return [key for key in read_toml(path) if key not in BY_NAME or BY_NAME[key].early]


def read_toml(path: Path) -> dict[str, Any]:
    """Return config.toml; empty where there is none."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        message = f"{path}: {error}"
        raise ConfigError(message) from error
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise ConfigError(message) from error
