"""`mainstay sim serve`: look around in a run while its time stands still."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstay.cli.exits import Exit
from mainstay.cli.sim.replay import bundle_argument
from mainstay.cli.sim.report import BUNDLE_ENDING, opened_bundle, said_errors
from mainstay.env import tasks
from mainstay.env.disk import replace_bytes
from mainstay.env.signals import StopSignals

if TYPE_CHECKING:
    from mainstay.sim.failure.frozen_server import FrozenState
    from mainstay.sim.run.bundle import RunBundle


@click.command()
@bundle_argument
@click.option(
    "--at",
    default="",
    metavar="TIME",
    help="43s after the work began, 59.04 on the run's clock, as its story says, or a time.  [default: when it failed]",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="P", help="If absent: any free one.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write how to reach it.  [default: beside the bundle, as NAME.kubeconfig]",
)
def serve(bundle: Path, at: str, port: int, kubeconfig: Path | None) -> int:
    """Serve the API of a run, while its time stands still, for kubectl and `mainstay why`.

    \b
        mainstay sim serve sim-failures/one-delivery-3.run.json
        mainstay sim serve sim-failures/one-delivery-3.run.json --at 43s --port 6500

    The run is made again up to that moment. Everything can be read, also as it was before; nothing can be written, and
    nothing happens. Ends with Ctrl-C.
    """
    beside = bundle.with_name(f"{bundle.name.removesuffix(BUNDLE_ENDING)}.kubeconfig")
    path = (kubeconfig or beside).absolute()
    with said_errors():
        from mainstay.sim.failure.frozen_server import freeze_at

        kept = opened_bundle(bundle)
        frozen = freeze_at(kept, at)
        for line in _what_it_is(kept, frozen):
            click.echo(line)
        try:
            tasks.run(_serve(frozen, port, path))
        except OSError as error:
            raise click.ClickException(f"cannot listen on port {port}: {error.strerror or error}") from error
    return Exit.SATISFIED


def _what_it_is(bundle: "RunBundle", frozen: "FrozenState") -> list[str]:
    since = (frozen.at_ns - frozen.began_ns) / 1e9
    lines = [
        f"{bundle.scenario} seed {bundle.seed}, {since:.3f} s after its beginning"
        f" ({frozen.at_ns / 1e9:.6f} on its clock, {frozen.wall:%Y-%m-%dT%H:%M:%SZ})"
    ]
    if not bundle.has_journal and frozen.result.problem != bundle.result.problem:
        now = f"{frozen.result.verdict}: {frozen.result.problem}" if frozen.result.problem else frozen.result.verdict
        lines.append(f"with a journal kept it is another run than that of the bundle: {now}")
    return lines


async def _serve(frozen: "FrozenState", port: int, path: Path) -> None:
    from mainstay.sim.failure.frozen_server import serve_frozen

    signals = StopSignals()
    try:
        async with serve_frozen(frozen, port) as server:
            replace_bytes(path, server.kubeconfig.encode())
            click.echo(f"serving at {server.url}, while time stands still. Ctrl-C ends it.")
            click.echo(f"  export KUBECONFIG={path}")
            for command in ("kubectl get all -A", "mainstay why TYPE/NAME", "mainstay timeline TYPE/NAME"):
                click.echo(f"  {command}")
            await signals.first()
    finally:
        signals.close()
