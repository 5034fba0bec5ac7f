"""What every command that delivers needs: settings, state folder, log, destinations."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import orjson

from cc_trace.delivery.runtime import Plan, Runtime
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.sync import Sync
from cc_trace.errors import CcTraceError, ConfigError, StateError
from cc_trace.export import open_destination, split_name
from cc_trace.log import Log
from cc_trace.paths import claude_folder, home, state_folder
from cc_trace.privacy import Privacy
from cc_trace.settings import Layer, Sources, read_config, read_local_config, read_scope, why_off
from cc_trace.transcript import first_cwd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from cc_trace.export import Destination, DestinationSettings
    from cc_trace.settings import Config, HookEnvironment, LocalConfig, Settings


T = TypeVar("T")


@dataclass(slots=True)
class App:
    """Opened once per command. Settings are read, and destinations opened, when a session first needs them."""

    sources: Sources
    config_dir: Path  # Claude Code's folder
    states: StateFolder
    log: Log
    runtime: Runtime
    only_destination: str | None = None  # of all that are configured
    skipped: list[DestinationSettings] = field(default_factory=list)
    _debugging: bool | None = None
    _settings: dict[_Key, Settings | ConfigError] = field(default_factory=dict)
    _configs: dict[_Key, Config | ConfigError] = field(default_factory=dict)
    _local_configs: dict[_Key, LocalConfig | ConfigError] = field(default_factory=dict)
    _off: dict[_Key, str | None] = field(default_factory=dict)
    _plans: dict[_Key, Plan] = field(default_factory=dict)
    _destinations: list[tuple[DestinationSettings, Destination]] = field(default_factory=list)

    @classmethod
    def open(
        cls, environment: Mapping[str, str], *, from_hook: bool = False, only_destination: str | None = None
    ) -> App:
        """Prepare the state folder and find the settings. `from_hook`: a hook started us, so nobody sees our output."""
        if only_destination is not None:
            split_name(only_destination, "--to")  # raises if there is none of that name
        sources = Sources(environment, home(environment), from_hook)
        config_dir = claude_folder(environment, sources.home)
        states = StateFolder(state_folder(environment, config_dir))
        try:
            states.prepare()
        except OSError as error:
            message = f"cannot use the state folder {states.folder}: {error.strerror}"
            raise StateError(message) from error
        runtime = Runtime(time.time, time.sleep, in_background=from_hook)
        app = cls(
            sources=sources,
            config_dir=config_dir,
            states=states,
            log=Log(states.folder),
            runtime=runtime,
            only_destination=only_destination,
        )
        runtime.may_be_blocked = app.may_be_blocked
        runtime.mark_step = app.step_callback(environment.get("CC_TRACE_DIE_AT"))
        return app

    def project_and_environment(self, transcript: Path) -> tuple[str | None, HookEnvironment | None]:
        """Return a session's project and its hook's environment, which determine its settings."""
        state = self.states.peek(transcript.stem)
        return (first_cwd(transcript), None) if state is None else (state.cwd, state.environment)

    def settings(self, project: str | None, environment: HookEnvironment | None = None) -> Settings:
        """Return the settings for a session of this project with this hook environment."""
        return _cached(self._settings, _key(project, environment), lambda: self._read_settings(project, environment))

    def config(self, project: str | None = None, environment: HookEnvironment | None = None) -> Config:
        """Return the same settings, checked and converted. Raises ConfigError."""
        return _cached(self._configs, _key(project, environment), lambda: self._read_config(project, environment))

    def local_config(self, project: str | None = None, environment: HookEnvironment | None = None) -> LocalConfig:
        """Return the settings for what is kept on this machine. Unlike `config`, ignores wrong destinations."""
        key = _key(project, environment)
        return _cached(
            self._local_configs, key, lambda: read_local_config(self.settings(project, environment), self.sources.home)
        )

    def _read_settings(self, project: str | None, environment: HookEnvironment | None) -> Settings:
        overrides = []
        if (name := self.only_destination) is not None:
            values = {"destinations": name, "trace_to_langfuse": name == "langfuse"}
            overrides = [Layer("--to", values, variables=False)]
        return self.sources.settings(None if project is None else Path(project), environment, overrides)

    def _read_config(self, project: str | None, environment: HookEnvironment | None) -> Config:
        return read_config(self.settings(project, environment), self.states.folder, self.sources.home)

    def plan(self, project: str | None, environment: HookEnvironment | None = None) -> Plan:
        """Return what to do with a project's sessions. Opens their destinations."""
        key = _key(project, environment)
        if key not in self._plans:
            if (off := self.why_off(project, environment)) is not None:
                return Plan(why_off=off)
            config = self.config(project, environment)
            destinations = tuple(
                self._open(settings) for settings in config.destinations if settings not in self.skipped
            )
            self._plans[key] = Plan(
                destinations=destinations,
                redact=Privacy(config.privacy),
                rest_seconds=config.rest_seconds,
                unclear_seconds=config.unclear_seconds,
                backoff_keys={settings.name: settings.address for settings in config.destinations},
                request_content=config.request_content,
                request_seconds=max((settings.send_seconds for settings in config.destinations), default=0.0),
            )
        return self._plans[key]

    def why_off(self, project: str | None, environment: HookEnvironment | None = None) -> str | None:
        """Return why a project's sessions are not traced, None if they are.

        A wrong setting raises ConfigError only if tracing is on; otherwise it is logged.
        """
        key = _key(project, environment)
        if key not in self._off:
            try:
                off = why_off(self.config(project, environment), project)
            except ConfigError as error:
                settings = self.settings(project, environment)
                off = why_off(read_scope(settings, self.sources.home), project)
                if off is None:
                    raise
                self.log.write(f"{project or 'settings'}: {off}; and {error}")
            self._off[key] = off
        return self._off[key]

    def skip_destination(self, settings: DestinationSettings) -> None:
        """Leave a destination out of all plans from now on."""
        self.skipped.append(settings)
        self._plans.clear()

    def reachable(self, project: str | None, environment: HookEnvironment | None) -> list[str] | None:
        """Return the names of a session's destinations, without those that are backing off."""
        names = self.destination_names(project, environment)
        if not names:
            return names
        now, backoff = self.runtime.clock(), self.states.backoff
        addresses = {settings.name: settings.address for settings in self.config(project, environment).destinations}
        return [name for name in names if backoff.current_wait(addresses[name], now) is None]

    def destination_names(self, project: str | None, environment: HookEnvironment | None) -> list[str] | None:
        """Return the names of a session's destinations: empty if tracing is off, None if its settings are wrong."""
        try:
            if self.why_off(project, environment) is not None:
                return []
            return [settings.name for settings in self.config(project, environment).destinations]
        except CcTraceError:
            return None

    def may_be_blocked(self, project: str | None) -> bool:
        """Return whether a Stop hook other than ours may make the model go on. Needed only while the hook waits."""
        from cc_trace.install import others_may_block  # noqa: PLC0415  (no other worker needs it)

        return others_may_block(self.config_dir, project, self.sources.managed, self.sources.environment)

    def mark_step(self, step: str) -> None:
        """Note that a named step was reached: tests let the process die there, and `debug` logs it."""
        self.runtime.mark_step(step)

    @contextlib.contextmanager
    def sync(self) -> Iterator[Sync]:
        """Yield a Sync; close it and all destinations in the end."""
        sync = Sync(
            self.states, lambda state: self.plan(state.cwd, state.environment), self.log, self.runtime, self.config_dir
        )
        try:
            yield sync
        finally:
            sync.close()
            for _, destination in self._destinations:
                destination.close()
            self._destinations.clear()
            self._plans.clear()

    def step_callback(self, fatal_step: str | None) -> Callable[[str], None]:
        """Return the callback for named steps: with `debug` it logs them; at `fatal_step` it kills the process."""

        def mark_step(name: str) -> None:
            if name == fatal_step:
                os.kill(os.getpid(), signal.SIGKILL)
            if self._debug():
                self.log.write(f"reached: {name}")

        return mark_step

    def _debug(self) -> bool:
        """Return whether steps are logged; read from the settings on first use."""
        if self._debugging is None:
            self._debugging = False
            with contextlib.suppress(ConfigError):
                self._debugging = self.config(None).debug
        return self._debugging

    def _open(self, settings: DestinationSettings) -> Destination:
        """Return an open destination, shared by all projects with equal settings for it."""
        for opened_settings, destination in self._destinations:
            if opened_settings == settings:
                return destination
        destination = open_destination(settings)
        self._destinations.append((settings, destination))
        return destination


_Key: TypeAlias = tuple[str | None, bytes]


def _key(project: str | None, environment: HookEnvironment | None) -> _Key:
    """Return the cache key: sessions of a project whose hooks had the same environment share their settings."""
    return project, orjson.dumps(environment, option=orjson.OPT_SORT_KEYS)


def _cached(cache: dict[_Key, T | ConfigError], key: _Key, read: Callable[[], T]) -> T:
    """Return the cached value, or raise the cached error; call `read` the first time."""
    if key not in cache:
        try:
            cache[key] = read()
        except ConfigError as error:
            cache[key] = error
    result = cache[key]
    if isinstance(result, ConfigError):
        raise result
    return result
