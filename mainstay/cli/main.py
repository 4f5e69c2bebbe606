"""`mainstay`: the command line.

`COMMANDS` is the table of commands. What goes wrong comes out of them as `click.ClickException`; `run` prints it in one
form (`mainstay: what is wrong`, on standard error) and returns the exit code.
"""

import sys
from typing import Final, TextIO, cast

import click

from mainstay.cli.closed_pipe import PipeOutput
from mainstay.cli.exits import Exit
from mainstay.cli.lazy_group import CommandEntry, LazyGroup

COMMANDS: Final = (
    CommandEntry("Cluster", "up", "Start a cluster on this machine", "mainstay.cli.up:up"),
    CommandEntry("Cluster", "down", "Stop the cluster and its workloads", "mainstay.cli.down:down"),
    CommandEntry("Cluster", "status", "Show what runs and what is ready", "mainstay.cli.status:status"),
    CommandEntry("Cluster", "top", "Show the load of the control plane", "mainstay.cli.top:top"),
    CommandEntry("Cluster", "backup", "Save a backup of all objects", "mainstay.cli.backup:backup"),
    CommandEntry("Cluster", "restore", "Restore a backup", "mainstay.cli.restore:restore"),
    CommandEntry("Cluster", "store", "Check and repair a store", "mainstay.cli.store:store"),
    CommandEntry("Cluster", "completion", "Print a shell completion script", "mainstay.cli.completion:completion"),
    CommandEntry("Fleet", "token", "Manage the tokens that machines join with", "mainstay.cli.token:token"),
    CommandEntry("Fleet", "node", "Drain nodes, and remove them", "mainstay.cli.node:node"),
    CommandEntry("Fleet", "credential", "Revoke client certificates", "mainstay.cli.credential:credential"),
    CommandEntry("Objects", "get", "Show objects, now or at an earlier time", "mainstay.cli.get:get"),
    CommandEntry("Objects", "apply", "Apply manifests", "mainstay.cli.apply:apply"),
    CommandEntry("Objects", "delete", "Delete objects and wait for the deletion", "mainstay.cli.delete:delete"),
    CommandEntry("Objects", "logs", "Print container logs", "mainstay.cli.logs:logs"),
    CommandEntry("Explain", "why", "Explain the state of an object", "mainstay.cli.why:why"),
    CommandEntry("Explain", "timeline", "Show what happened to an object", "mainstay.cli.timeline:timeline"),
    CommandEntry("Explain", "blame", "Show who last set each field", "mainstay.cli.blame:blame"),
    CommandEntry("Explain", "diff", "Compare the cluster at two times", "mainstay.cli.diff:diff"),
    CommandEntry("Explain", "debug", "Diagnose a workload from all signals", "mainstay.cli.debug:debug"),
    CommandEntry("Explain", "coupling", "Show who can change a decision's inputs", "mainstay.cli.coupling:coupling"),
    CommandEntry("Explain", "plan", "Predict the effect of applying manifests", "mainstay.cli.plan:plan"),
    CommandEntry("Incident", "record", "Export an incident bundle", "mainstay.cli.record:record"),
    CommandEntry("Incident", "replay", "Replay recorded decisions and compare", "mainstay.cli.replay:replay"),
    CommandEntry("Incident", "hold", "Pause a controller, evictions or a rollout", "mainstay.cli.hold:hold"),
    CommandEntry("Incident", "release", "Release a hold early", "mainstay.cli.release:release"),
    CommandEntry("Test", "sim", "Simulate clusters and inject faults", "mainstay.cli.sim:sim"),
    CommandEntry("Components", "server", "Run an API server", "mainstay.cli.server:server"),
    CommandEntry("Components", "scheduler", "Run a scheduler", "mainstay.cli.scheduler:scheduler"),
    CommandEntry("Components", "controllers", "Run the controllers", "mainstay.cli.controllers:controllers"),
    CommandEntry("Components", "agent", "Run a node", "mainstay.cli.agent:agent"),
)


def _show_version(context: click.Context, param: click.Parameter, is_asked: bool) -> None:
    if is_asked and not context.resilient_parsing:
        from mainstay.env.build import build

        version, _, digest = build().partition("+")
        python = ".".join(map(str, sys.version_info[:3]))
        click.echo(f"mainstay {version} (build {digest}, Python {python})")
        context.exit()


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show version and build"
)
def cli() -> None:
    """Run clusters that explain their decisions.

    A control plane that speaks the Kubernetes API: it records every decision and can replay any incident.

    \b
    Start with:
        mainstay up --detach
        mainstay get nodes
        mainstay COMMAND --help
    """


def main() -> None:
    """Run the command line and exit."""
    sys.stdout = cast("TextIO", PipeOutput(sys.stdout))
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line. Returns the exit code; errors are on standard error."""
    try:
        code = cli.main(arguments, prog_name="mainstay", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return Exit.USAGE
    except click.UsageError as error:
        click.echo(f"mainstay: {_in_house_form(error.format_message())}", err=True)
        path = error.ctx.command_path if error.ctx is not None else "mainstay"
        click.echo(f"See '{path} --help' for usage and examples.", err=True)
        return Exit.USAGE
    except click.ClickException as error:
        click.echo(f"mainstay: {error.format_message()}", err=True)
        return Exit.ERROR
    except click.Abort:
        click.echo("mainstay: interrupted", err=True)
        return Exit.ERROR
    return code if isinstance(code, int) else Exit.SATISFIED


def _in_house_form(message: str) -> str:
    """Click's own messages begin with a capital and end with a period; ours do neither."""
    message = message.removesuffix(".")
    return message if message[:2].isupper() else message[:1].lower() + message[1:]


if __name__ == "__main__":
    main()
