"""The drawing of an architecture, to scale: `archcli draw`."""
