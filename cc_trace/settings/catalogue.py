"""All settings: their names, what each may be, and who may set it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from cc_trace.export import LANGFUSE_CLOUD

Kind: TypeAlias = Literal["text", "flag", "number", "names", "lines", "pairs", "url"]


ProjectUse: TypeAlias = Literal["ignored", "restriction", "value"]


OPTION: Final = "CLAUDE_PLUGIN_OPTION_"  # how the options of a plugin reach its hooks


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `name` is its key in config.toml; the first of `variables` that is set in a layer counts there."""

    name: str
    about: str
    kind: Kind = "text"
    default: str | None = None
    allowed: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # variables of other tools that mean the same; after our own
    priority_aliases: tuple[str, ...] = ()  # such variables that are taken before the others
    variable_name: str | None = None  # our variable, where it is not CC_TRACE_NAME
    secret: bool = False
    low_priority: bool = (
        False  # our variable and others' may be meant for another program: all other places go before them
    )
    hook_only: bool = False  # the hook itself reads it, before anything is configured: only a variable can set it
    # What a project may do with it. `value`: set it, through the environment that Claude Code gives to its own hook;
    # `restriction`: only let less leave than the user does, in its files too; `ignored`: nothing.
    in_project: ProjectUse = "ignored"

    @property
    def variable(self) -> str:
        """Return the variable that is named in messages."""
        return self.variable_name or f"CC_TRACE_{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Return all variables that set it, the strongest first."""
        return (*self.priority_aliases, self.variable, *self.aliases, f"{OPTION}{self.name.upper()}")


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "enabled",
        "false: nothing is traced; sessions written to meanwhile stay suppressed",
        "flag",
        "true",
        in_project="restriction",
    ),
    Setting(
        "exclude",
        "folders whose sessions are not traced, subfolders included; `*` and `~` are expanded",
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
    Setting(
        "metrics",
        "on: destination otlp also gets metrics of fresh responses, at /v1/metrics",
        default="off",
        allowed=("on", "off"),
    ),
    Setting(
        "metrics_temporality",
        "what a metric says: delta: what was counted since the last one; cumulative: since a session's first response",
        default="delta",
        allowed=("delta", "cumulative"),
    ),
    Setting("otlp_ca_file", "CA certificates to trust"),
    Setting("otlp_cert_file", "client certificate"),
    Setting("otlp_key_file", "private key of the client certificate"),
    Setting(
        "langfuse_public_key",
        "Langfuse's public key",
        priority_aliases=("CC_LANGFUSE_PUBLIC_KEY",),
        variable_name="LANGFUSE_PUBLIC_KEY",
        secret=True,
        low_priority=True,
        in_project="value",
    ),
    Setting(
        "langfuse_secret_key",
        "Langfuse's secret key",
        priority_aliases=("CC_LANGFUSE_SECRET_KEY",),
        variable_name="LANGFUSE_SECRET_KEY",
        secret=True,
        low_priority=True,
        in_project="value",
    ),
    Setting(
        "langfuse_base_url",
        "the address of Langfuse",
        "url",
        default=LANGFUSE_CLOUD,
        priority_aliases=("CC_LANGFUSE_BASE_URL", "CC_LANGFUSE_HOST"),
        variable_name="LANGFUSE_BASE_URL",
        aliases=("LANGFUSE_HOST",),
        low_priority=True,
        in_project="value",
    ),
    Setting(
        "trace_to_langfuse",
        "true: Langfuse is a destination; false: it is not. LANGFUSE_* alone do not: they may be another program's",
        "flag",
        variable_name="TRACE_TO_LANGFUSE",
        in_project="value",
    ),
    Setting(
        "langfuse_media",
        "true: images and PDFs are uploaded to Langfuse and shown in place; only with full content",
        "flag",
        "true",
    ),
    Setting(
        "langfuse_cost",
        "who prices responses in Langfuse: server; local: cc-trace; missing: cc-trace, where the server has no price",
        default="missing",
        allowed=("server", "local", "missing"),
    ),
    Setting(
        "langfuse_scores",
        "true: each turn gets scores, such as its tool error rate and cache hit rate",
        "flag",
        "false",
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
        "request_content",
        "with content full, the input of a response: none: what it answers; new: the messages its request added, as"
        " sent; full: all messages, system prompt and tools",
        default="none",
        allowed=("full", "new", "none"),
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
        aliases=("CC_LANGFUSE_MAX_CHARS",),
        in_project="value",
    ),
    Setting("user_id", "the user, on every span", aliases=("LANGFUSE_USER_ID",), in_project="value"),
    Setting("tags", "tags of every trace", "names", in_project="value"),
    Setting("environment", "deployment environment", aliases=("LANGFUSE_TRACING_ENVIRONMENT",), in_project="value"),
    Setting("release", "release", aliases=("LANGFUSE_RELEASE",), in_project="value"),
    Setting("resource_attributes", "more resource attributes, such as team=blue", "pairs", in_project="value"),
    Setting(
        "seed",
        "the trace id of turn N is the beginning of SHA-256 of `SEED:N`; use one seed per session",
        aliases=("CC_LANGFUSE_TRACE_SEED",),
        in_project="value",
    ),
    Setting(
        "traceparent",
        "an existing span that becomes the parent of the turns",
        aliases=("CC_LANGFUSE_TRACEPARENT",),
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
    Setting(
        "state_days",
        "the state of a delivered session is removed this many days after its transcript is gone; 0: never",
        "number",
        "30",
    ),
    Setting(
        "store",
        "false: the local store has nothing of these sessions, unless `local` is one of the destinations",
        "flag",
        "true",
        in_project="restriction",
    ),
    Setting(
        "store_days",
        "traces in the local store are deleted this many days after they ended; 0: never",
        "number",
        "0",
    ),
    Setting("debug", "log every step", "flag", "false", aliases=("CC_LANGFUSE_DEBUG",), in_project="value"),
    Setting("home", "the state folder", default="state/cc-trace below Claude Code's folder", hook_only=True),
    Setting("wait", "1: the hook waits for the worker; 0: never, also in CI", "flag", hook_only=True),
    Setting("wait_seconds", "how long the hook waits", "number", "10", hook_only=True),
    Setting("python", "the Python that the hook starts", hook_only=True),
)


BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
