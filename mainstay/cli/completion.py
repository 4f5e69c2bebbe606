"""`mainstay completion`: print a shell completion script for commands, options, kinds and names.

The script is click's. The arguments name their completion functions (object_selection.py).
"""

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_MAINSTAY_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a shell completion script.

    \b
        bash:  mainstay completion bash > ~/.local/share/bash-completion/completions/mainstay
        zsh:   mainstay completion zsh > ~/.zfunc/_mainstay    (with ~/.zfunc in $fpath)
        fish:  mainstay completion fish > ~/.config/fish/completions/mainstay.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"no completion for shell {shell!r}: use bash, zsh or fish")
    root = context.find_root()
    click.echo(found(root.command, {}, "mainstay", _VARIABLE).source())
