"""What the commands that deliver have in common: settings, state folder, log, destinations."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cc_trace.config import read_config
from cc_trace.destinations import open_destination
from cc_trace.errors import ConfigError, StateError
from cc_trace.log import Log
from cc_trace.state import States
from cc_trace.sync import Sync, World

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cc_trace.config import Config


@dataclass(slots=True)
class Workplace:
    """Opened once per command."""

    config: Config
    states: States
    log: Log
    world: World

    @classmethod
    def open(cls, environment: Mapping[str, str], *, patient: bool) -> Workplace:
        """Read the settings and make the state folder."""
        config = read_config(environment, _config_file(environment), _home(environment))
        states = States(config.state_dir)
        try:
            states.prepare()
        except OSError as error:
            message = f"cannot use the state folder {config.state_dir}: {error.strerror}"
            raise StateError(message) from error
        world = World(time.time, time.sleep, _deadly(environment.get("CC_TRACE_DIE_AT")), patient=patient)
        world.rest_seconds = config.rest_seconds
        if (seconds := environment.get("CC_TRACE_UNCLEAR_SECONDS")) is not None:
            world.unclear_seconds = float(seconds)
        return cls(config, states, Log(config.state_dir), world)

    @property
    def destination_names(self) -> list[str]:
        """Return the names of the destinations in use."""
        return [settings.name for settings in self.config.destinations]

    def reached(self, step: str) -> None:
        """Pass a named step."""
        self.world.reached(step)

    @contextlib.contextmanager
    def sync(self) -> Iterator[Sync]:
        """Open the destinations and deliver to them."""
        destinations = [open_destination(settings) for settings in self.config.destinations]
        sync = Sync(self.states, destinations, self.log, self.world, self.config.config_dir)
        try:
            yield sync
        finally:
            sync.close()


def _home(environment: Mapping[str, str]) -> Path:
    home = environment.get("HOME")
    return Path(home) if home else Path.home()


def _config_file(environment: Mapping[str, str]) -> dict[str, Any]:
    folder = environment.get("XDG_CONFIG_HOME") or _home(environment) / ".config"
    path = Path(folder) / "cc-trace" / "config.toml"
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        message = f"{path}: {error}"
        raise ConfigError(message) from error
    except OSError as error:
        message = f"cannot read {path}: {error.strerror}"
        raise ConfigError(message) from error


def _deadly(step: str | None) -> Any:  # noqa: ANN401
    """Die at a named step, as if killed: tests walk all of them."""

    def reached(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached
