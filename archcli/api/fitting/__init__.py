"""Parts of `archcli fit` in Python: its question, and this machine."""
