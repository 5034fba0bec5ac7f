"""cc-trace as a plugin: the repository is one."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from installed import copy_of_project
from scenario import scenario
from script import Reply
from shared import ROOT

if TYPE_CHECKING:
    from sandbox import Sandbox


@scenario()
def plugin_folder(sandbox: Sandbox) -> None:
    """Loaded from its folder, and told where to send by its options."""
    options = {"destinations": "otlp", "otlp_endpoint": sandbox.sink.url}
    sandbox.home.settings["env"] = {"CC_TRACE_PYTHON": sys.executable}
    sandbox.home.settings["pluginConfigs"] = {"cc-trace@inline": {"options": options}}
    sandbox.prepare(hook=False)
    sandbox.script(hello=[Reply("Hello.")])
    sandbox.ask("[[hello]] say hello", "--plugin-dir", str(ROOT))


@scenario()
def registered_twice(sandbox: Sandbox) -> None:
    """In the settings and as a plugin: a turn is still delivered once."""
    sandbox.home.settings["env"]["CC_TRACE_PYTHON"] = sys.executable
    sandbox.script(t1=[Reply("Answer one.")], t2=[Reply("Answer two.")])
    sandbox.ask("[[t1]] one", "--plugin-dir", str(ROOT))
    sandbox.ask("[[t2]] two", "--plugin-dir", str(ROOT), "--continue", session=None)


@scenario()
def plugin_of_a_marketplace(sandbox: Sandbox) -> None:
    """Installed by `claude plugin` from a checkout in which an environment and caches are: it copies what it needs."""
    sandbox.home.settings["env"]["CC_TRACE_PYTHON"] = sys.executable
    sandbox.prepare(hook=False)
    checkout = copy_of_project(sandbox.home.folder / "checkout")
    shutil.copytree(ROOT / "plugin", checkout / "plugin", symlinks=True)
    for name in (".venv/lib", ".git", ".mypy_cache", "tests", "dist"):
        (checkout / name).mkdir(parents=True)
        (checkout / name / "large").write_bytes(bytes(1_000_000))
    sandbox.claude("plugin", "marketplace", "add", str(checkout))
    sandbox.claude("plugin", "install", "cc-trace@cc-trace")
    [[installed]] = json.loads((sandbox.home.config / "plugins" / "installed_plugins.json").read_text())[
        "plugins"
    ].values()
    copied = Path(installed["installPath"])
    assert {path.name for path in copied.iterdir()} == {path.name for path in (ROOT / "plugin").iterdir()}
    assert [path for path in copied.rglob("*") if path.name == "large" or path.is_symlink()] == []
    sandbox.script(hello=[Reply("Hello.")])
    sandbox.ask("[[hello]] say hello")
