"""Command lines answered without typer, as the page in a browser asks them."""
