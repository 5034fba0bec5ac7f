"""What is checked: a user's installation, as seen by a session started in a project. Every file is read once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from cc_trace.errors import CcTraceError, JsonTextError
from cc_trace.install import Registration, parse_settings, read_settings, registered
from cc_trace.settings import read_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cc_trace.delivery import StateFolder
    from cc_trace.settings import Config, Settings, Sources

Scope: TypeAlias = Literal["user", "project", "managed"]


class SettingsFile(NamedTuple):
    """A settings file of Claude Code that exists."""

    path: Path
    scope: Scope
    values: Mapping[str, Any]
    hooks: tuple[Registration, ...] = ()  # ours
    problem: str | None = None  # why it cannot be read

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return the object under a key; empty if there is none."""
        value = self.values.get(key)
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Subject:
    """A user's installation."""

    sources: Sources
    config_dir: Path  # Claude Code's
    states: StateFolder  # the folder may not exist
    project: Path
    now: float

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the environment of this process."""
        return self.sources.environment

    def settings(self) -> Settings:
        """Return the settings. Raises ConfigError if a file cannot be read."""
        return self.sources.settings(self.project)

    def config(self) -> Config:
        """Return the settings, checked and converted. Raises ConfigError."""
        return read_config(self.settings(), self.states.folder, self.sources.home)

    @cached_property
    def files(self) -> list[SettingsFile]:
        """Return the settings files that apply here, the weakest first, each once: a project can be the home folder."""
        project = self.project / ".claude"
        paths: list[tuple[Path, Scope]] = [
            (self.config_dir / "settings.json", "user"),
            (project / "settings.json", "project"),
            (project / "settings.local.json", "project"),
            *((path, "managed") for path in reversed(self.sources.managed)),
        ]
        files: dict[str, SettingsFile] = {}
        for path, scope in paths:
            if (file := _read(path, scope)) is not None:
                files.setdefault(os.path.realpath(path), file)  # unlike `resolve`, it takes a loop of links
        return list(files.values())

    @cached_property
    def plugins(self) -> dict[str, SettingsFile]:
        """Return the names under which our plugin is enabled, each with the file that decides it: the strongest."""
        strongest = {
            name: (file, enabled)
            for file in self.files
            for name, enabled in file.mapping("enabledPlugins").items()
            if name.partition("@")[0] == "cc-trace"
        }
        return {name: file for name, (file, enabled) in strongest.items() if enabled is True}

    def hook_environment(self, *, trusted: bool = False) -> dict[str, str]:
        """Return the environment of a hook: this process's, and the variables that settings files add.

        `trusted`: without those of a project's files, because a variable can make a program run another one.
        """
        files = [file for file in self.files if not trusted or file.scope != "project"]
        variables = {
            name: value for file in files for name, value in file.mapping("env").items() if isinstance(value, str)
        }
        return {**self.environment, **variables}


def _read(path: Path, scope: Scope) -> SettingsFile | None:
    try:
        text = read_settings(path)
        return None if text is None else SettingsFile(path, scope, parse_settings(text), tuple(registered(text)))
    except JsonTextError as error:
        return SettingsFile(path, scope, {}, problem=f"{path}: {error}")
    except CcTraceError as error:
        return SettingsFile(path, scope, {}, problem=str(error).partition("; ")[0])  # without what to do for `install`
