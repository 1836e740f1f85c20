"""Where parts of a question are answered: processes of this machine, or a Ray or Dask cluster.

The only door of ray and distributed, which are imported where an address of them is given.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from multiprocessing import get_context, parent_process
from pydoc import locate
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from warnings import catch_warnings

from archcli.errors import ArchError, install

LOSSES = 3
"""How often a part is asked again whose worker is lost."""
AUTO = "auto"
VERSION = "archcli.__version__"
SECONDS = 5
"""How long an address may take to answer."""
ADDRESSES = "ray://HOST:10001, auto for Ray on this machine, or dask://HOST:8786"


class Cluster(NamedTuple):
    """Workers that answer.

    submit: takes a function and its arguments; its Future is the result. width: calls at once.
    """

    submit: Callable[..., Future[Any]]
    width: int


def connected(address: str | None, workers: int) -> AbstractContextManager[Cluster]:
    """The cluster at an address, or without one so many processes; within the block it answers.

    Raises ArchError where nothing answers, or with another version of archcli.
    """
    if address is None:
        return _processes(workers)
    if address == AUTO:
        return _ray(address)
    try:
        parts = urlsplit(address)
        scheme, place, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, place, port = "", None, None
    if not port or not place or scheme not in {"ray", "dask", "tcp", "tls"}:
        raise ArchError(f"--on {address} is no address of a cluster", ADDRESSES)
    try:
        socket.create_connection((place, port), SECONDS).close()
    except OSError as error:
        raise ArchError(f"nothing answers at {address}: {error}", ADDRESSES) from None
    return _ray(address) if scheme == "ray" else _dask(address)


@contextmanager
def _processes(workers: int) -> Iterator[Cluster]:
    """Fresh processes, which end with the block, whatever they do."""
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _begin)
    try:
        yield Cluster(partial(_without_interrupts, pool.submit), workers)
    finally:
        for process in [*pool._processes.values()]:  # noqa: SLF001 - kill_workers of Python 3.14
            process.kill()
        pool.shutdown()


def _without_interrupts(start: Callable[..., Future[Any]], *args: Any) -> Future[Any]:
    """Start what may start a process: it inherits that Ctrl-C is blocked, and is the parent's."""
    if sys.platform == "win32":
        return start(*args)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return start(*args)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Leave Ctrl-C to the parent, and end with it, even where it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _dask(address: str) -> Iterator[Cluster]:
    try:
        import distributed
    except ImportError:
        raise ArchError("distributed is not installed", install("distributed")) from None
    try:
        client = distributed.Client(
            address.replace("dask://", "tcp://"), timeout=SECONDS, set_as_default=False
        )
    except (OSError, ValueError) as error:
        raise ArchError(f"no Dask scheduler answers at {address}: {error}", ADDRESSES) from None
    with client:
        check(address, client.run(locate, VERSION))
        executor = client.get_executor(retries=LOSSES, pure=False)
        yield Cluster(executor.submit, sum(client.nthreads().values()))


@contextmanager
def _ray(address: str) -> Iterator[Cluster]:
    try:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    except ImportError:
        raise ArchError("ray is not installed", install("ray[client]")) from None
    begun = not ray.is_initialized()
    try:
        if begun:
            with catch_warnings(action="ignore"):  # what is wrong is said below
                ray.init(address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # noqa: BLE001 - Ray raises half a dozen kinds, of several lines
        what = f"no Ray cluster answers at {address}: {str(error).partition(chr(10))[0]}"
        raise ArchError(what, ADDRESSES) from None
    try:
        nodes = {node["NodeManagerAddress"]: node["NodeID"] for node in ray.nodes() if node["Alive"]}
        at = {place: NodeAffinitySchedulingStrategy(node, soft=False) for place, node in nodes.items()}
        located = ray.remote(num_cpus=0)(locate)
        of_nodes = {it: located.options(scheduling_strategy=at[it]).remote(VERSION) for it in at}
        check(address, {place: ray.get(version) for place, version in of_nodes.items()})
        remote = cache(ray.remote(max_retries=LOSSES))
        width = int(ray.cluster_resources().get("CPU", 1))
        yield Cluster(lambda function, *args: remote(function).remote(*args).future(), width)
    finally:
        if begun:
            ray.shutdown()


def check(address: str, versions: Mapping[str, Any]) -> None:
    """Raise ArchError unless there are workers, all with this version of archcli."""
    if not versions:
        raise ArchError(f"{address} has no worker", "start one, and ask again")
    here = locate(VERSION)
    for place, version in versions.items():
        if version != here:
            has = "no archcli" if version is None else f"archcli {version}"
            what = f"a worker at {place} has {has}, and this is {here}"
            raise ArchError(what, "all workers need the same version")
