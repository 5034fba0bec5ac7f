"""Settings from the environment and the file: which wins, what is refused, and in which words."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import pytest

from cc_trace.errors import ConfigError
from cc_trace.export.destination import DestinationSettings
from cc_trace.export.profiles.labels import Labels
from cc_trace.privacy.content import PrivacySettings
from cc_trace.settings import lookup
from cc_trace.settings.catalogue import SETTINGS
from cc_trace.settings.config import Config, read_config
from cc_trace.settings.lookup import Layer, Settings
from cc_trace.spans.model import TraceLink

HOME = Path("/home/dev")
STATE = HOME / ".claude" / "state" / "cc-trace"


def config(file: dict[str, Any] | None = None, **environment: str) -> Config:
    layers = [Layer("environment", environment), Layer("/c/config.toml", file or {}, variables=False)]
    return read_config(Settings(layers), STATE, HOME)


def destinations(file: dict[str, Any] | None = None, **environment: str) -> tuple[DestinationSettings, ...]:
    return config(file, **environment).destinations


def test_default_destination_is_the_local_store() -> None:
    """The default is the local store: nothing leaves the machine unasked."""
    found = config()
    assert found.off("/anywhere") is None
    assert found.destinations == (DestinationSettings("local", "local", path=STATE / "traces.db"),)
    assert found.privacy == PrivacySettings("full", 100_000, ())
    assert found.link == TraceLink()


def test_keys_and_endpoints_choose_destinations() -> None:
    found = destinations(
        CC_TRACE_OTLP_ENDPOINT="http://localhost:4318",
        CC_TRACE_OTLP_HEADERS="authorization=Bearer x, x-team=a",
        CC_TRACE_OTLP_PROTOCOL="grpc",
        CC_LANGFUSE_PUBLIC_KEY="pk",
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
            cost="missing",
            media=True,
            cache=STATE,
        ),
    )


def test_variables_win_over_the_file() -> None:
    """And the file over defaults; CC_LANGFUSE_* over LANGFUSE_*."""
    file = {"otlp_endpoint": "http://file:1", "otlp_headers": {"a": "b"}, "tags": ["x"]}
    (found,) = destinations(file, CC_TRACE_OTLP_ENDPOINT="http://variable:1", CC_TRACE_OTLP_HEADERS="c=d")
    assert (found.endpoint, found.headers, found.labels.tags) == ("http://variable:1", (("c", "d"),), ("x",))
    keys = {"LANGFUSE_PUBLIC_KEY": "1", "CC_LANGFUSE_PUBLIC_KEY": "2", "LANGFUSE_SECRET_KEY": "3"}
    (found,) = destinations(None, **keys, LANGFUSE_HOST="http://old", LANGFUSE_BASE_URL="http://new")
    assert (found.public_key, found.secret_key, found.endpoint) == ("2", "3", "http://new")


def test_a_key_is_sent_only_to_the_address_of_its_own_source() -> None:
    """Whoever wrote the one need not have meant the other; an empty value says that there is none."""
    file = {"otlp_endpoint": "http://file:1", "otlp_headers": {"a": "b"}}
    with pytest.raises(ConfigError, match="CC_TRACE_OTLP_ENDPOINT is set in environment, otlp_headers in /c/config"):
        destinations(file, CC_TRACE_OTLP_ENDPOINT="http://variable:1")
    with pytest.raises(ConfigError, match=r"otlp_endpoint is set in /c/config\.toml, CC_TRACE_OTLP_HEADERS in"):
        destinations({"otlp_endpoint": "http://file:1"}, CC_TRACE_OTLP_HEADERS="a=b")
    (found,) = destinations(file, CC_TRACE_OTLP_ENDPOINT="http://variable:1", CC_TRACE_OTLP_HEADERS="")
    assert (found.endpoint, found.headers) == ("http://variable:1", ())
    keys = {"CC_LANGFUSE_PUBLIC_KEY": "pk", "CC_LANGFUSE_SECRET_KEY": "sk"}
    with pytest.raises(ConfigError, match="CC_LANGFUSE_SECRET_KEY is set in environment, langfuse_base_url in /c/"):
        destinations({"langfuse_base_url": "http://file:1"}, **keys)
    with pytest.raises(ConfigError, match=r"langfuse_secret_key is set in /c/config\.toml, CC_LANGFUSE_BASE_URL in"):
        destinations(
            {"langfuse_public_key": "pk", "langfuse_secret_key": "sk"}, CC_LANGFUSE_BASE_URL="http://elsewhere"
        )
    with pytest.raises(ConfigError, match="CC_LANGFUSE_SECRET_KEY is set in environment, langfuse_public_key in /c/"):
        destinations({"langfuse_public_key": "pk"}, CC_LANGFUSE_SECRET_KEY="sk")  # noqa: S106


def test_named_destinations_are_used_once_each() -> None:
    """CC_TRACE_DESTINATIONS contains them."""
    found = destinations(CC_TRACE_DESTINATIONS="local, file,local,otel:console")
    assert [(each.name, each.kind) for each in found] == [
        ("local", "local"),
        ("file", "file"),
        ("otel:console", "otel"),
    ]


def test_no_key_is_shown() -> None:
    """A settings object that lands in a message or a log shows no secret."""
    shown = repr(destinations(CC_LANGFUSE_PUBLIC_KEY="pk-1", LANGFUSE_SECRET_KEY="sk-1"))  # noqa: S106
    assert "sk-1" not in shown
    assert "pk-1" not in shown


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"CC_TRACE_DESTINATIONS": "nowhere"},
            "CC_TRACE_DESTINATIONS contains 'nowhere'; the destinations are local, otlp, langfuse, file, otel:NAME",
        ),
        (
            {"CC_TRACE_OTLP_ENDPOINT": "http://x", "CC_TRACE_DESTINATIONS": "otlp,otlp:x"},
            "CC_TRACE_DESTINATIONS contains 'otlp:x'; the destinations are local, otlp, langfuse, file, otel:NAME",
        ),
        ({"CC_TRACE_ENABLED": "maybe"}, "CC_TRACE_ENABLED is 'maybe'; it must be true or false"),
        (
            {"CC_TRACE_DESTINATIONS": "otlp"},
            "destination otlp needs an address; `cc-trace config set otlp_endpoint http://localhost:4318` sets it",
        ),
        (
            {"CC_TRACE_OTLP_ENDPOINT": "http://x", "CC_TRACE_OTLP_PROTOCOL": "smoke"},
            "CC_TRACE_OTLP_PROTOCOL is 'smoke'; it must be one of http/protobuf, http/json, grpc",
        ),
        (
            {"CC_LANGFUSE_PUBLIC_KEY": "pk"},
            "destination langfuse needs LANGFUSE_SECRET_KEY; set it where CC_LANGFUSE_PUBLIC_KEY is set: environment",
        ),
        ({"TRACE_TO_LANGFUSE": "1"}, "TRACE_TO_LANGFUSE is '1'; it must be true or false"),
        (
            {"CC_TRACE_TIMEOUT_SECONDS": "0"},
            "CC_TRACE_TIMEOUT_SECONDS is 0; it must be more than 0",
        ),
        ({"CC_TRACE_FILE": "traces.jsonl"}, "CC_TRACE_FILE is 'traces.jsonl'; it must be an absolute path"),
        ({"CC_TRACE_CONTENT": "some"}, "CC_TRACE_CONTENT is 'some'; it must be one of full, no-tool-content, metadata"),
        (
            {"CC_TRACE_TRACEPARENT": "00-1-2-01"},
            "CC_TRACE_TRACEPARENT is '00-1-2-01'; it must be 00-TRACE_ID-SPAN_ID-FLAGS in hexadecimal",
        ),
        ({"CC_TRACE_MAX_CHARS": "-1"}, "CC_TRACE_MAX_CHARS is '-1'; it must be a number, 0 or more"),
        ({"CC_TRACE_MAX_CHARS": "0.5"}, "CC_TRACE_MAX_CHARS is 0.5; it must be a whole number"),
        ({"CC_TRACE_WORKERS": "2.5"}, "CC_TRACE_WORKERS is 2.5; it must be a whole number"),
        (
            {"CC_TRACE_OTLP_ENDPOINT": "http://x", "CC_TRACE_OTLP_HEADERS": "secret"},
            "CC_TRACE_OTLP_HEADERS must be key=value pairs separated by commas, such as authorization=Bearer KEY",
        ),
        (
            {"CC_TRACE_TIMEOUT_SECONDS": "soon"},
            "CC_TRACE_TIMEOUT_SECONDS is 'soon'; it must be a number, 0 or more",
        ),
    ],
)
def test_a_wrong_value_is_named(environment: dict[str, str], message: str) -> None:
    """With what is allowed, and never with a secret."""
    with pytest.raises(ConfigError) as caught:
        config(None, **environment)
    assert str(caught.value) == message


def test_example_in_the_module_docstring() -> None:
    result = doctest.testmod(lookup)
    assert (result.failed, result.attempted) == (0, 7)


def test_a_wrong_value_in_the_file_is_named_with_the_file() -> None:
    """So that one knows where to fix it."""
    message = r"content in /c/config.toml is 'some'; it must be one of full, no-tool-content"
    with pytest.raises(ConfigError, match=message):
        config({"content": "some"})


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({}, ["local"]),  # LANGFUSE_* alone may be those of the user's own program
        ({"TRACE_TO_LANGFUSE": "true"}, ["langfuse"]),
        ({"TRACE_TO_LANGFUSE": "TRUE"}, ["langfuse"]),
        ({"TRACE_TO_LANGFUSE": "false", "CC_TRACE_DESTINATIONS": "langfuse,local"}, ["local"]),
        ({"TRACE_TO_LANGFUSE": "true", "CC_TRACE_DESTINATIONS": "local"}, ["local", "langfuse"]),
        ({"CC_TRACE_DESTINATIONS": "langfuse"}, ["langfuse"]),
        ({"CC_LANGFUSE_PUBLIC_KEY": "pk"}, ["langfuse"]),
        ({"CLAUDE_PLUGIN_OPTION_LANGFUSE_PUBLIC_KEY": "pk"}, ["langfuse"]),
    ],
)
def test_langfuse_needs_a_variable_meant_for_cc_trace(said: dict[str, str], names: list[str]) -> None:
    """The variables of cc-langfuse mean what they mean there; keys that are lying about choose nothing."""
    keys = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk"}
    if "CLAUDE_PLUGIN_OPTION_LANGFUSE_PUBLIC_KEY" in said:
        keys = {"CLAUDE_PLUGIN_OPTION_LANGFUSE_SECRET_KEY": "sk"}
    assert [each.name for each in destinations(None, **keys, **said)] == names


def test_keys_in_the_file_choose_langfuse() -> None:
    found = destinations({"langfuse_public_key": "pk", "langfuse_secret_key": "sk", "langfuse_base_url": "http://l"})
    assert [(each.kind, each.endpoint) for each in found] == [("langfuse", "http://l")]


def test_keys_of_another_program_are_not_mixed_with_ours() -> None:
    """What was set for us goes before bare LANGFUSE_*, and our key is not sent where another program's Langfuse is."""
    file = {"langfuse_public_key": "pk-mine", "langfuse_secret_key": "sk-mine"}
    theirs = {"LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "sk", "LANGFUSE_BASE_URL": "http://theirs"}
    (found,) = destinations(file, **theirs)
    assert (found.public_key, found.secret_key, found.endpoint) == ("pk-mine", "sk-mine", "https://cloud.langfuse.com")
    (found,) = destinations({**file, "langfuse_base_url": "http://mine"}, **theirs)
    assert found.endpoint == "http://mine"
    (found,) = destinations(None, **theirs, TRACE_TO_LANGFUSE="true")
    assert (found.secret_key, found.endpoint) == ("sk", "http://theirs")


def test_a_table_of_headers_may_hold_commas() -> None:
    (found,) = destinations({"otlp_endpoint": "http://x", "otlp_headers": {"a": "b,c=d"}})
    assert found.headers == (("a", "b,c=d"),)


def test_options_of_the_plugin_come_after_our_own_variables() -> None:
    """And an empty one sets nothing: Claude Code may give all of them."""
    options = {"CLAUDE_PLUGIN_OPTION_CONTENT": "metadata", "CLAUDE_PLUGIN_OPTION_TAGS": "a,b"}
    assert config(None, **options).privacy.content == "metadata"
    assert config(None, **options, CC_TRACE_CONTENT="full").privacy.content == "full"
    assert config(None, **{**options, "CLAUDE_PLUGIN_OPTION_CONTENT": ""}).privacy.content == "full"


@pytest.mark.parametrize(
    ("project", "off"),
    [
        ("/home/dev/private", "CC_TRACE_EXCLUDE contains /home/dev/private"),
        ("/home/dev/private/deep/er", "CC_TRACE_EXCLUDE contains /home/dev/private"),
        ("/home/dev/private2", None),
        ("/srv/client-a/x", "CC_TRACE_EXCLUDE contains /srv/client-*"),
        ("/srv/other", None),
        (None, None),
    ],
)
def test_folders_are_left_out_with_what_is_below_them(project: str | None, off: str | None) -> None:
    assert config(CC_TRACE_EXCLUDE="~/private, /srv/client-*").off(project) == off
    if off is not None and "*" not in off:
        assert config(CC_TRACE_EXCLUDE="~/private/").off(project) == f"{off}/"


def test_folders_are_left_out_through_links() -> None:
    """Whichever side has the link."""
    real = {"/link": "/real"}.get
    found = config(CC_TRACE_EXCLUDE="/link")
    assert found.off("/real", lambda path: real(path, path)) == "CC_TRACE_EXCLUDE contains /link"
    found = config(CC_TRACE_EXCLUDE="/real")
    assert found.off("/link", lambda path: real(path, path)) == "CC_TRACE_EXCLUDE contains /real"


def test_a_link_before_a_wildcard_is_resolved() -> None:
    """Claude Code is in the real folder, whatever the user typed."""
    real = {"/home/dev/work": "/data/[x]"}.get
    found = config(CC_TRACE_EXCLUDE="~/work/client-*")
    assert found.off("/data/[x]/client-a/deep", lambda path: real(path, path)) is not None
    assert found.off("/data/x/client-a", lambda path: real(path, path)) is None
    assert found.off("/data/[x]/other", lambda path: real(path, path)) is None


def test_a_folder_with_a_wildcard_in_its_name_can_be_left_out() -> None:
    """`[id]` is such a name in a web project; as a pattern it matches one letter."""
    found = config(CC_TRACE_EXCLUDE="/srv/[id]")
    assert found.off("/srv/[id]") == found.off("/srv/[id]/deep") == "CC_TRACE_EXCLUDE contains /srv/[id]"
    assert found.off("/srv/i") == "CC_TRACE_EXCLUDE contains /srv/[id]"
    real = {"/link": "/srv/[id]"}.get
    assert config(CC_TRACE_EXCLUDE="/link").off("/srv/[id]/deep", lambda path: real(path, path)) is not None


@pytest.mark.parametrize("pattern", ["/", "/*", "*"])
def test_all_folders_can_be_left_out(pattern: str) -> None:
    assert config(CC_TRACE_EXCLUDE=pattern).off("/srv/x") == f"CC_TRACE_EXCLUDE contains {pattern}"


def test_disabled_applies_to_every_folder() -> None:
    assert config(CC_TRACE_ENABLED="0").off("/x") == "CC_TRACE_ENABLED is false"


def test_what_turns_tracing_off_is_named_as_it_is_set() -> None:
    """In a file by the name of the setting, with the file; everywhere else by the variable."""
    assert config({"enabled": False}).off("/x") == "enabled in /c/config.toml is false"
    assert config({"exclude": ["/x"]}).off("/x") == "exclude in /c/config.toml contains /x"


def test_a_traceparent_is_taken_only_by_our_own_name() -> None:
    """One that merely happens to be in the environment is not ours to follow."""
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    assert config(TRACEPARENT=parent).link == TraceLink()
    assert config(CC_TRACE_TRACEPARENT=parent, CC_TRACE_SEED="s").link == TraceLink("s", "a" * 32, "b" * 16)


def test_no_two_settings_share_a_name_or_a_variable() -> None:
    names = [setting.name for setting in SETTINGS]
    variables = [variable for setting in SETTINGS for variable in setting.variables]
    assert len(names) == len(set(names))
    assert len(variables) == len(set(variables))
