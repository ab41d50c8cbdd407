"""`holdfast completion`: prints the script with which a shell completes commands and options."""

from __future__ import annotations

import click

from holdfast.cli.output import Output
from holdfast.cli.root import COMPLETION_VARIABLE, HoldfastCommand, root

_ADVICE = {
    "bash": 'eval "$(holdfast completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(holdfast completion zsh)"    # in ~/.zshrc',
    "fish": "holdfast completion fish | source   # in ~/.config/fish/config.fish",
}


@click.command("completion", cls=HoldfastCommand)
@click.argument("shell", type=click.Choice(list(_ADVICE)))
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(shell: str, is_json: bool) -> None:
    """Print the script that makes a shell complete commands and options.

    \b
      bash   eval "$(holdfast completion bash)"
      zsh    eval "$(holdfast completion zsh)"
      fish   holdfast completion fish | source
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(root, {}, "holdfast", COMPLETION_VARIABLE)
    script = completion.source_template % completion.source_vars()
    out = Output(is_json=is_json)
    if is_json:
        out.record({"shell": shell, "script": script, "use": _ADVICE[shell]})
    else:
        click.echo(script)
