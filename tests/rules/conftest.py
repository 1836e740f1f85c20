"""Rules are run through the command line, too."""

from commands.conftest import cli

__all__ = ["cli"]
