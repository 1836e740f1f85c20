"""A profile as a picture: shares and roofs as SVG, with their figures as HTML, or as PNG through the `plot` extra.

All take the document that `--json` prints, and nothing else.
"""

from archcli.render.picture.files import check_suffix, save

__all__ = ["check_suffix", "save"]
