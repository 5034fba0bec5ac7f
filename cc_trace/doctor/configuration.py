"""Whether the settings are right, and keys where only their owner can read them."""

from __future__ import annotations

import os
import shlex
import stat
from typing import TYPE_CHECKING, Any, Final

from cc_trace.doctor.check import failed, listed, ok, warning
from cc_trace.doctor.registration import enabled_plugins, settings_files
from cc_trace.errors import ConfigError
from cc_trace.privacy import Privacy
from cc_trace.settings import SETTINGS, env_layer, project_tables, read_toml, unknown_keys, why_off

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cc_trace.doctor.check import Check, Subject
    from cc_trace.doctor.registration import SettingsFile

_SECRETS: Final = [setting for setting in SETTINGS if setting.secret]
_SECRET_VARIABLES: Final = frozenset(variable for setting in _SECRETS for variable in setting.variables)
_SHORTEST: Final = 6  # shorter values would be found in any text


def configuration(subject: Subject) -> Iterator[Check]:
    """Check that the settings are valid, and say whether this project is traced."""
    try:
        config = subject.config()
        Privacy(config.privacy)  # whose own patterns may be wrong
    except ConfigError as error:
        fix = "correct the setting; `cc-trace config` shows every setting and where it is set"
        if enabled_plugins(settings_files(subject)):
            # Claude Code keeps those where it keeps its own, and we do not look.
            fix += ". Keys in the plugin's options reach only hooks; `cc-trace config set` works everywhere"
        yield failed("configuration", str(error), fix)
        return
    if (off := why_off(config, str(subject.project))) is not None:
        fix = "nothing, if this is intended; otherwise `cc-trace config` shows where it is set"
        yield warning("configuration", f"sessions of {subject.project} are not traced: {off}", fix)
        return
    names = ", ".join(destination.name for destination in config.destinations)
    if subject.settings().text("metrics") == "on" and not any(each.metrics for each in config.destinations):
        fix = "run `cc-trace config set otlp_endpoint URL`, or `cc-trace config unset metrics`"
        yield warning("configuration", f"metrics is on, but only destination otlp takes metrics, not {names}", fix)
        return
    yield ok("configuration", f"traces of {subject.project} go to {names}")


def config_file(subject: Subject) -> Iterator[Check]:
    """Check for unknown keys in config.toml, which are mostly typos."""
    path = subject.sources.config_file
    try:
        unknown = unknown_keys(path)
    except ConfigError:
        unknown = []  # `configuration` reports what is wrong with it
    if unknown:
        fix = f"fix them in {path}; `cc-trace config` lists all settings"
        yield failed("config.toml", f"{path} has unknown settings: {listed(map(repr, unknown))}", fix)
    else:
        yield ok("config.toml", str(path) if path.exists() else "none")


def keys(subject: Subject) -> Iterator[Check]:
    """Check that other users cannot read files with keys."""
    toml = subject.sources.config_file
    in_toml = any(table.get(setting.name) for table in _toml_tables(toml) for setting in _SECRETS)
    holding: list[Path] = [toml] if in_toml else []
    holding += [file.path for file in settings_files(subject) if _has_key(file)]
    opened = [path for path in holding if _others_can_read(path)]
    for path in opened:
        mode = f"{stat.S_IMODE(path.stat().st_mode):04o}"
        fix = f"chmod 600 {shlex.quote(str(path))}"
        if path != toml:
            fix += ", or keep the keys with `cc-trace config set`"
        yield warning("keys", f"{path} contains a key that other users can read (mode {mode})", fix)
    if not opened:
        yield ok("keys", f"in {listed(holding)}, which only you can read" if holding else "none in any file")


def _has_key(file: SettingsFile) -> bool:
    return any(name in _SECRET_VARIABLES and value for name, value in _variables(file).items())


def _variables(file: SettingsFile) -> Mapping[str, object]:
    """Return the variables of ours that a file sets, by the options of the plugin too."""
    try:
        return env_layer(file.path).values
    except ConfigError:
        return file.mapping("env")


def _others_can_read(path: Path) -> bool:
    return os.name == "posix" and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def _toml_tables(path: Path) -> list[dict[str, Any]]:
    """Return config.toml and its tables for projects, whichever project is at hand; none if it cannot be read."""
    try:
        toml = read_toml(path)
    except ConfigError:
        return []
    return [toml, *(table for _, table in project_tables(toml))]


def secret_values(subject: Subject) -> frozenset[str]:
    """Return every value of a secret setting, wherever it stands: none of them may be printed."""
    tables = _toml_tables(subject.sources.config_file)
    given = [(setting, table.get(setting.name)) for table in tables for setting in _SECRETS]
    for variables in (subject.environment, *map(_variables, settings_files(subject))):
        given += [(setting, variables.get(name)) for setting in _SECRETS for name in setting.variables]
    found: set[str] = set()
    for setting, value in given:
        texts = [str(text) for text in (value.values() if isinstance(value, dict) else [value]) if text]
        if setting.kind == "pairs":
            texts += [part.partition("=")[2].strip() for text in texts for part in text.split(",")]
        found.update(word for text in texts for word in (text, *text.split()))
    return frozenset(text for text in found if len(text) >= _SHORTEST)


CHECKS: Final = (configuration, config_file, keys)
