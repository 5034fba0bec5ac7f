"""All settings: their names, allowed values, and who may set them."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from cc_trace.export import LANGFUSE_CLOUD

Kind: TypeAlias = Literal["text", "flag", "number", "names", "lines", "pairs", "url"]


ProjectUse: TypeAlias = Literal["ignored", "restriction", "value"]


OPTION: Final = "CLAUDE_PLUGIN_OPTION_"  # prefix of the variables that pass a plugin's options to its hooks


class Setting(NamedTuple):
    """One setting. `name` is its key in config.toml. In each layer the first of `variables` that is set counts."""

    name: str
    about: str
    kind: Kind = "text"
    default: str | None = None
    allowed: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # other tools' variables with the same meaning; after our own
    priority_aliases: tuple[str, ...] = ()  # such variables that take precedence over ours
    variable_name: str | None = None  # our variable, if it is not CC_TRACE_NAME
    secret: bool = False
    # Its variables may be meant for another program: all other places go before them.
    low_priority: bool = False
    hook_only: bool = False  # read by the hook itself, before any configuration: only a variable can set it
    # What a project may do with it. `value`: set it, through the environment that Claude Code gives to its own hook;
    # `restriction`: only make it stricter than the user's, also in its files; `ignored`: nothing.
    in_project: ProjectUse = "ignored"

    @property
    def variable(self) -> str:
        """Return the variable to show in messages."""
        return self.variable_name or f"CC_TRACE_{self.name.upper()}"

    @property
    def variables(self) -> tuple[str, ...]:
        """Return all variables that set it, the strongest first."""
        return (*self.priority_aliases, self.variable, *self.aliases, f"{OPTION}{self.name.upper()}")


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "enabled",
        "`false` turns tracing off; sessions used in the meantime are suppressed",
        "flag",
        "true",
        in_project="restriction",
    ),
    Setting(
        "exclude",
        "folders, with their subfolders, whose sessions are not traced; `*` and `~` are expanded",
        "names",
        in_project="restriction",
    ),
    Setting(
        "destinations",
        "`local`, `otlp`, `langfuse`, `file`, `otel:NAME`; by default those that are configured, else `local`",
        "names",
        in_project="value",
    ),
    Setting("otlp_endpoint", "OTLP endpoint, such as http://localhost:4318", "url", in_project="value"),
    Setting(
        "otlp_protocol",
        "`http/protobuf`, `http/json`, or `grpc` (needs the `grpc` extra)",
        default="http/protobuf",
        allowed=("http/protobuf", "http/json", "grpc"),
        in_project="value",
    ),
    Setting(
        "otlp_headers",
        "headers sent with every request, as `key=value` pairs separated by commas",
        "pairs",
        secret=True,
        in_project="value",
    ),
    Setting(
        "otlp_profile",
        "attribute names to use: `otel`, `openinference` (Phoenix, Arize), `mlflow` or `langfuse`",
        default="otel",
        allowed=("otel", "openinference", "mlflow", "langfuse"),
        in_project="value",
    ),
    Setting(
        "metrics",
        "`on` also sends metrics of new responses to the OTLP endpoint",
        default="off",
        allowed=("on", "off"),
    ),
    Setting(
        "metrics_temporality",
        "`delta` counts since the last request, `cumulative` since the start of the session",
        default="delta",
        allowed=("delta", "cumulative"),
    ),
    Setting("otlp_ca_file", "file with the CA certificates to trust"),
    Setting("otlp_cert_file", "file with the client certificate"),
    Setting("otlp_key_file", "file with the private key of the client certificate"),
    Setting(
        "langfuse_public_key",
        "Langfuse public key",
        priority_aliases=("CC_LANGFUSE_PUBLIC_KEY",),
        variable_name="LANGFUSE_PUBLIC_KEY",
        secret=True,
        low_priority=True,
        in_project="value",
    ),
    Setting(
        "langfuse_secret_key",
        "Langfuse secret key",
        priority_aliases=("CC_LANGFUSE_SECRET_KEY",),
        variable_name="LANGFUSE_SECRET_KEY",
        secret=True,
        low_priority=True,
        in_project="value",
    ),
    Setting(
        "langfuse_base_url",
        "URL of the Langfuse server",
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
        "whether Langfuse is a destination; `LANGFUSE_*` alone do not make it one, as they may be your own app's",
        "flag",
        variable_name="TRACE_TO_LANGFUSE",
        in_project="value",
    ),
    Setting(
        "langfuse_media",
        'upload images and PDFs to Langfuse; only with `content = "full"`',
        "flag",
        "true",
    ),
    Setting(
        "langfuse_cost",
        "who prices responses: `server`, `local` (cc-trace), or `missing` (cc-trace where the server has no price)",
        default="missing",
        allowed=("server", "local", "missing"),
    ),
    Setting(
        "langfuse_scores",
        "add scores to each turn in Langfuse, such as its tool error rate and cache hit rate",
        "flag",
        "false",
    ),
    Setting("file", "file to append OTLP JSON Lines to, one request per line"),
    Setting("timeout_seconds", "timeout of one request", "number", "10"),
    Setting(
        "content",
        "how much is sent: `full`, `no-tool-content` (no input or output of tools and agents), `metadata` (no text)",
        default="full",
        allowed=("full", "no-tool-content", "metadata"),
        in_project="restriction",
    ),
    Setting(
        "request_content",
        "the input of a generation: `none` (just what it answers), `new` (the messages its request added) or `full`"
        ' (the whole request); needs `content = "full"`',
        default="none",
        allowed=("full", "new", "none"),
        in_project="restriction",
    ),
    Setting(
        "mask",
        "regular expressions for your own secrets, one per line; a group named `secret` limits what is masked",
        "lines",
        in_project="restriction",
    ),
    Setting(
        "max_chars",
        "longer texts are cut, with a marker; `0`: never",
        "number",
        "100000",
        aliases=("CC_LANGFUSE_MAX_CHARS",),
        in_project="value",
    ),
    Setting("user_id", "user ID added to every span", aliases=("LANGFUSE_USER_ID",), in_project="value"),
    Setting("tags", "tags added to every trace", "names", in_project="value"),
    Setting(
        "environment",
        "deployment environment, such as `production`",
        aliases=("LANGFUSE_TRACING_ENVIRONMENT",),
        in_project="value",
    ),
    Setting("release", "release or version of your project", aliases=("LANGFUSE_RELEASE",), in_project="value"),
    Setting("resource_attributes", "extra resource attributes, such as `team=blue`", "pairs", in_project="value"),
    Setting(
        "seed",
        "the trace id of turn N becomes the first 16 bytes of SHA-256 of `SEED:N`; use one seed per session",
        aliases=("CC_LANGFUSE_TRACE_SEED",),
        in_project="value",
    ),
    Setting(
        "traceparent",
        "an existing span to use as the parent of all turns (W3C `traceparent`)",
        aliases=("CC_LANGFUSE_TRACEPARENT",),
        in_project="value",
    ),
    Setting(
        "rest_seconds",
        "a session that no hook reported counts as finished after this long without a change",
        "number",
        "300",
        in_project="value",
    ),
    Setting(
        "unclear_seconds",
        "how long to wait, after a request to Langfuse got no response, before its spans may be sent again",
        "number",
        "60",
    ),
    Setting(
        "workers",
        "how many background workers may run at once on this machine",
        "number",
        "3",
    ),
    Setting(
        "state_days",
        "days to keep the state of a delivered session after its transcript is deleted; `0`: forever",
        "number",
        "30",
    ),
    Setting(
        "store",
        "`false` keeps sessions out of the local store, unless `local` is one of their destinations",
        "flag",
        "true",
        in_project="restriction",
    ),
    Setting(
        "store_days",
        "days to keep traces in the local store; `0`: forever",
        "number",
        "0",
    ),
    Setting(
        "debug", "log every step, for debugging", "flag", "false", aliases=("CC_LANGFUSE_DEBUG",), in_project="value"
    ),
    Setting("home", "the state folder", default="state/cc-trace in Claude Code's folder", hook_only=True),
    Setting("wait", "`1`: the hook waits for delivery; `0`: it never waits, not even in CI", "flag", hook_only=True),
    Setting("wait_seconds", "how long the hook waits for delivery", "number", "10", hook_only=True),
    Setting("python", "the Python interpreter the hook starts", hook_only=True),
)


BY_NAME: Final = {setting.name: setting for setting in SETTINGS}
