"""Looks up values in layers of settings. Pure.

Rules:
- The first layer with a value decides. A layer is one source: the environment, a settings file, config.toml.
- A project's own files are restrictions, not layers: a value counts only if it is stricter than the value found.
- A wrong value is an error that names the source and the allowed values. It is never replaced by a default.

An example: config.toml says "full", the shell "no-tool-content", and a repository asks for "metadata". The shell is the
stronger layer, and the repository may restrict it further:

>>> config_toml = Layer("config.toml", {"content": "full"}, variables=False)
>>> shell = Layer("environment", {"CC_TRACE_CONTENT": "no-tool-content"})
>>> repository = Layer(".claude/settings.json", {"CC_TRACE_CONTENT": "metadata"}, project=True)
>>> Settings([shell, config_toml]).text("content")
'no-tool-content'
>>> Settings([shell, config_toml], restrictions=[repository]).text("content")
'metadata'

It cannot loosen what the user has chosen:

>>> repository = Layer(".claude/settings.json", {"CC_TRACE_CONTENT": "full"}, project=True)
>>> Settings([shell, config_toml], restrictions=[repository]).text("content")
'no-tool-content'
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cc_trace.errors import ConfigError
from cc_trace.privacy import Redactor, quoted
from cc_trace.settings.catalogue import BY_NAME, Kind, Setting
from cc_trace.values import readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_TOO_LARGE: Final = 1e9  # limit for every number, such as seconds or characters
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


class Absent:
    """Marks a value that is set but not available: a secret in the environment of an earlier hook."""


ABSENT: Final = Absent()
ENVIRONMENT: Final = "environment"
HOOK_ENVIRONMENT: Final = "environment of its hook"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One source of settings. Variables have their own names, entries of config.toml the names of settings."""

    origin: str
    values: Mapping[str, object] = field(repr=False)  # may contain keys
    variables: bool = True
    project: bool = False  # a project's settings, which others may have written
    argument: bool = False  # a command line argument, which messages name by `origin`

    def value(self, setting: Setting, variables: Sequence[str] | None = None) -> SettingValue | None:
        """Return the value in this source; an empty one counts as unset. `variables`: only look at these."""
        for key in (variables or setting.variables) if self.variables else (setting.name,):
            value = self.values.get(key)
            if value is ABSENT:
                return SettingValue("", self, key, absent=True)
            if value is not None and (text := as_text(value, setting.kind)) != "":
                return SettingValue(text, self, key, value if isinstance(value, dict) else None)
        return None

    def has(self, setting: Setting) -> bool:
        """Return whether this source has a setting, even with an empty value."""
        return any(key in self.values for key in (setting.variables if self.variables else (setting.name,)))


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A value, and where it was found."""

    text: str = field(repr=False)
    layer: Layer
    key: str  # a variable, or a key of the file
    table: Mapping[str, object] | None = field(default=None, repr=False)  # of TOML or JSON, where it is one
    absent: bool = False  # it is set but not available: see `Absent`

    @property
    def origin(self) -> str:
        """Return the name of its source."""
        return self.layer.origin

    @property
    def place(self) -> str:
        """Return the name of the value for messages, with its source."""
        if self.layer.argument or self.origin.startswith("--"):
            return self.origin
        if self.origin == ENVIRONMENT:
            return self.key
        return f"{self.key} in {'the ' if self.origin.startswith(HOOK_ENVIRONMENT) else ''}{self.origin}"


def waits_for(absent: SettingValue, needed: str) -> str:
    """Return what is not available, and the command that delivers once it is. `needed`: what must be set for it."""
    return (
        f"waits for {absent.key}, which was in the {HOOK_ENVIRONMENT} and is not stored: run `cc-trace sync` in a"
        f" shell that has {needed} set"
    )


class Settings:
    """Looks up settings, the strongest layer first. `restrictions` can only make values stricter."""

    def __init__(self, layers: Sequence[Layer], restrictions: Sequence[Layer] = ()) -> None:
        self._layers = layers
        self.restrictions = restrictions

    def value(self, name: str) -> SettingValue | None:
        """Return a setting's value and where it is set; None if it is not set. An empty value counts as unset."""
        setting = BY_NAME[name]
        low = (setting.variable, *setting.aliases) if setting.low_priority else ()
        high = tuple(key for key in setting.variables if key not in low)
        value = self._first(setting, high) or (self._first(setting, low) if low else None)
        for layer in self.restrictions if setting.in_project == "restriction" else ():
            restriction = layer.value(setting)
            text = setting.default if value is None else value.text
            if restriction is not None and _strictness(setting, restriction.text) > _strictness(setting, text):
                value = restriction
        return value

    def _first(self, setting: Setting, variables: tuple[str, ...]) -> SettingValue | None:
        return next((value for layer in self._layers if (value := layer.value(setting, variables)) is not None), None)

    def text(self, name: str) -> str | None:
        """Return a setting's value, or its default."""
        setting, value = BY_NAME[name], self.value(name)
        if value is None:
            return setting.default
        if value.absent:
            raise ConfigError(waits_for(value, "it"))
        if setting.allowed and value.text not in setting.allowed:
            message = f"{value.place} is {quoted(value.text)}; it must be one of {', '.join(setting.allowed)}"
            raise ConfigError(message)
        return value.text

    def flag(self, name: str) -> bool | None:
        """Return a setting as a bool; None if it is not set and has no default."""
        value = self.text(name)
        if value is None:
            return None
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        message = f"{self.place(name)} is {quoted(value)}; it must be true or false"
        raise ConfigError(message)

    def number(self, name: str) -> float:
        """Return a number that is not negative."""
        value = self.text(name) or "0"
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number < _TOO_LARGE:
            message = f"{self.place(name)} is {quoted(value)}; it must be a number, 0 or more"
            raise ConfigError(message)
        return number

    def whole_number(self, name: str) -> int:
        """Return a whole number that is not negative."""
        number = self.number(name)
        if not number.is_integer():
            message = f"{self.place(name)} is {number:g}; it must be a whole number"
            raise ConfigError(message)
        return int(number)

    def names(self, name: str) -> list[str]:
        """Return a list, separated by commas or line breaks."""
        separator = "\n" if BY_NAME[name].kind == "lines" else ","
        return [part.strip() for part in (self.text(name) or "").split(separator) if part.strip()]

    def pairs(self, name: str) -> dict[str, str]:
        """Return `key=value, key=value` as a dict. Errors do not quote the value, which may be a secret."""
        if (entry := self.value(name)) is not None and entry.table is not None:
            return {key: str(value) for key, value in entry.table.items()}
        pairs = {}
        for part in self.names(name):
            key, equals, value = part.partition("=")
            if not equals or not key.strip():
                message = (
                    f"{self.place(name)} must be key=value pairs separated by commas, such as authorization=Bearer KEY"
                )
                raise ConfigError(message)
            pairs[key.strip()] = value.strip()
        return pairs

    def restricting(self, name: str) -> list[str]:
        """Return the items that restrictions add to a list."""
        return list(dict.fromkeys(item for layer in self.restrictions for item in Settings([layer]).names(name)))

    def place(self, name: str) -> str:
        """Return the name of a setting for messages: where its value is set, else its variable."""
        value = self.value(name)
        return value.place if value is not None else BY_NAME[name].variable


def _strictness(setting: Setting, text: str | None) -> int:
    """Return how strict a value is: the less may leave, the higher. A wrong value is strictest, so it gets reported.

    Lists are not compared: a project's items are added to them.
    """
    if setting.kind == "flag":
        return 0 if text is None or text.lower() in _TRUE else 1 if text.lower() in _FALSE else 2
    if setting.allowed:  # ordered from least to most strict
        return setting.allowed.index(text) if text in setting.allowed else 0 if text is None else len(setting.allowed)
    return 0


def toml_value(setting: Setting, settings: Settings) -> object:
    """Convert a value to what TOML stores for this setting. Raises ConfigError for a wrong one."""
    name, text = setting.name, settings.text(setting.name)
    match setting.kind:
        case "flag":
            return settings.flag(name)
        case "number":
            number = settings.number(name)
            return int(number) if number.is_integer() else number
        case "names":
            return settings.names(name)
        case "lines":
            Redactor(settings.names(name))  # raises if one is not a regular expression
            return settings.names(name)
        case "pairs":
            settings.pairs(name)
        case "url":
            _check_url(settings.place(name), text or "")
    return text


def _check_url(place: str, text: str) -> None:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or address
        valid = False
    if not valid:
        message = f"{place} must be a URL with http:// or https://, such as https://example.com"
        raise ConfigError(message)


def as_text(value: object, kind: Kind = "text") -> str:
    """Convert a value of TOML or JSON to the text of a variable, as Claude Code does with JSON.

    What is not UTF-8 in a variable is replaced: it could be neither stored nor sent.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer():
            return str(int(value))
        case list():
            return ("\n" if kind == "lines" else ",").join(str(item) for item in value)
        case dict():
            return ",".join(f"{key}={item}" for key, item in value.items())
        case _:
            return readable(str(value))
