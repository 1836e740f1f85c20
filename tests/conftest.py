"""What every test starts from: no network, no colour, one thread a worker, the same examples at each run of CI, a way to run archcli."""

import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings

from conforming import conforms

os.environ.update(
    NO_COLOR="1",
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    OMP_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
)
for name in ("FORCE_COLOR", "COLUMNS"):
    os.environ.pop(name, None)

settings.register_profile(
    "archcli",
    max_examples=200,
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("archcli")


def pytest_addoption(parser):
    parser.addoption(
        "--renew",
        action="store_true",
        help="write what is printed now over what was expected, to be read in the diff (with -n0)",
    )


@pytest.fixture
def renew(request):
    """True where expected output is to be written rather than compared."""
    return request.config.getoption("--renew")


@pytest.fixture(scope="session")
def archcli():
    """Run `archcli ARGS` as a user does, in a process of its own: archcli("params", "gpt2").stdout."""

    def run(*args, cwd=None, text_in=None):
        command = [sys.executable, "-m", "archcli", *map(str, args)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, cwd=cwd, input=text_in
        )
        conforms(args, done.stdout)
        return done

    return run
