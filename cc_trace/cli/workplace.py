"""What the commands that deliver have in common: settings, state folder, log, destinations."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cc_trace.cli.places import here, home
from cc_trace.config import read_config, read_scope
from cc_trace.destinations import check_name, open_destination
from cc_trace.errors import CcTraceError, ConfigError, StateError
from cc_trace.log import Log
from cc_trace.orders import Plan, World
from cc_trace.privacy import Privacy
from cc_trace.settings import Layer, Settings
from cc_trace.sources import Sources
from cc_trace.state import States
from cc_trace.sync import Sync
from cc_trace.transcript import claude_folder, state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cc_trace.config import Config
    from cc_trace.destinations import DestinationSettings
    from cc_trace.destinations.outcomes import Destination

__all__ = ["Workplace", "here", "home"]

T = TypeVar("T")


@dataclass(slots=True)
class Workplace:
    """Opened once per command. Destinations and settings are opened and read when a session needs them."""

    sources: Sources
    config_dir: Path  # Claude Code's
    states: States
    log: Log
    world: World
    to: str | None = None  # only this destination
    skipped: list[DestinationSettings] = field(default_factory=list)
    _debugging: bool | None = None
    _settings: dict[str | None, Settings | ConfigError] = field(default_factory=dict)
    _configs: dict[str | None, Config | ConfigError] = field(default_factory=dict)
    _off: dict[str | None, str | None] = field(default_factory=dict)
    _plans: dict[str | None, Plan] = field(default_factory=dict)
    _destinations: list[tuple[DestinationSettings, Destination]] = field(default_factory=list)

    @classmethod
    def open(cls, environment: Mapping[str, str], *, hooked: bool = False, to: str | None = None) -> Workplace:
        """Make the state folder, and find the settings. `hooked`: a hook started us, and nobody looks on."""
        if to is not None:
            check_name(to, "--to")
        sources = Sources(environment, home(environment), hooked)
        config_dir = claude_folder(environment, sources.home)
        states = States(state_folder(environment, config_dir))
        try:
            states.prepare()
        except OSError as error:
            message = f"cannot use the state folder {states.folder}: {error.strerror}"
            raise StateError(message) from error
        world = World(time.time, time.sleep, patient=hooked)
        place = cls(sources, config_dir, states, Log(states.folder), world, to)
        world.reached = place.steps(environment.get("CC_TRACE_DIE_AT"))
        with contextlib.suppress(ValueError):
            world.unclear_seconds = float(environment.get("CC_TRACE_UNCLEAR_SECONDS", world.unclear_seconds))
        return place

    def settings(self, project: str | None) -> Settings:
        """Return the settings that hold for sessions started in a folder."""
        return _once(self._settings, project, self._read_settings)

    def config(self, project: str | None = None) -> Config:
        """Return what they come to."""
        return _once(self._configs, project, self._read_config)

    def _read_settings(self, project: str | None) -> Settings:
        layers = self.sources.layers(None if project is None else Path(project))
        if self.to is not None:
            only = {"destinations": self.to, "trace_to_langfuse": self.to == "langfuse"}
            layers = [Layer("--to", only, variables=False), *layers]
        return Settings(layers)

    def _read_config(self, project: str | None) -> Config:
        return read_config(self.settings(project), self.states.folder, self.sources.home)

    def plan(self, project: str | None) -> Plan:
        """Return what is to be done with the sessions of a project."""
        if project not in self._plans:
            if (off := self.off(project)) is not None:
                return Plan(off=off)
            config = self.config(project)
            opened = tuple(self._opened(each) for each in config.destinations if each not in self.skipped)
            self._plans[project] = Plan(opened, Privacy(config.privacy), None, config.rest_seconds)
        return self._plans[project]

    def off(self, project: str | None) -> str | None:
        """Return why sessions of a project are left out, None where they are not.

        What else is wrong with its settings is raised where it is not off, and else stands in the log.
        """
        if project not in self._off:
            try:
                off = self.config(project).off(project, os.path.realpath)
            except ConfigError as error:
                off = read_scope(self.settings(project), self.sources.home).off(project, os.path.realpath)
                if off is None:
                    raise
                self.log.write(f"{project or 'settings'}: {off}; and {error}")
            self._off[project] = off
        return self._off[project]

    def skip(self, settings: DestinationSettings) -> None:
        """Do without a destination from now on."""
        self.skipped.append(settings)
        self._plans.clear()

    def destination_names(self, project: str | None) -> list[str] | None:
        """Return the names of a project's destinations; none where it is off, None where its settings are wrong."""
        try:
            if self.off(project) is not None:
                return []
            return [settings.name for settings in self.config(project).destinations]
        except CcTraceError:
            return None

    def reached(self, step: str) -> None:
        """Pass a named step."""
        self.world.reached(step)

    @contextlib.contextmanager
    def sync(self) -> Iterator[Sync]:
        """Deliver; at the end all destinations are closed."""
        sync = Sync(self.states, self.plan, self.log, self.world, self.config_dir)
        try:
            yield sync
        finally:
            sync.close()
            for _, destination in self._destinations:
                destination.close()
            self._destinations.clear()
            self._plans.clear()

    def steps(self, deadly: str | None) -> Callable[[str], None]:
        """Return what is to happen at named steps: nothing, a line in the log, or a sudden death for the tests."""

        def reached(name: str) -> None:
            if name == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            if self._debug():
                self.log.write(f"reached: {name}")

        return reached

    def _debug(self) -> bool:
        """Tell whether every step is to be logged. Asked at each of them, and found out once."""
        if self._debugging is None:
            self._debugging = False
            with contextlib.suppress(ConfigError):
                self._debugging = self.config(None).debug
        return self._debugging

    def _opened(self, settings: DestinationSettings) -> Destination:
        """Return a destination, opened once for all projects that have the same."""
        for known, destination in self._destinations:
            if known == settings:
                return destination
        destination = open_destination(settings)
        self._destinations.append((settings, destination))
        return destination


def _once(known: dict[str | None, T | ConfigError], project: str | None, read: Callable[[str | None], T]) -> T:
    """Return what was read for a project, or raise what was wrong with it, having read it once."""
    if project not in known:
        try:
            known[project] = read(project)
        except ConfigError as error:
            known[project] = error
    found = known[project]
    if isinstance(found, ConfigError):
        raise found
    return found
