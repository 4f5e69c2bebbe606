"""`mainstay`: one command for each thing that can be run or asked."""

import sys

import click

from mainstay.cli.exits import Exit


class Commands(click.Group):
    """Each command is imported when it is asked for: a server needs no NumPy, and starts and fits without it."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [
            "agent",
            "apply",
            "completion",
            "controllers",
            "delete",
            "down",
            "get",
            "logs",
            "scheduler",
            "server",
            "sim",
            "status",
            "up",
        ]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        match name:
            case "agent":
                from mainstay.cli.agent import agent

                return agent
            case "apply":
                from mainstay.cli.apply import apply

                return apply
            case "completion":
                from mainstay.cli.completion import completion

                return completion
            case "controllers":
                from mainstay.cli.controllers import controllers

                return controllers
            case "delete":
                from mainstay.cli.delete import delete

                return delete
            case "down":
                from mainstay.cli.down import down

                return down
            case "get":
                from mainstay.cli.get import get

                return get
            case "logs":
                from mainstay.cli.logs_of import logs

                return logs
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
            case "up":
                from mainstay.cli.up import up

                return up
        return None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mainstay")
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
