"""`mainstay`: one command for each thing that can be run or asked."""

import sys

import click

from mainstay.cli.exits import Exit
from mainstay.cli.scheduler import scheduler
from mainstay.cli.server import server
from mainstay.cli.sim import sim


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mainstay")
def cli() -> None:
    """A control plane that speaks the Kubernetes API, explains every decision, and can run any incident again."""


cli.add_command(scheduler)
cli.add_command(server)
cli.add_command(sim)


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
