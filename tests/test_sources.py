"""Where settings come from, and which go before which, for the project at hand and for others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from cc_trace.config import read_config
from cc_trace.errors import ConfigError
from cc_trace.settings import Settings
from cc_trace.sources import Sources

if TYPE_CHECKING:
    from pathlib import Path


class Places:
    """A home, two projects and an administrator's file."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.mine, self.other = folder / "mine", folder / "other"
        self.managed = folder / "managed-settings.json"

    def write(self, path: Path, **env: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"env": env}))

    def user(self, **env: Any) -> None:
        self.write(self.home / ".claude" / "settings.json", **env)

    def project(self, project: Path, name: str = "settings.json", **env: Any) -> None:
        self.write(project / ".claude" / name, **env)

    def file(self, text: str) -> None:
        path = self.home / ".config" / "cc-trace" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def sources(self, *, hooked: bool = False, **environment: str) -> Sources:
        return Sources(environment, self.home, hooked, (self.managed,))

    def content(self, project: Path | None, *, hooked: bool = False, **environment: str) -> tuple[str | None, str]:
        """The setting `content`, and where it comes from."""
        settings = Settings(self.sources(hooked=hooked, **environment).layers(project))
        found = settings.found("content")
        return settings.text("content"), found.origin if found is not None else "default"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_the_stronger_goes_before_the_weaker(places: Places) -> None:
    """Managed settings, environment, local and shared project settings, the user's, config.toml, the default."""
    expected = ["full", "metadata", "no-tool-content", "full", "metadata", "no-tool-content", "full"]
    seen = [places.content(places.mine)]
    places.file('content = "metadata"')
    seen.append(places.content(places.mine))
    places.user(CC_TRACE_CONTENT="no-tool-content")
    seen.append(places.content(places.mine))
    places.project(places.mine, CC_TRACE_CONTENT="full")
    seen.append(places.content(places.mine))
    places.project(places.mine, "settings.local.json", CC_TRACE_CONTENT="metadata")
    seen.append(places.content(places.mine))
    seen.append(places.content(places.mine, CC_TRACE_CONTENT="no-tool-content"))
    places.write(places.managed, CC_TRACE_CONTENT="full")
    seen.append(places.content(places.mine, CC_TRACE_CONTENT="no-tool-content"))
    claude = places.mine / ".claude"
    origins = [
        "default",
        str(places.home / ".config" / "cc-trace" / "config.toml"),
        str(places.home / ".claude" / "settings.json"),
        str(claude / "settings.json"),
        str(claude / "settings.local.json"),
        "environment",
        str(places.managed),
    ]
    assert seen == list(zip(expected, origins, strict=True))


def test_a_hook_takes_its_own_project_from_its_environment(places: Places) -> None:
    """Claude Code has put it together there; a file that is broken it has ignored."""
    (places.mine / ".claude").mkdir(parents=True)
    (places.mine / ".claude" / "settings.json").write_text("{,}")
    environment = {"CLAUDE_PROJECT_DIR": str(places.mine), "CC_TRACE_CONTENT": "metadata"}
    assert places.content(places.mine, hooked=True, **environment) == ("metadata", "environment")
    assert places.content(None, hooked=True, **environment) == ("metadata", "environment")


def test_what_a_hooks_project_says_is_known_to_be_the_projects(places: Places) -> None:
    """Though it arrives in the environment; and options of the plugin hold for a hook in the settings, too."""
    places.project(places.mine, CC_TRACE_CONTENT="metadata", CC_TRACE_TAGS="a")
    environment = {"CLAUDE_PROJECT_DIR": str(places.mine), "CC_TRACE_CONTENT": "metadata", "CC_TRACE_TAGS": "mine"}
    settings = Settings(places.sources(hooked=True, **environment).layers(places.mine))
    found = [settings.found(name) for name in ("content", "tags")]
    assert [(each.text, each.shared) for each in found if each] == [("metadata", True), ("mine", False)]
    (places.home / ".claude").mkdir(parents=True)
    options = {"pluginConfigs": {"cc-trace@x": {"options": {"user_id": "zoe"}}}}
    (places.home / ".claude" / "settings.json").write_text(json.dumps(options))
    assert Settings(places.sources(hooked=True, **environment).layers(places.mine)).text("user_id") == "zoe"


def test_what_a_hooks_project_says_does_not_hold_for_others(places: Places) -> None:
    """A session of another project that is found left behind goes by what that project says, else by the user."""
    places.project(places.mine, CC_TRACE_CONTENT="full")
    environment = {"CLAUDE_PROJECT_DIR": str(places.mine), "CC_TRACE_CONTENT": "full"}
    assert places.content(places.other, hooked=True, **environment) == ("full", "default")
    places.user(CC_TRACE_CONTENT="no-tool-content")
    assert places.content(places.other, hooked=True, **environment)[0] == "no-tool-content"
    places.project(places.other, CC_TRACE_CONTENT="metadata")
    assert places.content(places.other, hooked=True, **environment)[0] == "metadata"


def test_the_users_settings_in_a_hooks_environment_yield_to_another_project(places: Places) -> None:
    places.user(CC_TRACE_CONTENT="full")
    places.project(places.other, CC_TRACE_CONTENT="metadata")
    environment = {"CLAUDE_PROJECT_DIR": str(places.mine), "CC_TRACE_CONTENT": "full"}
    assert places.content(places.other, hooked=True, **environment)[0] == "metadata"


def test_what_a_hooks_project_named_is_not_the_users_whatever_its_value(places: Places) -> None:
    """The file may have been edited since Claude Code read it, and its `env` may hold what is no text."""
    places.project(places.mine, CC_TRACE_CONTENT="full", CC_TRACE_MAX_CHARS=5, CC_TRACE_DEBUG=True)
    places.project(places.other, CC_TRACE_CONTENT="metadata", CC_TRACE_MAX_CHARS=7)
    old = {"CC_TRACE_CONTENT": "no-tool-content", "CC_TRACE_MAX_CHARS": "5", "CC_TRACE_DEBUG": "true"}
    sources = places.sources(hooked=True, CLAUDE_PROJECT_DIR=str(places.mine), **old)
    settings = Settings(sources.layers(places.other))
    assert [settings.text(name) for name in ("content", "max_chars", "debug")] == ["metadata", "7", "false"]
    own = Settings(sources.layers(places.mine))
    found = [own.found(name) for name in ("max_chars", "debug")]
    assert [(each.text, each.shared) for each in found if each] == [("5", True), ("true", True)]


@pytest.mark.parametrize(
    ("name", "said", "own"),
    [
        ("CC_TRACE_CONTENT", "metadata", "no-tool-content"),
        ("CC_TRACE_ENABLED", "false", "true"),
        ("CC_TRACE_EXCLUDE", "/a,/b", "/b"),
        ("CC_TRACE_MASK", "a+\nb+", "b+"),
    ],
)
def test_where_the_shell_may_have_protected_another_project_its_own_hook_is_waited_for(
    places: Places, name: str, said: str, own: str
) -> None:
    """The hook's project says the same, so there is no telling. What protects no more than its own does not count."""
    places.project(places.mine, **{name: said})
    places.project(places.other, **{name: own})
    sources = places.sources(hooked=True, CLAUDE_PROJECT_DIR=str(places.mine), **{name: said})
    with pytest.raises(ConfigError) as caught:
        sources.layers(places.other)
    assert str(caught.value) == (
        f"{name} may be set for {places.mine} alone or for {places.other} too: that is left to a hook of its own"
    )
    assert Settings(sources.layers(places.mine)).found(name.removeprefix("CC_TRACE_").lower()) is not None
    places.user(**{name: own})  # a user's settings go before the shell's
    assert sources.layers(places.other)
    (places.home / ".claude" / "settings.json").unlink()
    places.project(places.other, **{name: said})
    assert sources.layers(places.other)
    places.project(places.mine, **{name: own})
    sources = places.sources(hooked=True, CLAUDE_PROJECT_DIR=str(places.mine), **{name: own})
    assert sources.layers(places.other)


def test_a_wrong_value_of_a_hooks_project_holds_up_no_other(places: Places) -> None:
    places.project(places.mine, CC_TRACE_CONTENT="some", CC_TRACE_ENABLED="maybe", CC_TRACE_MASK="(a")
    wrong = {"CC_TRACE_CONTENT": "some", "CC_TRACE_ENABLED": "maybe", "CC_TRACE_MASK": "(a"}
    found = places.content(places.other, hooked=True, CLAUDE_PROJECT_DIR=str(places.mine), **wrong)
    assert found == ("full", "default")


def test_one_order_in_a_hook_and_by_hand(places: Places) -> None:
    """What the user's settings say is in a hook's environment, and yields to what the project says, by any name."""
    places.user(CC_LANGFUSE_BASE_URL="http://user")
    places.project(places.mine, CC_LANGFUSE_HOST="http://project")
    environment = {"CC_LANGFUSE_BASE_URL": "http://user", "CC_LANGFUSE_HOST": "http://project"}
    hooked = places.sources(hooked=True, CLAUDE_PROJECT_DIR=str(places.mine), **environment)
    for sources in (hooked, places.sources()):
        found = Settings(sources.layers(places.mine)).found("langfuse_base_url")
        assert found is not None
        assert (found.text, found.shared) == ("http://project", True)


def test_what_the_shell_exported_goes_before_any_project(places: Places) -> None:
    """In a hook's environment, what no settings file says is the shell's."""
    places.project(places.other, CC_TRACE_CONTENT="full")
    environment = {"CLAUDE_PROJECT_DIR": str(places.mine), "CC_TRACE_CONTENT": "metadata"}
    assert places.content(places.other, hooked=True, **environment) == ("metadata", "environment")


def test_only_variables_of_ours_are_taken_from_settings_files(places: Places) -> None:
    places.user(CC_TRACE_TAGS="a", PATH="/evil", AWS_REGION="x")
    layers = places.sources().layers(None)
    assert [dict(layer.values) for layer in layers if "settings.json" in layer.origin and layer.values] == [
        {"CC_TRACE_TAGS": "a"}
    ]


def test_options_of_the_plugin_in_the_users_settings_hold_in_a_shell_too(places: Places) -> None:
    """Claude Code gives them to hooks only; a project's file cannot set them."""
    options = {"pluginConfigs": {"cc-trace@any": {"options": {"content": "metadata"}}, "other@x": 1}}
    for path in (places.home / ".claude" / "settings.json", places.mine / ".claude" / "settings.json"):
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(options))
    user = str(places.home / ".claude" / "settings.json")
    assert places.content(places.mine) == ("metadata", user)
    (places.home / ".claude" / "settings.json").unlink()
    assert places.content(places.mine) == ("full", "default")


@pytest.mark.parametrize("theirs", [False, True])
def test_a_secret_option_of_the_plugin_is_no_stronger_than_the_others(places: Places, *, theirs: bool) -> None:
    """Claude Code tells it to hooks only: a key of the plugin does not go to an address that was set later."""
    new = {"CC_TRACE_OTLP_ENDPOINT": "https://new", "CC_TRACE_OTLP_HEADERS": "authorization=new"}
    places.user(**new)
    sources = places.sources(
        hooked=True,
        CLAUDE_PROJECT_DIR=str(places.mine),
        CLAUDE_PLUGIN_OPTION_OTLP_ENDPOINT="https://old",
        CLAUDE_PLUGIN_OPTION_OTLP_HEADERS="authorization=old",
        CLAUDE_PLUGIN_OPTION_USER_ID="me",
        **new,
    )
    settings = Settings(sources.layers(places.other if theirs else places.mine))
    assert settings.text("otlp_endpoint") == "https://new"
    assert settings.pairs("otlp_headers") == {"authorization": "new"}
    assert settings.text("user_id") == "me"


@pytest.mark.parametrize(
    ("address", "key"),
    [("CC_TRACE_OTLP_ENDPOINT", "CC_TRACE_OTLP_HEADERS"), ("LANGFUSE_BASE_URL", "CC_LANGFUSE_SECRET_KEY")],
)
def test_a_users_key_is_not_sent_to_an_address_of_a_project(places: Places, address: str, key: str) -> None:
    """Whoever wrote the project's settings would get it. With a key of the project's own it is the project's affair."""
    keys = {key: "a=secret", "CC_LANGFUSE_PUBLIC_KEY": "pk"}
    places.project(places.mine, **{address: "http://project"})
    names = "otlp" if "OTLP" in address else "langfuse"

    def endpoint(**environment: str) -> str | None:
        layers = places.sources(hooked=False, **environment, CC_TRACE_DESTINATIONS=names).layers(places.mine)
        return read_config(Settings(layers), places.home, places.home).destinations[0].endpoint

    with pytest.raises(ConfigError, match=f"{address} stands in .*: a key of yours is not sent") as caught:
        endpoint(**keys)
    assert "secret" not in str(caught.value).replace("SECRET", "")
    assert endpoint(**keys, **{address: "http://mine"}) == "http://mine"
    places.project(places.mine, **{address: "http://project"}, **keys)
    assert endpoint() == "http://project"


@pytest.mark.parametrize(
    ("text", "message"),
    [("{,}", "is not valid JSON"), ("[" * 100_000, "is not valid JSON"), ('{"env": 1}', None), ("[]", None)],
)
def test_a_settings_file_that_cannot_be_read_is_named(places: Places, text: str, message: str | None) -> None:
    """Nothing is guessed about a project whose wishes cannot be read."""
    (places.other / ".claude").mkdir(parents=True)
    path = places.other / ".claude" / "settings.json"
    path.write_text(text)
    if message is None:
        assert places.content(places.other) == ("full", "default")
        return
    with pytest.raises(ConfigError, match=message) as caught:
        places.content(places.other)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_toml_is_named_with_its_position(places: Places) -> None:
    places.file("content = \n")
    with pytest.raises(ConfigError, match=r"config\.toml: .*line 1, column"):
        places.content(None)


def test_values_of_all_types_are_taken(places: Places) -> None:
    """TOML has lists, tables, numbers and booleans; so have settings files."""
    places.file('tags = ["a", "b"]\nmax_chars = 5\nenabled = false\n[resource_attributes]\nteam = "x"\n')
    settings = Settings(places.sources().layers(None))
    assert settings.names("tags") == ["a", "b"]
    assert settings.number("max_chars") == 5
    assert settings.flag("enabled") is False
    assert settings.pairs("resource_attributes") == {"team": "x"}
