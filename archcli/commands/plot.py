"""`archcli plot`: a saved profile as a picture."""

from __future__ import annotations

from archcli.api.plot import PlotOptions, plot
from archcli.commands.line.options import asking
from archcli.errors import sanitize
from archcli.render.write import descriptor, tell


@asking(PlotOptions)
def run(options: PlotOptions) -> None:
    """Draw a saved profile as SVG, HTML or PNG.

    The picture shows the shares of FLOPs, bytes and time by class of operation, and a roofline of the
    operators.
    """
    output = plot(options.profile, options.output)
    if descriptor(output) is None:
        tell(sanitize(str(output)))
