"""`archcli plot`: a saved profile as a picture."""

from __future__ import annotations

from pathlib import Path

from archcli.commands.line.options import Json, asking
from archcli.commands.line.written import check_apart, say_written
from archcli.wings.running.api.plot import PlotOptions, plot


@asking(PlotOptions)
def run(options: PlotOptions, *, as_json: Json = False) -> None:
    """Draw a saved profile as SVG, HTML or PNG.

    Of a model the picture shows the shares of FLOPs, bytes and time by class of operation, and a roofline of
    the operators. Of a program or a module it shows the time by class of operation and by module.
    """
    check_apart(Path(options.output), as_json=as_json)
    output = plot(options.profile, options.output)
    say_written("plot", [Path(options.profile).name], {"profile": options.profile}, output, as_json=as_json)
