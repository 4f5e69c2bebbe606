"""`mainstay`: one command for each thing that can be run or asked."""

import sys

import click

import mainstay
from mainstay.cli.exits import Exit


class Commands(click.Group):
    """Each command is imported when it is asked for: a server needs no NumPy, and starts and fits without it."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [
            "agent",
            "apply",
            "blame",
            "completion",
            "controllers",
            "coupling",
            "debug",
            "delete",
            "diff",
            "down",
            "get",
            "hold",
            "logs",
            "plan",
            "record",
            "release",
            "replay",
            "scheduler",
            "server",
            "sim",
            "status",
            "timeline",
            "up",
            "why",
        ]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        match name:
            case "agent":
                from mainstay.cli.agent import agent

                return agent
            case "apply":
                from mainstay.cli.apply import apply

                return apply
            case "blame":
                from mainstay.cli.blame import blame

                return blame
            case "completion":
                from mainstay.cli.completion import completion

                return completion
            case "controllers":
                from mainstay.cli.controllers import controllers

                return controllers
            case "coupling":
                from mainstay.cli.coupling import coupling

                return coupling
            case "debug":
                from mainstay.cli.debug import debug

                return debug
            case "delete":
                from mainstay.cli.delete import delete

                return delete
            case "diff":
                from mainstay.cli.diff import diff

                return diff
            case "down":
                from mainstay.cli.down import down

                return down
            case "get":
                from mainstay.cli.get import get

                return get
            case "hold":
                from mainstay.cli.hold import hold

                return hold
            case "logs":
                from mainstay.cli.logs import logs

                return logs
            case "plan":
                from mainstay.cli.plan import plan

                return plan
            case "record":
                from mainstay.cli.record import record

                return record
            case "release":
                from mainstay.cli.release import release

                return release
            case "replay":
                from mainstay.cli.replay import replay

                return replay
            case "scheduler":
                from mainstay.cli.scheduler import scheduler

                return scheduler
            case "server":
                from mainstay.cli.server import server

                return server
            case "sim":
                from mainstay.cli.sim import sim

                return sim
            case "status":
                from mainstay.cli.status import status

                return status
            case "timeline":
                from mainstay.cli.timeline import timeline

                return timeline
            case "up":
                from mainstay.cli.up import up

                return up
            case "why":
                from mainstay.cli.why import why

                return why
        return None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mainstay.__version__, prog_name="mainstay")
def cli() -> None:
    """A control plane that speaks the Kubernetes API, explains every decision, and can run any incident again."""


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line. Returns the exit code; errors are on standard error."""
    try:
        code = cli.main(arguments, prog_name="mainstay", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return Exit.USAGE
    except click.ClickException as error:
        click.echo(f"mainstay: {error.format_message()}", err=True)
        return Exit.ERROR
    except click.Abort:
        click.echo("mainstay: interrupted", err=True)
        return Exit.ERROR
    return code if isinstance(code, int) else Exit.SATISFIED


if __name__ == "__main__":
    main()
