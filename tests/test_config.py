"""Settings from the environment and the file: which wins, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cc_trace.config import read_config
from cc_trace.destinations import DestinationSettings
from cc_trace.errors import ConfigError
from cc_trace.profiles.labels import Labels

HOME = Path("/home/dev")
STATE = HOME / ".claude" / "state" / "cc-trace"


def destinations(file: dict[str, Any] | None = None, **environment: str) -> tuple[DestinationSettings, ...]:
    return read_config(environment, file or {}, HOME).destinations


def test_with_nothing_configured_traces_stay_here() -> None:
    """The default is the local store: nothing leaves the machine unasked."""
    config = read_config({}, {}, HOME)
    assert config.enabled
    assert config.config_dir == HOME / ".claude"
    assert config.state_dir == STATE
    assert config.destinations == (DestinationSettings("local", "local", path=STATE / "traces.db"),)


def test_folders_follow_the_environment() -> None:
    """CLAUDE_CONFIG_DIR moves Claude Code's folder and with it the state; CC_TRACE_HOME the state alone."""
    assert read_config({"CLAUDE_CONFIG_DIR": "/c"}, {}, HOME).state_dir == Path("/c/state/cc-trace")
    assert read_config({"CC_TRACE_HOME": "/s"}, {}, HOME).state_dir == Path("/s")


def test_what_has_what_it_needs_is_used() -> None:
    """Keys and endpoints choose the destinations where none is named."""
    found = destinations(
        CC_TRACE_OTLP_ENDPOINT="http://localhost:4318",
        CC_TRACE_OTLP_HEADERS="authorization=Bearer x, x-team=a",
        CC_TRACE_OTLP_PROTOCOL="grpc",
        LANGFUSE_PUBLIC_KEY="pk",
        LANGFUSE_SECRET_KEY="sk",  # noqa: S106
        CC_TRACE_TAGS="a, b",
    )
    labels = Labels(tags=("a", "b"))
    assert found == (
        DestinationSettings(
            "otlp",
            "otlp",
            endpoint="http://localhost:4318",
            protocol="grpc",
            headers=(("authorization", "Bearer x"), ("x-team", "a")),
            labels=labels,
        ),
        DestinationSettings(
            "langfuse",
            "langfuse",
            profile="langfuse",
            endpoint="https://cloud.langfuse.com",
            public_key="pk",
            secret_key="sk",  # noqa: S106
            labels=labels,
        ),
    )


def test_variables_win_over_the_file() -> None:
    """And the file over defaults; CC_LANGFUSE_* over LANGFUSE_*."""
    file = {"otlp_endpoint": "http://file:1", "otlp_headers": {"a": "b"}, "tags": ["x"]}
    (found,) = destinations(file, CC_TRACE_OTLP_ENDPOINT="http://variable:1")
    assert (found.endpoint, found.headers, found.labels.tags) == ("http://variable:1", (("a", "b"),), ("x",))
    keys = {"LANGFUSE_PUBLIC_KEY": "1", "CC_LANGFUSE_PUBLIC_KEY": "2", "LANGFUSE_SECRET_KEY": "3"}
    (found,) = destinations(None, **keys, LANGFUSE_HOST="http://old", LANGFUSE_BASE_URL="http://new")
    assert (found.public_key, found.secret_key, found.endpoint) == ("2", "3", "http://new")


def test_several_at_once_and_each_once() -> None:
    """CC_TRACE_DESTINATIONS names them."""
    found = destinations(CC_TRACE_DESTINATIONS="local, file,local,otel:console")
    assert [(each.name, each.kind) for each in found] == [
        ("local", "local"),
        ("file", "file"),
        ("otel:console", "otel"),
    ]


def test_no_key_is_shown() -> None:
    """A settings object that lands in a message or a log shows no secret."""
    shown = repr(destinations(LANGFUSE_PUBLIC_KEY="pk-1", LANGFUSE_SECRET_KEY="sk-1"))  # noqa: S106
    assert "sk-1" not in shown
    assert "pk-1" not in shown


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"CC_TRACE_DESTINATIONS": "nowhere"},
            "CC_TRACE_DESTINATIONS names 'nowhere'; allowed are local, otlp, langfuse, file and otel:NAME",
        ),
        ({"CC_TRACE_ENABLED": "maybe"}, "CC_TRACE_ENABLED is 'maybe'; allowed are true and false"),
        (
            {"CC_TRACE_DESTINATIONS": "otlp"},
            "destination otlp needs CC_TRACE_OTLP_ENDPOINT, for example http://localhost:4318",
        ),
        (
            {"CC_TRACE_OTLP_ENDPOINT": "http://x", "CC_TRACE_OTLP_PROTOCOL": "smoke"},
            "CC_TRACE_OTLP_PROTOCOL is 'smoke'; allowed are http/protobuf, http/json, grpc",
        ),
        ({"LANGFUSE_PUBLIC_KEY": "pk"}, "destination langfuse needs LANGFUSE_SECRET_KEY"),
        (
            {"CC_TRACE_OTLP_ENDPOINT": "http://x", "CC_TRACE_OTLP_HEADERS": "secret"},
            "CC_TRACE_OTLP_HEADERS has a part that is not key=value",
        ),
        ({"CC_TRACE_TIMEOUT_SECONDS": "soon"}, "CC_TRACE_TIMEOUT_SECONDS is 'soon'; a number of seconds is wanted"),
    ],
)
def test_a_wrong_value_is_named(environment: dict[str, str], message: str) -> None:
    """With what is allowed, and never with a secret."""
    with pytest.raises(ConfigError) as caught:
        read_config(environment, {}, HOME)
    assert str(caught.value) == message
