"""Configuration: the catalogue of settings, the sources of their values, and the effective values for a project.

`Sources.settings` collects the layers that apply to a project, and `read_config` checks them and returns a `Config`. A
wrong value is an error, never a default. A project can make some settings stricter; which of them it can set at all is
in the catalogue.
"""

from __future__ import annotations

from cc_trace.settings.catalogue import SETTINGS, Setting
from cc_trace.settings.config import Config, LocalConfig, check_key, read_config, read_local_config, read_scope
from cc_trace.settings.distrust import project_files, remove_distrusted
from cc_trace.settings.lookup import Layer, Settings, SettingValue, toml_value
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
    "HookEnvironment",
    "Layer",
    "LocalConfig",
    "Setting",
    "SettingValue",
    "Settings",
    "Sources",
    "check_key",
    "env_layer",
    "project_files",
    "project_tables",
    "read_config",
    "read_local_config",
    "read_scope",
    "read_toml",
    "remove_distrusted",
    "toml_value",
    "unknown_keys",
    "why_off",
]
