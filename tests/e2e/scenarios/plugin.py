"""cc-trace as a plugin: the repository is one."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from installed import copy_of_project
from scenario import scenario
from script import HttpResponse
from shared import ROOT

if TYPE_CHECKING:
    from stage import Stage


@scenario()
def plugin_folder(stage: Stage) -> None:
    """Loaded from its folder, and told where to send by its options."""
    options = {"destinations": "otlp", "otlp_endpoint": stage.sink.url}
    stage.home.settings["env"] = {"CC_TRACE_PYTHON": sys.executable}
    stage.home.settings["pluginConfigs"] = {"cc-trace@inline": {"options": options}}
    stage.furnish(hook=False)
    stage.script(hello=[HttpResponse("Hello.")])
    stage.ask("[[hello]] say hello", "--plugin-dir", str(ROOT))


@scenario()
def registered_twice(stage: Stage) -> None:
    """In the settings and as a plugin: a turn is still delivered once."""
    stage.home.settings["env"]["CC_TRACE_PYTHON"] = sys.executable
    stage.script(t1=[HttpResponse("Answer one.")], t2=[HttpResponse("Answer two.")])
    stage.ask("[[t1]] one", "--plugin-dir", str(ROOT))
    stage.ask("[[t2]] two", "--plugin-dir", str(ROOT), "--continue", session=None)


@scenario()
def plugin_of_a_marketplace(stage: Stage) -> None:
    """Installed by `claude plugin` from a checkout in which an environment and caches are: it copies what it needs."""
    stage.home.settings["env"]["CC_TRACE_PYTHON"] = sys.executable
    stage.furnish(hook=False)
    checkout = copy_of_project(stage.home.folder / "checkout")
    shutil.copytree(ROOT / "plugin", checkout / "plugin", symlinks=True)
    for name in (".venv/lib", ".git", ".mypy_cache", "tests", "dist"):
        (checkout / name).mkdir(parents=True)
        (checkout / name / "large").write_bytes(bytes(1_000_000))
    stage.claude("plugin", "marketplace", "add", str(checkout))
    stage.claude("plugin", "install", "cc-trace@cc-trace")
    [[installed]] = json.loads((stage.home.config / "plugins" / "installed_plugins.json").read_text())[
        "plugins"
    ].values()
    copied = Path(installed["installPath"])
    assert {path.name for path in copied.iterdir()} == {path.name for path in (ROOT / "plugin").iterdir()}
    assert [path for path in copied.rglob("*") if path.name == "large" or path.is_symlink()] == []
    stage.script(hello=[HttpResponse("Hello.")])
    stage.ask("[[hello]] say hello")
