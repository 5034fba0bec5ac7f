"""The user's labels, which are on every span at every destination."""

from __future__ import annotations

from dataclasses import dataclass, field

AttributeValue = str | bool | int | float | list[str]


@dataclass(frozen=True, slots=True)
class Labels:
    """Chosen by configuration, the same for all spans of a sync."""

    user_id: str | None = None
    tags: tuple[str, ...] = ()
    environment: str | None = None
    release: str | None = None
    agent_name: str = "claude-code"
    service_name: str = "claude-code"
    resource: dict[str, str] = field(default_factory=dict)  # further resource attributes
