"""Configuration: the catalogue of settings, the sources of their values, and the effective values for a project."""

from __future__ import annotations

from cc_trace.settings.catalogue import SETTINGS, Setting
from cc_trace.settings.config import Config, LocalConfig, check_key, read_config, read_local_config, read_scope
from cc_trace.settings.distrust import project_files, remove_distrusted
from cc_trace.settings.lookup import Found, Layer, Settings, checked
from cc_trace.settings.sources import (
    HookEnvironment,
    Sources,
    env_layer,
    project_tables,
    read_toml,
    unknown_keys,
    why_off,
)

__all__ = [
    "SETTINGS",
    "Config",
    "Found",
    "HookEnvironment",
    "Layer",
    "LocalConfig",
    "Setting",
    "Settings",
    "Sources",
    "check_key",
    "checked",
    "env_layer",
    "project_files",
    "project_tables",
    "read_config",
    "read_local_config",
    "read_scope",
    "read_toml",
    "remove_distrusted",
    "unknown_keys",
    "why_off",
]
