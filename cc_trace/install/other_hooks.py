"""Whether Stop hooks besides ours may make the model go on, as far as that can be known in advance.

Hooks come from settings files, the plugins those enable, command line options, the process of an SDK, and the files of
skills and agents. The last cannot be known in advance; in any other case of doubt, the answer is yes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from cc_trace.errors import JsonTextError
from cc_trace.files import read_regular
from cc_trace.install.hooks import has_other_stop_hooks
from cc_trace.settings import project_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MAX_BYTES: Final = 4 << 20
_OWN_ENTRYPOINTS: Final = ("cli", "sdk-cli")  # `claude` and `claude -p`; any other is an SDK's
_OPTIONS: Final = (b"--settings", b"--plugin-dir", b"--plugin-url", b"--agents")


def others_may_block(
    config_dir: Path, project: str | None, managed: Iterable[Path], environment: Mapping[str, str]
) -> bool:
    """Tell whether a session of a project may have other Stop hooks. `environment`: of our own hook in it."""
    if environment.get("CLAUDE_CODE_ENTRYPOINT", "cli") not in _OWN_ENTRYPOINTS:
        return True
    if _has_hook_options(environment.get("CLAUDE_PID", "")):
        return True
    project_settings = [] if project is None else project_files(Path(project))
    return any(map(_may_block, (config_dir / "settings.json", *project_settings, *managed)))


def _has_hook_options(pid: str) -> bool:
    """Tell whether Claude Code was started with options that can add hooks, where the system shows them."""
    if not pid.isdecimal():
        return False
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(argument.partition(b"=")[0] in _OPTIONS for argument in arguments)


def _may_block(path: Path) -> bool:
    try:
        return has_other_stop_hooks(read_regular(path, _MAX_BYTES, any_owner=True).decode())
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError, JsonTextError):
        return True
