"""The scenarios, each a function that runs it. Importing this registers them all."""

from scenarios import agents, backends, interactive, older, plugin, print_mode, sessions, stopping, time_spent

__all__ = ["agents", "backends", "interactive", "older", "plugin", "print_mode", "sessions", "stopping", "time_spent"]
