"""`holdfast flow …`: checks, draws and runs flow files."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.cli.root import LazyGroup


class FlowGroup(LazyGroup):
    """The commands about flow files."""

    package: str = "holdfast.cli.commands.flow"
    suggestions: Mapping[str, str] = {}
    groups: Mapping[str, Mapping[str, str]] = {
        "Commands": {
            "check": "Check a flow file and report every problem.",
            "run": "Run a flow file and print the result.",
            "batch": "Run a flow file once for each line of a file.",
            "diagram": "Draw a diagram of a flow file.",
            "schema": "Print the JSON Schema of flow files.",
        }
    }


command: FlowGroup = FlowGroup(
    "flow",
    help="Flows: workflows written as YAML or JSON. Check, draw and run their files.",
    epilog="A flow calls steps and workflows of an app: MODULE:APP, or the app that the configuration names.",
)
