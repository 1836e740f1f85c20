"""A server under a load, asked with options of `archcli predict`."""
