"""Whether Stop hooks besides ours may make the model go on: what can be known of that before they do.

Hooks stand in settings files, in plugins those enable, in what the command line names, in the process of an SDK, and in
the files of skills and agents. The last cannot be known beforehand; wherever else there is a doubt, they may.
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
    if _names_more(environment.get("CLAUDE_PID", "")):
        return True
    own = [] if project is None else project_files(Path(project))
    return any(map(_may_block, (config_dir / "settings.json", *own, *managed)))


def _names_more(pid: str) -> bool:
    """Tell whether Claude Code was started with options that can bring hooks along, where that can be seen."""
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
