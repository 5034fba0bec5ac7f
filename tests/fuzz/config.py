"""The configuration: whatever stands in the environment and in the files, it is a Config or a ConfigError.

A target's bytes are a JSON object: the environment, and the text of each file. A half of a surrogate pair in a text is
a byte that is no UTF-8, as it is in Python's own environment.
"""

from __future__ import annotations

import contextlib
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any, Final

import orjson

from cc_trace.cli.config import display_value
from cc_trace.errors import CcTraceError
from cc_trace.export.destination import open_destination
from cc_trace.privacy.content import Privacy
from cc_trace.settings.catalogue import SETTINGS
from cc_trace.settings.config import read_config
from cc_trace.settings.sources import Sources
from fuzz.mutations import VALUES, change, change_bytes, change_json, parsed, written
from fuzz.target import BrokenError, Target

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.export.destination import DestinationSettings

_FILES: Final = {
    "config.toml": "home/.config/cc-trace/config.toml",
    "user.json": "home/.claude/settings.json",
    "project.json": "project/.claude/settings.json",
    "local.json": "project/.claude/settings.local.json",
}
_FOLDERS: Final = ("HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR")  # ours in every run
_NAMES: Final = tuple(name for setting in SETTINGS for name in (setting.name, setting.variable))
_LITERALS: Final = (
    *(b"true", b"-0", b"1e400", b"nan", b"inf", b"7" * 5000, b"''", b"[[[]]]", b"[" * 2000, b"{a={b=1}}"),
    *(b"1979-05-27T07:32:00Z", b'"""\n"""', b"['a', 1, {}]", b'"\\u0000"', b"0x1f", b"{}", b"[1979-05-27]"),
)
_VALUES: Final[tuple[Any, ...]] = (
    *VALUES,
    *_NAMES,
    *("true", "false", "local", "otlp", "langfuse", "file", "otel:console", "otel:", "local,file", "grpc", "http/json"),
    *(
        "full",
        "metadata",
        "a=b",
        "=",
        "a=b,c",
        "http://127.0.0.1:4318",
        "http://[",
        "https://x y",
        "\udcff",
        "(",
        "nan",
    ),
    *(
        "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        "(?P<secret>a)",
        "(a+)+$",
        "[",
        "*",
        "~",
        "~/x",
        "-1",
        "1e5",
        "1e300",
        "\n(\n",
    ),
)


_TOML: Final = """\
enabled = true
destinations = ["otlp", "file"]
otlp_endpoint = "http://127.0.0.1:4318"
otlp_protocol = "http/json"
resource_attributes = { team = "a", n = 1 }
tags = ['x', 'y']
timeout_seconds = 2.5
max_chars = 100
mask = ["internal-[0-9]+"]
user_id = "me"
seed = "s"
"""


def _seeds() -> Iterator[bytes]:
    environment = {
        "CC_TRACE_DESTINATIONS": "local,otlp,langfuse,file",
        "CC_TRACE_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        "CC_TRACE_OTLP_HEADERS": "authorization=Bearer x",
        "CC_TRACE_TRACEPARENT": f"00-{'1' * 32}-{'2' * 16}-01",
        "CC_LANGFUSE_PUBLIC_KEY": "pk-lf-x",
        "CC_LANGFUSE_SECRET_KEY": "sk-lf-x",
        "CC_TRACE_MASK": "internal-[0-9]+",
        "CC_TRACE_EXCLUDE": "~/private/*",
    }
    env = {"env": {"CC_TRACE_TAGS": "a,b", "CC_TRACE_CONTENT": "metadata"}, "hooks": {}}
    settings = orjson.dumps(env).decode()
    for files in ({}, {"config.toml": _TOML}, {"config.toml": _TOML, "user.json": settings, "project.json": settings}):
        yield written({"environment": environment, "files": files})
        yield written({"environment": {}, "files": files})


def _mutate(rng: random.Random, data: bytes) -> bytes:
    """Change the whole, or one of the files in it."""
    places = parsed(data)
    texts = [(held, key) for held, key in places if key in _FILES and isinstance(held[key], str)]
    if not texts or rng.random() < 0.5:
        return change(rng, data, _VALUES)
    held, key = rng.choice(texts)
    text = held[key].encode("utf-8", "surrogatepass")
    changed = _changed_toml(rng, text) if key == "config.toml" else change_json(rng, text, _VALUES)
    held[key] = changed.decode("utf-8", "surrogateescape")
    return written(places[0][0])


def _changed_toml(rng: random.Random, text: bytes) -> bytes:
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    key, equals, value = lines[at].partition(b"=")
    match rng.randrange(4):
        case 0:
            lines[at] = key + b"=" + rng.choice(_LITERALS)
        case 1:
            lines[at] = rng.choice(_NAMES).encode() + equals + value
        case 2:
            lines.insert(at, rng.choice((b"[a]", b"[[a]]", b"a.b = 1", b"# \xff", key + equals + value)))
        case _:
            return change_bytes(rng, text)
    return b"\n".join(lines)


class _Checker:
    """A home and a project, whose files are what the bytes say."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths = {name: folder / place for name, place in _FILES.items()}
        for path in self._paths.values():
            path.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, data: bytes) -> None:
        environment, files = _given(data)
        for name, path in self._paths.items():
            if name in files:
                path.write_bytes(files[name].encode("utf-8", "surrogateescape"))
            else:
                path.unlink(missing_ok=True)
        project = self._folder / "project"
        for from_hook, place in ((False, None), (False, project), (True, project), (True, self._folder / "elsewhere")):
            own = environment | ({"CLAUDE_PROJECT_DIR": str(project)} if from_hook else {})
            self._check(Sources(own, self._folder / "home", from_hook, managed=()), place)

    def _check(self, sources: Sources, project: Path | None) -> None:
        try:
            settings = sources.settings(project, sources.hook_environment() if sources.from_hook else None)
            for setting in SETTINGS:
                if (found := settings.value(setting.name)) is not None:
                    display_value(setting, found)
            config = read_config(settings, self._folder / "state", sources.home)
            config.off(None if project is None else str(project))
            Privacy(config.privacy)
        except CcTraceError:
            return
        if not all(
            each < TIMEOUT_MAX for each in (config.rest_seconds, *(to.timeout_seconds for to in config.destinations))
        ):
            message = f"a time that no timer takes: {config}"
            raise BrokenError(message)
        if project is None:
            for destination in config.destinations:
                _open(destination)


def _open(settings: DestinationSettings) -> None:
    """Open a destination, which connects to nothing; not those that load much for it, unless it is of our choosing."""
    secure = (settings.endpoint or "").lower().startswith("https:") and settings.ca_file is None
    if settings.kind == "otel" or settings.protocol == "grpc" or secure:
        return
    with contextlib.suppress(CcTraceError):
        open_destination(settings).close()


def _given(data: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """The environment and the files in these bytes, as far as an operating system could have such."""
    places = parsed(data)
    whole = places[0][0] if places else {}
    environment = {
        key: value for key, value in _texts(whole, "environment") if key not in _FOLDERS and "\0" not in value
    }
    return environment, dict(_texts(whole, "files"))


def _texts(whole: dict[str, Any], name: str) -> Iterator[tuple[str, str]]:
    part = whole.get(name)
    for key, value in part.items() if isinstance(part, dict) else ():
        if isinstance(value, str) and _encodable(value):
            yield key, value


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


TARGET: Final = Target(tuple(_seeds()), _mutate, _Checker)
