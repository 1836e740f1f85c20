"""Every kind of module computes what its paper says, around the leaves of a built model."""

import torch

from table import sampled_rows
from wirings.checks import CHECKS as WIRING
from wirings.recurrent import CHECKS as RECURRENT

CHECKS = WIRING | RECURRENT

torch.set_num_threads(1)


@sampled_rows("name", CHECKS, 4)
def test_is_wired_as_its_paper_says(name):
    with torch.no_grad():
        CHECKS[name]()
