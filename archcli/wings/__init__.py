"""Wings: parts of archcli that plug into its core, and can be left out. See `archcli.plugins`."""
