"""`python -m archcli` is `archcli`."""

from archcli.cli import main

if __name__ == "__main__":
    main()
