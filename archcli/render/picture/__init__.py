"""Pictures of a profile: shares and roofline as SVG, as HTML with a table, or as PNG (extra `plot`).

All are drawn from the document that `archcli profile --json` prints, and from nothing else.
"""

from archcli.render.picture.files import check_picture, save

__all__ = ["check_picture", "save"]
