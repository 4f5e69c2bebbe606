"""`mainstay sim serve`: serve the API of a simulated run at one moment."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstay.cli.exits import Exit
from mainstay.cli.sim.replay import bundle_argument
from mainstay.cli.sim.report import BUNDLE_ENDING, load_bundle, report_errors

if TYPE_CHECKING:
    from mainstay.sim.failure.frozen_server import FrozenState
    from mainstay.sim.run.bundle import RunBundle


@click.command()
@bundle_argument
@click.option(
    "--at",
    default="",
    metavar="TIME",
    help="43s after start, 59.04 on its clock, a time  [default: when it failed]",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="P", help="Port  [default: a free one]")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Kubeconfig to write  [default: NAME.kubeconfig]",
)
def serve(bundle: Path, at: str, port: int, kubeconfig: Path | None) -> int:
    """Serve the API of a run at one moment.

    \b
        mainstay sim serve sim-failures/one-delivery-3.run.json
        mainstay sim serve sim-failures/one-delivery-3.run.json --at 43s --port 6500

    Replays the run up to that moment and stops its time. kubectl and `mainstay why` can read everything, also the past;
    nothing can be written. Press Ctrl-C to stop.
    """
    from mainstay.env import tasks

    beside = bundle.with_name(f"{bundle.name.removesuffix(BUNDLE_ENDING)}.kubeconfig")
    path = (kubeconfig or beside).absolute()
    with report_errors():
        from mainstay.sim.failure.frozen_server import freeze_at

        kept = load_bundle(bundle)
        frozen = freeze_at(kept, at)
        for line in _describe(kept, frozen):
            click.echo(line)
        try:
            tasks.run(_serve(frozen, port, path))
        except OSError as error:
            raise click.ClickException(f"cannot listen on port {port}: {error.strerror or error}") from error
    return Exit.SATISFIED


def _describe(bundle: "RunBundle", frozen: "FrozenState") -> list[str]:
    since = (frozen.at_ns - frozen.began_ns) / 1e9
    lines = [
        f"{bundle.scenario} seed {bundle.seed}, {since:.3f} s after its start"
        f" ({frozen.at_ns / 1e9:.6f} on its clock, {frozen.wall:%Y-%m-%dT%H:%M:%SZ})"
    ]
    if not bundle.has_journal and frozen.result.problem != bundle.result.problem:
        now = f"{frozen.result.verdict}: {frozen.result.problem}" if frozen.result.problem else frozen.result.verdict
        lines.append(f"with a journal the run differs from that of the bundle: {now}")
    return lines


async def _serve(frozen: "FrozenState", port: int, path: Path) -> None:
    from mainstay.env.disk import replace_bytes
    from mainstay.env.signals import StopSignals
    from mainstay.sim.failure.frozen_server import serve_frozen

    signals = StopSignals()
    try:
        async with serve_frozen(frozen, port) as server:
            replace_bytes(path, server.kubeconfig.encode())
            click.echo(f"Serving at {server.url}; time is stopped. Press Ctrl-C to stop")
            click.echo(f"  export KUBECONFIG={path}")
            for command in ("kubectl get all -A", "mainstay why TYPE/NAME", "mainstay timeline TYPE/NAME"):
                click.echo(f"  {command}")
            await signals.first()
    finally:
        signals.close()
