"""Two workers of Ray and two of Dask give the bytes of one process, also where one is killed."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

import pytest

import launching
from archcli.api.asking.spread import ClusterOptions
from archcli.errors import ArchError
from spreading import deaths, squares

pytestmark = pytest.mark.long
HELPERS = str(Path(launching.__file__).parent)
HOST = "127.0.0.2"
"""Of the loopback: for 127.0.0.1 Ray takes the machine's address in its network."""
CHOOSE = ("choose", "gpt2", "--devices", "rx-79*,rx-90*", "--json")


def free_port():
    with socket.socket() as server:
        server.bind((HOST, 0))
        return server.getsockname()[1]


@pytest.fixture(scope="module")
def dask():
    before = dict(os.environ)
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, host=HOST, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")
    # what starts workers sets MALLOC_TRIM_THRESHOLD_ for them, in this process too
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    pytest.importorskip("ray")
    port, of_clients = free_port(), free_port()
    line = [
        *(sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--head", "--block"),
        *(f"--node-ip-address={HOST}", f"--port={port}", f"--ray-client-server-port={of_clients}"),
        *("--min-worker-port=0", "--max-worker-port=0", "--num-cpus=2", "--include-dashboard=false"),
        *(f"--temp-dir={tmp_path_factory.mktemp('ray')}", "--disable-usage-stats"),
    ]
    environment = launching.environment(PYTHONPATH=os.pathsep.join([str(launching.PACKAGE), HELPERS]))
    process = subprocess.Popen(
        line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        wait_for(HOST, of_clients)
        yield answering(f"ray://{HOST}:{of_clients}", str(tmp_path_factory.mktemp("none")))
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def wait_for(*address, seconds=120):
    """Wait until something answers at an address."""
    end = monotonic() + seconds
    while True:
        try:
            return socket.create_connection(address, 1).close()
        except OSError:
            if monotonic() > end:
                raise
            sleep(0.5)


def answering(address, folder, tries=4):
    """The address, once its first client was answered: the first may wait for longer than Ray does."""
    for left in reversed(range(tries)):
        try:
            assert len([*ClusterOptions(on=address).answers(squares, (folder, -1), range(2))]) == 2
        except ArchError:
            if not left:
                raise
        else:
            break
    return address


def prints_the_bytes_of_one_process(address):
    outputs = [
        subprocess.run(
            [sys.executable, "-m", "archcli", *CHOOSE, *arguments],
            env=launching.environment(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        for arguments in ((), ("--on", address))
    ]
    assert (outputs[1].returncode, outputs[1].stderr) == (0, "")
    assert outputs[0].stdout == outputs[1].stdout


def answers_although_a_worker_is_killed(address, folder):
    answers = [*ClusterOptions(on=address).answers(squares, (deaths(folder, 2), 7), range(30))]
    assert [square for square, _ in answers] == [n * n for n in range(30)]
    assert not [*folder.iterdir()]
    assert os.getpid() not in {worker for _, worker in answers}


def test_two_workers_of_dask_print_the_bytes_of_one_process(dask):
    prints_the_bytes_of_one_process(dask)


def test_two_workers_of_ray_print_the_bytes_of_one_process(ray):
    prints_the_bytes_of_one_process(ray)


def test_a_part_whose_worker_of_dask_is_killed_is_asked_again(dask, tmp_path):
    answers_although_a_worker_is_killed(dask, tmp_path)


def test_a_part_whose_worker_of_ray_is_killed_is_asked_again(ray, tmp_path):
    answers_although_a_worker_is_killed(ray, tmp_path)
