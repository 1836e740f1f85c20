"""Pictures of a profile, of memory and of a prediction: as SVG, as HTML, or as PNG (extra `plot`).

That of a profile has shares, a roofline and in HTML a table; it is drawn from the document that
`archcli profile --json` prints, and from nothing else.
"""

from archcli.wings.drawing.picture.files import check_picture, save

__all__ = ["check_picture", "save"]
