"""All settings: their names, what each may be, and how one is looked up in the places it can come from. Pure.

Rule: a wrong value is named, with where it stands and what is allowed; it is never silently replaced by a default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urlsplit

from cc_trace.destinations import LANGFUSE_CLOUD
from cc_trace.errors import ConfigError
from cc_trace.redact import Redactor
from cc_trace.redact.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind: TypeAlias = Literal["text", "flag", "number", "names", "lines", "pairs", "url"]
ProjectUse: TypeAlias = Literal["ignored", "restriction", "value"]

_TOO_LARGE: Final = 1e9  # seconds, or characters
_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")
OPTION: Final = "CLAUDE_PLUGIN_OPTION_"  # how the options of a plugin reach its hooks


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `name` is its key in config.toml; the first of `variables` that is set in a layer counts there."""

    name: str
    about: str
    kind: Kind = "text"
    default: str | None = None
    allowed: tuple[str, ...] = ()
    others: tuple[str, ...] = ()  # variables of other tools that mean the same; after our own
    before: tuple[str, ...] = ()  # such variables that are taken before the others
    own: str | None = None  # our variable, where it is not CC_TRACE_NAME
    secret: bool = False
    weak: bool = False  # our variable and others' may be meant for another program: all other places go before them
    early: bool = False  # the hook itself reads it, before anything is configured: only a variable can set it
    # What a project may do with it. `value`: set it, through the environment that Claude Code gives to its own hook;
    # `restriction`: only let less leave than the user does, in its files too; `ignored`: nothing.
    in_project: ProjectUse = "ignored"

    @property
    def variable(self) -> str:
        """Return the variable that is named in messages."""
        return self.own or f"CC_TRACE_{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Return all variables that set it, the strongest first."""
        return (*self.before, self.variable, *self.others, f"{OPTION}{self.name.upper()}")


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "enabled",
        "false: nothing is traced; sessions written to meanwhile stay left out",
        "flag",
        "true",
        in_project="restriction",
    ),
    Setting(
        "exclude",
        "folders whose sessions are left out, subfolders included; `*` and `~` are expanded",
        "names",
        in_project="restriction",
    ),
    Setting(
        "destinations",
        "local, otlp, langfuse, file, otel:NAME; default: those that are configured",
        "names",
        in_project="value",
    ),
    Setting("otlp_endpoint", "an OTLP endpoint, such as http://localhost:4318", "url", in_project="value"),
    Setting(
        "otlp_protocol",
        "http/protobuf, http/json, or grpc, which needs the extra `grpc`",
        default="http/protobuf",
        allowed=("http/protobuf", "http/json", "grpc"),
        in_project="value",
    ),
    Setting(
        "otlp_headers",
        "headers of every request",
        "pairs",
        secret=True,
        in_project="value",
    ),
    Setting(
        "otlp_profile",
        "which attributes: otel, openinference for Phoenix and Arize, mlflow, langfuse",
        default="otel",
        allowed=("otel", "openinference", "mlflow", "langfuse"),
        in_project="value",
    ),
    Setting("otlp_ca_file", "CA certificates to trust"),
    Setting("otlp_cert_file", "client certificate"),
    Setting("otlp_key_file", "private key of the client certificate"),
    Setting(
        "langfuse_public_key",
        "Langfuse's public key",
        before=("CC_LANGFUSE_PUBLIC_KEY",),
        own="LANGFUSE_PUBLIC_KEY",
        secret=True,
        weak=True,
        in_project="value",
    ),
    Setting(
        "langfuse_secret_key",
        "Langfuse's secret key",
        before=("CC_LANGFUSE_SECRET_KEY",),
        own="LANGFUSE_SECRET_KEY",
        secret=True,
        weak=True,
        in_project="value",
    ),
    Setting(
        "langfuse_base_url",
        "the address of Langfuse",
        "url",
        default=LANGFUSE_CLOUD,
        before=("CC_LANGFUSE_BASE_URL", "CC_LANGFUSE_HOST"),
        own="LANGFUSE_BASE_URL",
        others=("LANGFUSE_HOST",),
        weak=True,
        in_project="value",
    ),
    Setting(
        "trace_to_langfuse",
        "true: Langfuse is a destination; false: it is not. LANGFUSE_* alone do not: they may be another program's",
        "flag",
        own="TRACE_TO_LANGFUSE",
        in_project="value",
    ),
    Setting("file", "a file of OTLP JSON Lines, one request per line"),
    Setting("timeout_seconds", "time limit of one request", "number", "10"),
    Setting(
        "content",
        "what leaves: full; no-tool-content: nothing that went into or came out of tools and agents; metadata: no text",
        default="full",
        allowed=("full", "no-tool-content", "metadata"),
        in_project="restriction",
    ),
    Setting(
        "mask",
        "your own secrets: regular expressions, one per line; of a match, only a group named `secret` if there is one",
        "lines",
        in_project="restriction",
    ),
    Setting(
        "max_chars",
        "longer texts are cut, with a marker; 0: never",
        "number",
        "100000",
        others=("CC_LANGFUSE_MAX_CHARS",),
        in_project="value",
    ),
    Setting("user_id", "the user, on every span", others=("LANGFUSE_USER_ID",), in_project="value"),
    Setting("tags", "tags of every trace", "names", in_project="value"),
    Setting("environment", "deployment environment", others=("LANGFUSE_TRACING_ENVIRONMENT",), in_project="value"),
    Setting("release", "release", others=("LANGFUSE_RELEASE",), in_project="value"),
    Setting("resource_attributes", "more resource attributes, such as team=blue", "pairs", in_project="value"),
    Setting(
        "seed",
        "the trace id of turn N is the beginning of SHA-256 of `SEED:N`; use one seed per session",
        others=("CC_LANGFUSE_TRACE_SEED",),
        in_project="value",
    ),
    Setting(
        "traceparent",
        "an existing span that becomes the parent of the turns",
        others=("CC_LANGFUSE_TRACEPARENT",),
        in_project="value",
    ),
    Setting(
        "rest_seconds",
        "a session that no hook has reported is over after this long without a change",
        "number",
        "300",
        in_project="value",
    ),
    Setting(
        "unclear_seconds",
        "how long Langfuse may still store the spans of a request without a response; they are not sent again before",
        "number",
        "60",
    ),
    Setting(
        "workers",
        "how many background workers run at once on this machine; further hooks leave their work to them",
        "number",
        "3",
    ),
    Setting("debug", "log every step", "flag", "false", others=("CC_LANGFUSE_DEBUG",), in_project="value"),
    Setting("home", "the state folder", default="state/cc-trace below Claude Code's folder", early=True),
    Setting("wait", "1: the hook waits for the worker; 0: never, also in CI", "flag", early=True),
    Setting("wait_seconds", "how long the hook waits", "number", "10", early=True),
    Setting("python", "the Python that the hook starts", early=True),
)
BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


class Absent:
    """In place of a value that was there and is not at hand: a secret of a hook's environment."""


ABSENT: Final = Absent()
HOOK_ENVIRONMENT: Final = "environment of its hook"


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """One source of settings. Variables go by their names, the entries of config.toml by the settings'."""

    origin: str
    values: Mapping[str, object] = field(repr=False)  # which may hold keys
    variables: bool = True
    project: bool = False  # a project says so: others may have written it

    def found(self, setting: Setting, variables: Sequence[str] | None = None) -> Found | None:
        """Return what this source alone says; an empty value says nothing. `variables`: only these."""
        for key in (variables or setting.variables) if self.variables else (setting.name,):
            value = self.values.get(key)
            if value is ABSENT:
                return Found("", self, key, absent=True)
            if value is not None and (text := as_text(value, setting.kind)) != "":
                return Found(text, self, key, value if isinstance(value, dict) else None)
        return None

    def names(self, setting: Setting) -> bool:
        """Tell whether this source names a setting, be it with an empty value."""
        return any(key in self.values for key in (setting.variables if self.variables else (setting.name,)))


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it stands."""

    text: str = field(repr=False)
    layer: Layer
    key: str  # a variable, or a key of the file
    table: Mapping[str, object] | None = field(default=None, repr=False)  # of TOML or JSON, where it is one
    absent: bool = False  # it was there and is not at hand

    @property
    def origin(self) -> str:
        """Return the name of its source."""
        return self.layer.origin

    @property
    def place(self) -> str:
        """Return how a message names it."""
        if self.origin.startswith("--"):
            return self.origin
        return self.key if self.key.isupper() else f"{self.key} in {self.origin}"


def waits_for(absent: Found, needed: str) -> str:
    """Say what is not at hand, and the command that delivers once it is. `needed`: what that must have set."""
    return (
        f"waits for {absent.key}, which came with the {HOOK_ENVIRONMENT} and is not stored: run `cc-trace sync` in a"
        f" shell that has {needed} set"
    )


class Settings:
    """Looks settings up, the strongest layer first. `restrictions` can only let less leave than the layers do."""

    def __init__(self, layers: Sequence[Layer], restrictions: Sequence[Layer] = ()) -> None:
        self._layers = layers
        self.restrictions = restrictions

    def found(self, name: str) -> Found | None:
        """Return a setting's value and place; None where none sets it. An empty value sets nothing."""
        setting = BY_NAME[name]
        weak = (setting.variable, *setting.others) if setting.weak else ()
        strong = tuple(key for key in setting.variables if key not in weak)
        found = self._first(setting, strong) or (self._first(setting, weak) if weak else None)
        for layer in self.restrictions if setting.in_project == "restriction" else ():
            said = layer.found(setting)
            given = None if found is None else found.text
            if said is not None and _strictness(setting, said.text) > _strictness(setting, given):
                found = said
        return found

    def _first(self, setting: Setting, variables: tuple[str, ...]) -> Found | None:
        return next((found for layer in self._layers if (found := layer.found(setting, variables)) is not None), None)

    def text(self, name: str) -> str | None:
        """Return a setting's value, or its default."""
        setting, found = BY_NAME[name], self.found(name)
        if found is None:
            return setting.default
        if found.absent:
            raise ConfigError(waits_for(found, "it"))
        if setting.allowed and found.text not in setting.allowed:
            message = f"{found.place} is {quoted(found.text)}; allowed are {', '.join(setting.allowed)}"
            raise ConfigError(message)
        return found.text

    def flag(self, name: str) -> bool | None:
        """Return whether something is wanted; None where nobody says."""
        value = self.text(name)
        if value is None:
            return None
        if value.lower() in _TRUE:
            return True
        if value.lower() in _FALSE:
            return False
        message = f"{self._place(name)} is {quoted(value)}; allowed are true and false"
        raise ConfigError(message)

    def number(self, name: str) -> float:
        """Return a number that is not negative."""
        value = self.text(name) or "0"
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        if not 0 <= number < _TOO_LARGE:
            message = f"{self._place(name)} is {quoted(value)}; it must be a number of at least 0"
            raise ConfigError(message)
        return number

    def names(self, name: str) -> list[str]:
        """Return a list: comma separated, or a line each."""
        separator = "\n" if BY_NAME[name].kind == "lines" else ","
        return [part.strip() for part in (self.text(name) or "").split(separator) if part.strip()]

    def pairs(self, name: str) -> dict[str, str]:
        """Return `key=value, key=value` as a dict. What is wrong is not quoted: it may be a secret."""
        if (found := self.found(name)) is not None and found.table is not None:
            return {key: str(value) for key, value in found.table.items()}
        pairs = {}
        for part in self.names(name):
            key, equals, value = part.partition("=")
            if not equals or not key.strip():
                message = f"{self._place(name)} has a part that is not key=value, such as authorization=Bearer KEY"
                raise ConfigError(message)
            pairs[key.strip()] = value.strip()
        return pairs

    def restricting(self, name: str) -> list[str]:
        """Return the items that restrictions add to a list."""
        return list(dict.fromkeys(item for layer in self.restrictions for item in Settings([layer]).names(name)))

    def _place(self, name: str) -> str:
        found = self.found(name)
        return found.place if found is not None else BY_NAME[name].variable


def _strictness(setting: Setting, text: str | None) -> int:
    """Return how much a value lets leave, more being less; a wrong one is the strictest, so that it is complained of.

    Lists are not compared: what a project adds to one is added.
    """
    if setting.kind == "flag":
        return 0 if text is None or text.lower() in _TRUE else 1 if text.lower() in _FALSE else 2
    if setting.allowed:  # the more a value protects, the later it stands
        return setting.allowed.index(text) if text in setting.allowed else 0 if text is None else len(setting.allowed)
    return 0


def checked(setting: Setting, given: Settings) -> object:
    """Return a setting's value as TOML has it. One that cannot be is a ConfigError."""
    name, text = setting.name, given.text(setting.name)
    match setting.kind:
        case "flag":
            return given.flag(name)
        case "number":
            number = given.number(name)
            return int(number) if number.is_integer() else number
        case "names":
            return given.names(name)
        case "lines":
            Redactor(given.names(name))  # raises where one is no regular expression
            return given.names(name)
        case "pairs":
            given.pairs(name)
        case "url":
            _check_url(setting, text or "")
    return text


def _check_url(setting: Setting, text: str) -> None:
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # no port, or no address
        fine = False
    if not fine:
        message = f"{setting.variable} must be a URL such as http://localhost:4318, with http:// or https://"
        raise ConfigError(message)


def as_text(value: object, kind: Kind = "text") -> str:
    """Return a value of TOML or JSON as a variable would say it; Claude Code does the same with JSON's."""
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
            return str(value)
