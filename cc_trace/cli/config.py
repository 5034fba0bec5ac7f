"""`cc-trace config`: the effective settings and where each comes from; `set` and `unset` change config.toml."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import orjson

from cc_trace.delivery import App
from cc_trace.errors import ConfigError
from cc_trace.export import split_name
from cc_trace.files import read_regular, write_private
from cc_trace.paths import current_folder, home
from cc_trace.privacy import Redactor
from cc_trace.settings import (
    SETTINGS,
    Layer,
    Settings,
    Sources,
    check_key,
    project_tables,
    read_config,
    read_toml,
    toml_value,
    unknown_keys,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from cc_trace.settings import Setting, SettingValue

_TAIL = 4  # of a key, shown so that one can tell which it is
_LONG = 16
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


def run(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Show or change the settings, as they are for a session started here."""
    match options.action:
        case "set":
            sources = Sources(environment, home(environment), from_hook=False)
            return _set(_find_setting(options.name), options.value, sources, _folder(options.project, sources))
        case "unset":
            sources = Sources(environment, home(environment), from_hook=False)
            return _unset(_find_setting(options.name), sources, _folder(options.project, sources))
        case "get":
            return _get(_find_setting(options.name, readable=True), environment, options.project)
        case _:
            return _show(environment, options.project, as_json=options.json)


def _folder(project: str | None, sources: Sources) -> str | None:
    """Return the key of a folder's table in config.toml: as written there already, else the full path."""
    if project is None:
        return None
    path = os.path.normpath(current_folder() / Path(project).expanduser())
    keys = (text for text, _ in project_tables(read_toml(sources.config_file)))
    return next((text for text in keys if str(sources.folder(text)) == path), path)


def _show(environment: Mapping[str, str], project: str | None, *, as_json: bool) -> int:
    app = App.open(environment)
    project = os.path.normpath(current_folder() / Path(project or ".").expanduser())
    settings = app.settings(project)
    rows = [_row(setting, settings, environment) for setting in SETTINGS]
    file = app.sources.config_file
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(rows, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    else:
        for row in rows:
            value = "-" if row["value"] is None else row["value"]
            print(f"{row['name']:<20}  {value:<32}  {row['origin']}")
        print(f"\nconfig.toml: {file}{'' if file.exists() else ' (does not exist)'}")
        print(f"state folder: {app.states.folder}")
    _refuse_unknown_keys(file)
    config = app.config(project)  # errors come after the settings are shown
    if not as_json:
        off, names = app.why_off(project), ", ".join(settings.name for settings in config.destinations)
        print(f"traces of {project} go to {names}" if off is None else f"sessions of {project} are not traced: {off}")
    return 0


def _get(setting: Setting, environment: Mapping[str, str], project: str | None) -> int:
    """Print one value, as `cc-trace config` shows it; exit 1 if there is none."""
    settings = App.open(environment).settings(os.path.normpath(current_folder() / Path(project or ".").expanduser()))
    row = _row(setting, settings, environment)
    if row["value"] is None:
        print(f"cc-trace: {row['name']} is not set", file=sys.stderr)
        return 1
    print(row["value"])
    return 0


def _row(setting: Setting, settings: Settings, environment: Mapping[str, str]) -> dict[str, Any]:
    setting_value = settings.value(setting.name)
    if setting.hook_only:  # read by the hook from its environment alone
        variable_value = environment.get(setting.variable)
        value, origin = (
            (variable_value, f"environment: {setting.variable}") if variable_value else (setting.default, "default")
        )
    elif setting_value is None:
        value, origin = setting.default, "default"
    else:
        value, origin = display_value(setting, setting_value), _origin(setting_value)
    return {"name": setting.name, "value": value, "origin": origin if value is not None else "not set"}


def _origin(value: SettingValue) -> str:
    return value.origin if not value.key.isupper() else f"{value.origin}: {value.key}"


def display_value(setting: Setting, value: SettingValue) -> str:
    """Return a value for display: at most the end of a secret."""
    if setting.kind == "lines":  # what is to be masked may be told by the expression that finds it
        count = len(value.text.splitlines())
        return f"{count} expression{'' if count == 1 else 's'}"
    if setting.kind == "url":
        return _address(value.text)
    if not setting.secret:
        return " ".join(Redactor().text(value.text).split("\n"))
    if setting.kind == "pairs":
        return ", ".join(map(_header, value.table or value.text.split(",")))
    return f"****{value.text[-_TAIL:]}" if len(value.text) >= _LONG else "****"


def _header(part: str) -> str:
    """Return the name of a header if it has one: `name: key`, a common mistake, has no `=` before the key."""
    name = part.partition("=")[0].strip()
    return f"{name}=****" if _HEADER_NAME.fullmatch(name) else "****"


def _address(text: str) -> str:
    """Return an address without the keys it may have in its user info or query."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return "****"
    user, at, host = parts.netloc.rpartition("@")
    query = "&".join(f"{part.partition('=')[0]}=****" for part in parts.query.split("&") if part)
    address = parts._replace(netloc=f"{'****' if user else ''}{at}{host}", query=query, fragment="")
    return Redactor().text(urlunsplit(address))


def _refuse_unknown_keys(file: Path) -> None:
    """Report the first key of config.toml that is not a setting: most are mistyped."""
    for key in unknown_keys(file):
        message = f"{file} has {key!r}, which is not a setting; {_hint(key)}"
        raise ConfigError(message)


def _find_setting(name: str, *, readable: bool = False) -> Setting:
    """Return a setting by its name or one of its variables."""
    for setting in SETTINGS:
        if name.lower() == setting.name or name in setting.variables:
            if setting.hook_only and not readable:
                message = f"{setting.variable} can only be set in the environment, not in config.toml"
                raise ConfigError(message)
            return setting
    message = f"unknown setting {name!r}; {_hint(name)}"
    raise ConfigError(message)


def _hint(name: str) -> str:
    """Return which setting may be meant by a name that is none."""
    matches = difflib.get_close_matches(name.lower(), [setting.name for setting in SETTINGS], 1)
    return f"did you mean {matches[0]}?" if matches else "`cc-trace config` lists all settings"


def _set(setting: Setting, value: str | None, sources: Sources, project: str | None) -> int:
    try:
        text = _read_value(setting) if value is None else value
        text.encode()
    except EOFError:
        text = ""
    except UnicodeError:
        message = f"the value for {setting.name} is not valid UTF-8"
        raise ConfigError(message) from None
    parsed = _parse_value(setting, text, sources)
    import tomlkit  # noqa: PLC0415  (50 ms, and only `set` and `unset` write)

    file = sources.config_file.resolve()
    read_toml(file)  # a file that is wrong is refused, with its position, and stays as it is
    document = tomlkit.parse(read_regular(file).decode() if file.exists() else "")
    table: MutableMapping[str, object] = document
    if project is not None:
        projects = document.setdefault("project", tomlkit.table(is_super_table=True))
        if not isinstance(projects, MutableMapping):
            message = f"`project` in {file} must be a table; fix or remove it, then run this command again"
            raise ConfigError(message)
        projects.setdefault(project, tomlkit.table())
        table = projects[project]
    table[setting.name] = parsed
    write_private(file, tomlkit.dumps(document).encode())
    print(f"{setting.name} is set in {sources.config_file}{'' if project is None else f' for {project}'}")
    layers = [Layer("environment", sources.environment), Layer(str(file), {setting.name: parsed}, variables=False)]
    if (effective := Settings(layers).value(setting.name)) is not None and effective.key != setting.name:
        print(f"but {effective.key} is set in this environment and takes precedence")
    return 0


def _parse_value(setting: Setting, text: str, sources: Sources) -> object:
    """Return a value as it is written to config.toml. Raises ConfigError for one that the setting cannot have."""
    settings = Settings([Layer(setting.name, {setting.variable: text}, argument=True)])
    if not (settings.names(setting.name) if setting.kind in ("names", "lines", "pairs") else text.strip()):
        message = f"no value was given for {setting.name}; `cc-trace config unset {setting.name}` removes it"
        raise ConfigError(message)
    value = toml_value(setting, settings)
    check_key(setting.name, text.strip())
    if setting.name == "destinations":
        for name in settings.names(setting.name):
            split_name(name, setting.name)
    elif setting.name != "trace_to_langfuse":  # both need others, which may be set later
        read_config(settings, Path("/"), sources.home)
    return value


def _unset(setting: Setting, sources: Sources, project: str | None) -> int:
    import tomlkit  # noqa: PLC0415  (as above)

    file = sources.config_file.resolve()
    location = f"{sources.config_file}{'' if project is None else f' for {project}'}"
    toml = read_toml(file)
    if setting.name not in (toml if project is None else dict(project_tables(toml)).get(project, {})):
        print(f"{setting.name} is not set in {location}")
        return 0
    document: Any = tomlkit.parse(read_regular(file).decode())
    table = document if project is None else document["project"][project]
    del table[setting.name]
    if project is not None and not table:
        del document["project"][project]
    write_private(file, tomlkit.dumps(document).encode())
    print(f"{setting.name} is no longer set in {location}")
    return 0


def _read_value(setting: Setting) -> str:
    """Read a value from stdin, so that it is in no shell history and no list of processes."""
    if sys.stdin is None:  # closed by whoever started us
        return ""
    if sys.stdin.isatty():
        import getpass  # noqa: PLC0415  (only here)

        return getpass.getpass(f"{setting.name}: ") if setting.secret else input(f"{setting.name}: ")
    return sys.stdin.read().strip()
