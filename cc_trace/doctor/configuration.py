"""Whether the settings are right, and keys where only their owner can read them."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from typing import TYPE_CHECKING, Any, Final

from cc_trace.doctor.check import failed, listed, ok, warning
from cc_trace.errors import ConfigError
from cc_trace.privacy import Privacy
from cc_trace.settings import SETTINGS, env_layer, project_tables, read_toml, unknown_keys, why_off

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cc_trace.doctor.check import Check
    from cc_trace.doctor.subject import SettingsFile, Subject

_SECRETS: Final = [setting for setting in SETTINGS if setting.secret]
_MIN_CHARS: Final = 6  # shorter values would be found in any text


def configuration(subject: Subject) -> Iterator[Check]:
    """Check that the settings are valid, and say whether this project is traced."""
    try:
        config = subject.config()
        Privacy(config.privacy)  # whose own patterns may be wrong
    except ConfigError as error:
        if any(str(file.path) in str(error) for file in subject.files if file.problem is not None):
            return  # `settings.json` reports what is wrong with it
        fix = "correct the setting; `cc-trace config` shows every setting and where it is set"
        if subject.plugins:
            # Claude Code keeps secret options where it keeps its own secrets, and we do not read those.
            fix += ". Keys in the plugin's options reach only hooks; `cc-trace config set` works everywhere"
        yield failed("configuration", str(error), fix)
        return
    names = ", ".join(destination.name for destination in config.destinations)
    metrics_unused = subject.settings().text("metrics") == "on" and not any(
        destination.metrics for destination in config.destinations
    )
    if (off := why_off(config, str(subject.project))) is not None:
        fix = "nothing, if this is intended; otherwise `cc-trace config` shows where it is set"
        yield warning("configuration", f"sessions of {subject.project} are not traced: {off}", fix)
    elif metrics_unused:
        fix = "run `cc-trace config set otlp_endpoint URL`, or `cc-trace config unset metrics`"
        yield warning("configuration", f"metrics is on, but only destination otlp accepts metrics, not {names}", fix)
    else:
        yield ok("configuration", f"traces of {subject.project} go to {names}")


def config_file(subject: Subject) -> Iterator[Check]:
    """Check for unknown keys in config.toml, which are mostly typos."""
    path = subject.sources.config_file
    with contextlib.suppress(ConfigError):  # `configuration` reports what is wrong with it
        if unknown := unknown_keys(path):
            fix = f"correct them in {path}; `cc-trace config` lists all settings"
            yield failed("config.toml", f"{path} has unknown settings: {listed(map(repr, unknown))}", fix)


def keys(subject: Subject) -> Iterator[Check]:
    """Check that other users cannot read files with keys."""
    toml = subject.sources.config_file
    paths = [toml] if any(table.get(setting.name) for table in _toml_tables(toml) for setting in _SECRETS) else []
    for file in subject.files:
        variables = _variables(file)
        if any(variables.get(name) for setting in _SECRETS for name in setting.variables):
            paths.append(file.path)
    exposed = [path for path in paths if os.name == "posix" and path.stat().st_mode & 0o077]
    for path in exposed:
        finding = f"{path} contains a key that other users can read (mode {stat.S_IMODE(path.stat().st_mode):04o})"
        fix = f"chmod 600 {shlex.quote(str(path))}"
        yield warning("keys", finding, fix if path == toml else f"{fix}, or keep the keys with `cc-trace config set`")
    if paths and not exposed:
        yield ok("keys", f"in {listed(paths)}, which only you can read")


def _toml_tables(path: Path) -> list[dict[str, Any]]:
    """Return config.toml and its tables for projects, whichever project is at hand; none if it cannot be read."""
    try:
        toml = read_toml(path)
    except ConfigError:
        return []
    return [toml, *(table for _, table in project_tables(toml))]


def _variables(file: SettingsFile) -> Mapping[str, object]:
    """Return our variables in a settings file, and the options of the plugin."""
    try:
        return env_layer(file.path).values
    except ConfigError:
        return file.mapping("env")


def secret_values(subject: Subject) -> frozenset[str]:
    """Return every value of a secret setting, wherever it is set: none of them may be printed."""
    tables = _toml_tables(subject.sources.config_file)
    layers = [subject.environment, *map(_variables, subject.files)]
    values = [(setting, table.get(setting.name)) for table in tables for setting in _SECRETS]
    values += [(setting, layer.get(name)) for layer in layers for setting in _SECRETS for name in setting.variables]
    secrets: set[str] = set()
    for setting, value in values:
        texts = [str(text) for text in (value.values() if isinstance(value, dict) else [value]) if text]
        if setting.kind == "pairs":
            texts += [part.partition("=")[2].strip() for text in texts for part in text.split(",")]
        secrets.update(word for text in texts for word in (text, *text.split()))
    return frozenset(text for text in secrets if len(text) >= _MIN_CHARS)
