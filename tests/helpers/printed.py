"""What a command prints in this process, apart from what changes from run to run."""

import io
import re
from contextlib import redirect_stderr, redirect_stdout

from archcli.errors import ArchError
from archcli.render.findings import complain
from archcli.render.write import tell


class Pipe(io.TextIOWrapper):
    """A standard stream as a pipe has it."""

    def __init__(self):
        super().__init__(io.BytesIO(), "utf-8", newline="")

    def text(self):
        self.flush()
        return self.buffer.getvalue().decode()


def caught(run):
    """(exit code, standard output, standard error) of a function that prints and ends as the program does."""
    out, err = Pipe(), Pipe()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = run()
        except SystemExit as end:
            code = end.code
        except ArchError as error:
            tell(complain(error))
            code = 2
    # of sweep; all other times are predicted
    return code or 0, re.sub(r'"elapsed_s": [\d.e-]+', "", out.text()), err.text()
