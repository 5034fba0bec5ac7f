"""Profiles: a span as name and attributes, in the words of one kind of backend.

Rule: a profile is a pure function of the span and the user's labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from cc_trace import __version__
from cc_trace.export.profiles import langfuse, mlflow, openinference, otel
from cc_trace.export.profiles.labels import AttributeValue, Labels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cc_trace.spans import Span

__all__ = ["PROFILES", "AttributeValue", "Labels", "Profile", "resource", "schema_url"]

Profile: TypeAlias = "Callable[[Span, Labels], tuple[str, dict[str, AttributeValue]]]"

PROFILES: Final[Mapping[str, Profile]] = {
    "otel": otel.attributes,
    "langfuse": langfuse.attributes,
    "openinference": openinference.attributes,
    "mlflow": mlflow.attributes,
}
# Langfuse reads the environment from any of these, and rejects invalid ones.
_ENVIRONMENT: Final = ("deployment.environment.name", "deployment.environment", "langfuse.environment")


def resource(profile: str, labels: Labels) -> dict[str, AttributeValue]:
    """Return the resource attributes, the same for all spans of a request."""
    attributes: dict[str, AttributeValue] = {"service.name": labels.service_name}
    if profile == "langfuse":  # release and environment are on every span, and the scope may have another name
        attributes |= {"telemetry.sdk.name": "cc-trace", "telemetry.sdk.version": __version__}
        return attributes | {key: value for key, value in labels.resource.items() if key not in _ENVIRONMENT}
    if labels.release is not None:
        attributes["service.version"] = labels.release
    if labels.environment is not None:
        attributes["deployment.environment.name"] = labels.environment
    if profile == "openinference":
        attributes["openinference.project.name"] = labels.service_name
    return attributes | labels.resource


def schema_url(profile: str) -> str:
    """Return the schema URL of the conventions that a profile follows, empty if there is none."""
    return otel.SCHEMA_URL if profile == "otel" else ""
