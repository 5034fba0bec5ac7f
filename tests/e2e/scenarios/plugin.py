"""cc-trace as a plugin: the repository is one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

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
