"""Registers the hook in Claude Code's settings, tries it out, and removes it.

settings.json is never left half-written, and `uninstall` removes exactly what was installed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.install.hooks import EVENTS, Registration, plugins, registered
    from cc_trace.install.installation import (
        HOOK,
        Installed,
        InstallPaths,
        find_install_paths,
        forget_settings,
        install,
        own_python,
        recorded_paths,
        refuse_throw_away,
        registered_command,
    )
    from cc_trace.install.other_hooks import others_may_block
    from cc_trace.install.removal import purge, remove_files
    from cc_trace.install.self_check import check_hook
    from cc_trace.install.settings_file import read_settings, unregister
    from cc_trace.install.settings_text import parse_settings

__all__ = [
    "EVENTS",
    "HOOK",
    "InstallPaths",
    "Installed",
    "Registration",
    "check_hook",
    "find_install_paths",
    "forget_settings",
    "install",
    "others_may_block",
    "own_python",
    "parse_settings",
    "plugins",
    "purge",
    "read_settings",
    "recorded_paths",
    "refuse_throw_away",
    "registered",
    "registered_command",
    "remove_files",
    "unregister",
]

# Loaded when first used: what a command does not need, it does not wait for.
_MODULES: Final = {
    "EVENTS": "hooks",
    "HOOK": "installation",
    "Installed": "installation",
    "InstallPaths": "installation",
    "Registration": "hooks",
    "check_hook": "self_check",
    "find_install_paths": "installation",
    "forget_settings": "installation",
    "install": "installation",
    "recorded_paths": "installation",
    "others_may_block": "other_hooks",
    "own_python": "installation",
    "parse_settings": "settings_text",
    "refuse_throw_away": "installation",
    "plugins": "hooks",
    "purge": "removal",
    "read_settings": "settings_file",
    "registered": "hooks",
    "registered_command": "installation",
    "remove_files": "removal",
    "unregister": "settings_file",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
