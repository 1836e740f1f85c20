"""`python -m archcli` is `archcli`, and like it imports nothing from the current folder."""

import sys
from pathlib import Path

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[0] != str(Path(__file__).parents[1]):
        del sys.path[0]  # the current folder, which -m looks into first; a checkout's own is needed

    from archcli.cli import main

    main()
