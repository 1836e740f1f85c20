"""What every test starts from.

No network, no colour, one thread a worker, its stage, a way to run archcli.
"""

import gc
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

import absent
from archcli import plugins
from archcli.cli import GARBAGE
from conforming import conforms
from stages import family, first_stage, is_long, mark_stages, needs_torch, stage_of, staged

os.environ.update(
    NO_COLOR="1",
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
    OMP_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
)
# without bytecode, every process of a command would compile archcli anew
for name in ("FORCE_COLOR", "COLUMNS", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(name, None)
sys.dont_write_bytecode = False

EXAMPLES = {"quick": 10, "long": 30, "whole": 300, "rest": 300}
"""Of a property test of hypothesis, by stage."""


def pytest_addoption(parser):
    parser.addoption(
        "--renew",
        action="store_true",
        help="write what is printed now over what was expected, to be read in the diff (with -n0)",
    )
    parser.addoption(
        "--unsampled",
        action="store_true",
        help="collect the cases of large tables that no stage runs; see tests/unsampled.py",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Draw the same examples in every run, or new ones where a profile or a seed asks for them.

    Runs before the plugin of hypothesis, which loads the profile of `--hypothesis-profile`.
    """
    always = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}
    always |= {"max_examples": EXAMPLES[stage_of(config)]}
    settings.register_profile("same", settings.get_profile("default"), derandomize=True, **always)
    settings.register_profile("random", settings.get_profile("default"), **always)
    # hypothesis would ignore a seed beside `derandomize`
    settings.load_profile("same" if config.getoption("--hypothesis-seed") is None else "random")
    draw_no_constants_of_modules()


def draw_no_constants_of_modules():
    """Keep hypothesis from trying constants of loaded modules, which depend on the tests before."""
    if hasattr(providers, "_get_local_constants"):  # since 6.131
        providers._get_local_constants = lambda: providers._local_constants


def pytest_ignore_collect(collection_path, config):
    """Leave out files that the stage does not run, and in the fast one those that import torch."""
    if not collection_path.match("test_*.py"):
        return None
    if not plugins.all_present() and absent.is_of_absent(collection_path):
        return True
    beyond = stage_of(config) == "quick" and is_long(collection_path)
    return beyond or (config.option.markexpr == "fast" and needs_torch(collection_path)) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage in modules and tests, which stay until the end, as `archcli` itself does."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc):
    """Leave out cases that the quick stage does not run, before they are made: most of large tables."""
    if stage_of(metafunc.config) == "quick":
        metafunc._calls = first_stage(metafunc.definition, metafunc._calls)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector, name, obj):
    """Leave out what the stage does not run, before pytest orders and counts it."""
    made = yield
    tests = isinstance(made, list) and all(isinstance(one, pytest.Function) for one in made)
    return staged(made, stage_of(collector.config)) if tests else made


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    mark_stages(items, stage_of(config) != "quick", "fast" in config.option.markexpr)
    items.sort(key=family)


if not plugins.all_present():  # a copy without some wings, see without_wings.py
    absent.watch()
    _nothing_asked = absent._nothing_asked

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(call):
        """Skip a test that fails and has asked for a wing that is not here."""
        return absent.skipped((yield), str(call.excinfo))

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report():
        """Skip a file that imports what a wing has that is not here."""
        report = yield
        return absent.skipped(report, str(report.longrepr))


@pytest.fixture(autouse=True)
def _no_torch(request):
    """In the fast stage, a test that imports torch fails."""
    before = "torch" in sys.modules
    yield
    assert before or request.config.option.markexpr != "fast" or "torch" not in sys.modules


@pytest.fixture
def interruptible():
    """Ctrl-C works in this process and its children, also where a background job inherits SIGINT ignored."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


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
