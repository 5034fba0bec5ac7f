"""Where settings come from, and which go before which, for the project at hand and for others."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cc_trace.errors import ConfigError
from cc_trace.settings.catalogue import SETTINGS
from cc_trace.settings.config import read_config
from cc_trace.settings.sources import Sources, env_layer

if TYPE_CHECKING:
    from cc_trace.settings.lookup import Settings


class InstallPaths:
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

    def sources(self, *, from_hook: bool = False, **environment: str) -> Sources:
        return Sources(environment, self.home, from_hook, (self.managed,))

    def settings(self, project: Path | None, *, from_hook: bool = False, **environment: str) -> Settings:
        """The settings of a session that a hook of its own speaks of, or that a command is about."""
        sources = self.sources(from_hook=from_hook, **environment)
        return sources.settings(project, sources.hook_environment() if from_hook else None)

    def content(self, project: Path | None, *, from_hook: bool = False, **environment: str) -> tuple[str | None, str]:
        """The setting `content`, and where it comes from."""
        settings = self.settings(project, from_hook=from_hook, **environment)
        found = settings.value("content")
        return settings.text("content"), found.origin if found is not None else "default"

    def swept(self, project: Path, **environment: str) -> Settings:
        """The settings of a session of another project of which nothing is remembered, in a worker of `mine`."""
        return self.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(self.mine), **environment).settings(project)


@pytest.fixture
def places(tmp_path: Path) -> InstallPaths:
    return InstallPaths(tmp_path)


def test_precedence_of_sources(places: InstallPaths) -> None:
    """Managed settings, environment, the user's, config.toml for the project, config.toml, the default."""
    expected = ["full", "metadata", "no-tool-content", "metadata", "no-tool-content", "full"]
    seen = [places.content(places.mine)]
    places.file('content = "metadata"')
    seen.append(places.content(places.mine))
    places.file(f'content = "metadata"\n[project."{places.mine}"]\ncontent = "no-tool-content"\n')
    seen.append(places.content(places.mine))
    places.user(CC_TRACE_CONTENT="metadata")
    seen.append(places.content(places.mine))
    seen.append(places.content(places.mine, CC_TRACE_CONTENT="no-tool-content"))
    places.write(places.managed, CC_TRACE_CONTENT="full")
    seen.append(places.content(places.mine, CC_TRACE_CONTENT="no-tool-content"))
    config = places.home / ".config" / "cc-trace" / "config.toml"
    origins = [
        "default",
        str(config),
        f'{config} [project."{places.mine}"]',
        str(places.home / ".claude" / "settings.json"),
        "environment",
        str(places.managed),
    ]
    assert seen == list(zip(expected, origins, strict=True))


def test_tables_of_config_toml_hold_for_a_folder_and_what_is_below_it(places: InstallPaths, tmp_path: Path) -> None:
    """The nearest first; a folder is also known by a link, and by `~`."""
    (tmp_path / "link").symlink_to(places.mine)
    places.file(
        f'tags = ["all"]\n[project."{tmp_path / "link"}"]\ntags = ["mine"]\nuser_id = "me"\n'
        f'[project."{places.mine / "deep"}"]\ntags = ["deep"]\n[project."~/x"]\ntags = ["home"]\n'
    )

    def tags(project: Path | None) -> tuple[str | None, str | None]:
        settings = places.settings(project)
        return settings.text("tags"), settings.text("user_id")

    places.mine.mkdir()
    assert tags(places.mine) == ("mine", "me")
    assert tags(places.mine / "deep" / "er") == ("deep", "me")
    assert tags(places.other) == tags(None) == ("all", None)
    assert tags(places.home / "x") == ("home", None)
    assert tags(tmp_path / "mine2") == ("all", None)


def test_a_projects_files_are_a_source_of_nothing_but_restrictions(places: InstallPaths) -> None:
    """In a command and in another project's worker, whatever the files name."""
    every = {variable: "x" for setting in SETTINGS for variable in setting.variables}
    for name in ("settings.json", "settings.local.json"):
        places.project(places.other, name, **every)
    for settings in (places.settings(places.other), places.swept(places.other)):
        found = {setting.name for setting in SETTINGS if settings.value(setting.name) is not None}
        assert found == {"enabled", "content", "request_content", "store"}
        assert [settings.restricting(name) for name in ("exclude", "mask")] == [["x"], ["x"]]


def test_a_project_can_only_let_less_leave(places: InstallPaths) -> None:
    """By its files in any process, and by the environment in its own hook."""
    places.user(CC_TRACE_CONTENT="no-tool-content")
    places.file('enabled = false\nmask = ["a"]\n')
    loud = {"CC_TRACE_CONTENT": "full", "CC_TRACE_ENABLED": "true", "CC_TRACE_MASK": "b"}
    places.project(places.mine, **loud)
    own = places.settings(places.mine, from_hook=True, CLAUDE_PROJECT_DIR=str(places.mine), **loud)
    for settings in (places.settings(places.mine), own):
        assert (settings.text("content"), settings.flag("enabled")) == ("no-tool-content", False)
        assert (settings.names("mask"), settings.restricting("mask")) == (["a"], ["b"])
    places.project(places.mine, CC_TRACE_CONTENT="metadata")
    assert places.content(places.mine) == ("metadata", str(places.mine / ".claude" / "settings.json"))


def test_a_hook_takes_its_own_project_from_its_environment(places: InstallPaths) -> None:
    """Claude Code has put it together there; a file that is no JSON to us may be to it: all its keys are names."""
    (places.mine / ".claude").mkdir(parents=True)
    broken = '{"env": {"CC_TRACE_TAGS": "x", "CC_TR\\u0041CE_FILE": "y", "deep": ' + "[" * 100_000
    (places.mine / ".claude" / "settings.json").write_text(broken)
    environment = {"CLAUDE_PROJECT_DIR": str(places.mine), "CC_TRACE_CONTENT": "metadata", "CC_TRACE_TAGS": "x"}
    settings = places.settings(places.mine, from_hook=True, **environment, CC_TRACE_FILE="/y")
    found = settings.value("content"), settings.value("tags")
    assert [(each.text, each.layer.project) for each in found if each] == [("metadata", False), ("x", True)]
    assert settings.value("file") is None


def test_what_a_hooks_project_names_is_the_projects_whatever_its_value(places: InstallPaths) -> None:
    """The file may have been edited since Claude Code read it. What the user's file names is read from there."""
    places.user(CC_TRACE_USER_ID="new")
    places.project(places.mine, CC_TRACE_TAGS="a", CC_TRACE_MAX_CHARS=5)
    environment = {"CLAUDE_PROJECT_DIR": str(places.mine), "CC_TRACE_TAGS": "b", "CC_TRACE_MAX_CHARS": "7"}
    sources = places.sources(from_hook=True, **environment, CC_TRACE_USER_ID="old", CC_TRACE_RELEASE="r")
    assert sources.hook_environment() == {
        "shell": {"CC_TRACE_RELEASE": "r"},
        "project": {"CC_TRACE_TAGS": "b", "CC_TRACE_MAX_CHARS": "7"},
    }
    settings = sources.settings(places.mine, sources.hook_environment())
    assert [settings.text(name) for name in ("tags", "max_chars", "user_id")] == ["b", "7", "new"]


def test_the_users_own_folder_as_a_project_is_the_users(places: InstallPaths) -> None:
    places.user(CC_TRACE_FILE="/f")
    sources = places.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(places.home), CC_TRACE_FILE="/f")
    assert sources.hook_environment() == {"shell": {}, "project": {}}
    assert sources.settings(places.home, sources.hook_environment()).text("file") == "/f"


def test_late_delivery_uses_the_settings_of_the_sessions_hook(places: InstallPaths) -> None:
    """Whichever project's worker comes by, and by hand; a command's own environment goes before it."""
    theirs = {"CC_TRACE_OTLP_ENDPOINT": "http://project"}
    places.project(places.other, **theirs)
    hook = places.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(places.other), **theirs, CC_TRACE_TAGS="theirs")
    places.project(places.mine, CC_TRACE_TAGS="mine")
    mine = {"CC_TRACE_TAGS": "mine", "CC_TRACE_OTLP_ENDPOINT": "http://shell"}
    worker = places.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(places.mine), **mine)
    for sources in (worker, places.sources()):
        settings = sources.settings(places.other, hook.hook_environment())
        assert (settings.text("otlp_endpoint"), settings.text("tags")) == ("http://project", "theirs")
    settings = places.sources(CC_TRACE_TAGS="typed").settings(places.other, hook.hook_environment())
    assert settings.text("tags") == "typed"
    assert worker.settings(places.other).text("otlp_endpoint") == "http://shell"  # nothing is remembered


def test_secrets_are_remembered_by_name_alone(places: InstallPaths) -> None:
    """Also an address with a key in it, and an expression that may be the secret itself."""
    values = {setting.variable: "secret" for setting in SETTINGS if not setting.hook_only}
    values |= {"CC_TRACE_OTLP_ENDPOINT": "https://secret@host", "LANGFUSE_BASE_URL": "https://host/?key=secret"}
    kept = places.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(places.mine), **values).hook_environment()
    names = {name for name, value in kept["shell"].items() if value is None}
    assert names == {
        "CC_TRACE_OTLP_HEADERS",
        "CC_TRACE_OTLP_ENDPOINT",
        "CC_TRACE_MASK",
        "LANGFUSE_PUBLIC_KEY",
        "LANGFUSE_SECRET_KEY",
        "LANGFUSE_BASE_URL",
    }


RUN_SYNC = " and is not stored: run `cc-trace sync` in a shell that has it and the same address set"


def waits_for(settings: Settings) -> str | None:
    return read_config(settings, Path("/"), Path("/")).destinations[0].why_no_key


def test_a_destination_waits_for_a_key_that_came_with_the_environment(places: InstallPaths) -> None:
    """Until a worker or a command has it, beside the same address. What another project sets does not count."""
    keys = {"CC_TRACE_OTLP_ENDPOINT": "http://one", "CC_TRACE_OTLP_HEADERS": "a=key"}
    kept = places.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(places.other), **keys).hook_environment()
    waiting = "waits for CC_TRACE_OTLP_HEADERS, which was in the environment of its hook" + RUN_SYNC

    def worker(**environment: str) -> str | None:
        sources = places.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(places.mine), **environment)
        return waits_for(sources.settings(places.other, kept))

    assert waits_for(places.sources().settings(places.other, kept)) == waiting
    assert (worker(), worker(**keys)) == (waiting, None)
    assert worker(**keys | {"CC_TRACE_OTLP_ENDPOINT": "http://two"}) == waiting
    command = read_config(
        places.sources(from_hook=False, **keys).settings(places.other, kept), places.home, places.home
    )
    assert (command.destinations[0].headers, command.destinations[0].why_no_key) == ((("a", "key"),), None)
    places.project(places.mine, **keys)  # now they are that project's
    assert worker(**keys) == waiting


def test_a_projects_own_key_waits_for_a_hook_of_that_project(places: InstallPaths) -> None:
    keys = {"CC_LANGFUSE_PUBLIC_KEY": "pk", "CC_LANGFUSE_SECRET_KEY": "sk", "CC_LANGFUSE_BASE_URL": "http://one"}
    places.project(places.other, **keys)
    hook = places.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(places.other), **keys)
    kept = hook.hook_environment()
    assert kept["project"] == {**keys, "CC_LANGFUSE_PUBLIC_KEY": None, "CC_LANGFUSE_SECRET_KEY": None}
    waiting = "waits for CC_LANGFUSE_SECRET_KEY, which was in the environment of its hook" + RUN_SYNC
    assert waits_for(places.sources().settings(places.other, kept)) == waiting
    assert waits_for(hook.settings(places.other, kept)) is None


def test_what_a_hooks_project_says_does_not_hold_for_others(places: InstallPaths) -> None:
    """A session of another project that is found pending goes by what that project restricts, else by the user."""
    places.project(places.mine, CC_TRACE_CONTENT="full", CC_TRACE_TAGS="a")
    environment = {"CC_TRACE_CONTENT": "full", "CC_TRACE_TAGS": "a"}
    assert places.swept(places.other, **environment).text("tags") is None
    places.user(CC_TRACE_CONTENT="no-tool-content")
    assert places.swept(places.other, **environment).text("content") == "no-tool-content"
    places.project(places.other, CC_TRACE_CONTENT="metadata")
    assert places.swept(places.other, **environment).text("content") == "metadata"


@pytest.mark.parametrize(
    ("name", "said", "less"),
    [
        ("CC_TRACE_CONTENT", "metadata", "no-tool-content"),
        ("CC_TRACE_ENABLED", "false", "true"),
        ("CC_TRACE_EXCLUDE", "/a,/b", "/b"),
        ("CC_TRACE_MASK", "a+\nb+", "b+"),
    ],
)
def test_where_the_shell_may_have_protected_another_project_its_own_hook_is_waited_for(
    places: InstallPaths, name: str, said: str, less: str
) -> None:
    """The hook's project says the same, so there is no telling. What protects no more than the user does is clear."""
    places.project(places.mine, **{name: said})
    with pytest.raises(ConfigError) as caught:
        places.swept(places.other, **{name: said})
    assert str(caught.value) == (
        f"{name} may be set only for {places.mine}, or for {places.other} too: run `cc-trace sync`, or"
        " wait for its next turn"
    )
    setting = name.removeprefix("CC_TRACE_").lower()
    for value in (said, less):
        places.file(f"{setting} = {json.dumps(value)}")
        assert places.swept(places.other, **{name: value}).text(setting) == value


def test_a_wrong_value_of_a_hooks_project_holds_up_no_other(places: InstallPaths) -> None:
    wrong = {"CC_TRACE_CONTENT": "some", "CC_TRACE_ENABLED": "maybe", "CC_TRACE_MASK": "(a"}
    places.project(places.mine, **wrong)
    assert places.swept(places.other, **wrong).text("content") == "full"


def test_what_the_shell_exported_holds_for_other_projects_too(places: InstallPaths) -> None:
    """In a hook's environment, what no settings file names is the shell's."""
    found = places.swept(places.other, CC_TRACE_CONTENT="metadata").value("content")
    assert found is not None
    assert (found.text, found.origin) == ("metadata", "environment")


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "large", "loop"])
def test_unknown_project_settings_are_not_guessed(places: InstallPaths, name: str, kind: str) -> None:
    """The environment may be the project's as a whole."""
    unreadable(places.mine / ".claude" / name, kind)
    sources = places.sources(from_hook=True, CLAUDE_PROJECT_DIR=str(places.mine), CC_TRACE_TAGS="a")
    for read in (sources.hook_environment, lambda: sources.settings(places.other)):
        with pytest.raises(ConfigError, match="it is not known which variables they set"):
            read()


@pytest.mark.parametrize("kind", ["pipe", "folder", "large", "loop", "another's"])
def test_a_projects_file_that_cannot_be_used_is_not_taken_for_no_restriction(places: InstallPaths, kind: str) -> None:
    if kind == "another's" and os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    path = places.other / ".claude" / "settings.json"
    unreadable(path, kind)
    for read in (places.settings, places.swept):
        with pytest.raises(ConfigError, match=f"cannot use {path}: "):
            read(places.other)


def unreadable(path: Path, kind: str) -> None:
    """Put something that is no settings file in its place; none may hold anybody up."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "large":
            path.write_text(json.dumps({"x": "y" * (1 << 20)}))
        case "loop":
            path.symlink_to(path)
        case _:
            path.write_text("{}")
            os.chown(path, 12345, -1)


def test_only_variables_of_ours_are_taken_from_settings_files(places: InstallPaths) -> None:
    places.user(CC_TRACE_TAGS="a", PATH="/evil", AWS_REGION="x")
    assert env_layer(places.home / ".claude" / "settings.json").values == {"CC_TRACE_TAGS": "a"}


def test_options_of_the_plugin_in_the_users_settings_hold_in_a_shell_too(places: InstallPaths) -> None:
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
def test_a_secret_option_of_the_plugin_is_no_stronger_than_the_others(places: InstallPaths, *, theirs: bool) -> None:
    """Claude Code tells it to hooks only: a key of the plugin does not go to an address that was set later."""
    new = {"CC_TRACE_OTLP_ENDPOINT": "https://new", "CC_TRACE_OTLP_HEADERS": "authorization=new"}
    places.user(**new)
    sources = places.sources(
        from_hook=True,
        CLAUDE_PROJECT_DIR=str(places.mine),
        CLAUDE_PLUGIN_OPTION_OTLP_ENDPOINT="https://old",
        CLAUDE_PLUGIN_OPTION_OTLP_HEADERS="authorization=old",
        CLAUDE_PLUGIN_OPTION_USER_ID="me",
        **new,
    )
    settings = sources.settings(places.other) if theirs else sources.settings(places.mine, sources.hook_environment())
    assert settings.text("otlp_endpoint") == "https://new"
    assert settings.pairs("otlp_headers") == {"authorization": "new"}
    assert settings.text("user_id") == "me"


@pytest.mark.parametrize(
    ("address", "key"),
    [("CC_TRACE_OTLP_ENDPOINT", "CC_TRACE_OTLP_HEADERS"), ("CC_LANGFUSE_BASE_URL", "CC_LANGFUSE_SECRET_KEY")],
)
def test_a_users_key_is_not_sent_to_an_address_of_a_project(places: InstallPaths, address: str, key: str) -> None:
    """Whoever wrote the project's settings would get it. With a key of the project's own it is the project's affair."""
    keys = {key: "a=secret", "CC_LANGFUSE_PUBLIC_KEY": "pk"}
    places.project(places.mine, **{address: "http://project"})
    names = "otlp" if "OTLP" in address else "langfuse"

    def endpoint(**environment: str) -> str | None:
        environment |= {"CLAUDE_PROJECT_DIR": str(places.mine), "CC_TRACE_DESTINATIONS": names}
        settings = places.settings(places.mine, from_hook=True, **environment)
        return read_config(settings, places.home, places.home).destinations[0].endpoint

    with pytest.raises(ConfigError, match=f"{address} (is set )?in .*: a key is sent only to") as caught:
        endpoint(**keys, **{address: "http://project"})
    assert "secret" not in str(caught.value).replace("SECRET", "")
    places.project(places.mine, **{address: "http://project"}, **keys)
    assert endpoint(**keys, **{address: "http://project"}) == "http://project"


def test_a_project_does_not_choose_programs_files_or_certificates(places: InstallPaths) -> None:
    """In its own hook, too; and nobody is shown the user's certificate at a project's address."""
    places.file('otlp_ca_file = "/ca"\notlp_cert_file = "/cert"\notlp_key_file = "/key"\n')
    theirs = {
        "CC_TRACE_OTLP_ENDPOINT": "https://project",
        "CC_TRACE_OTLP_CA_FILE": "/evil",
        "CC_TRACE_FILE": "/evil",
        "CC_TRACE_DESTINATIONS": "otlp,file",
    }
    places.project(places.mine, **theirs)
    environment = {"CLAUDE_PROJECT_DIR": str(places.mine)}
    settings = places.settings(places.mine, from_hook=True, **environment, **theirs)
    otlp, file = read_config(settings, Path("/state"), places.home).destinations
    assert (otlp.endpoint, otlp.ca_file, otlp.cert_file, otlp.key_file) == ("https://project", Path("/ca"), None, None)
    assert file.path == Path("/state/traces.jsonl")
    settings = places.settings(
        places.mine, from_hook=True, **environment, **theirs | {"CC_TRACE_DESTINATIONS": "otel:x"}
    )
    with pytest.raises(ConfigError, match="names 'otel:x': a project may not"):
        read_config(settings, places.home, places.home)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{,}", "is not valid JSON"), ("[" * 100_000, "is not valid JSON"), ('{"env": 1}', None), ("[]", None)],
)
def test_a_settings_file_that_cannot_be_read_is_named(places: InstallPaths, text: str, message: str | None) -> None:
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


def test_a_file_that_is_no_toml_is_named_with_its_position(places: InstallPaths) -> None:
    places.file("content = \n")
    with pytest.raises(ConfigError, match=r"config\.toml is not valid TOML: .*line 1, column"):
        places.content(None)


def test_values_of_all_types_are_taken(places: InstallPaths) -> None:
    """TOML has lists, tables, numbers and booleans; so have settings files."""
    places.file('tags = ["a", "b"]\nmax_chars = 5\nenabled = false\n[resource_attributes]\nteam = "x"\n')
    settings = places.settings(None)
    assert settings.names("tags") == ["a", "b"]
    assert settings.number("max_chars") == 5
    assert settings.flag("enabled") is False
    assert settings.pairs("resource_attributes") == {"team": "x"}
