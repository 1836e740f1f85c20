"""Parts of a question in several processes: the answer is that of one process, whatever happens to them."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

import launching
from archcli.api.asking.spread import ClusterOptions
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.load import cluster
from archcli.wings.serving.api.choosing.choose import ChooseOptions, choose_report
from spreading import deaths, refusing, squares
from table import every_row

DEVICES = "rx-79*,rx-90*"
"""More places than a part has."""
CHOOSE = ("choose", "gpt2", "--devices", DEVICES, "--json")


def test_two_processes_print_the_bytes_of_one(cli):
    one = cli(*CHOOSE)
    assert json.loads(one.out)["totals"]["asked"] > 32
    assert cli(*CHOOSE, "--workers", "2").out == one.out


@pytest.mark.long
def test_every_cell_and_a_command_are_the_same_from_another_process(cli):
    cells = ("choose", "gpt2", "--devices", "l4,tpu-v4", "--json", "--all", "--command")
    assert cli(*cells, "--workers", "2").out == cli(*cells).out


@pytest.mark.long
def test_training_in_two_processes_prints_the_bytes_of_one(cli):
    train = ("choose", "gpt2", "--devices", "l4,tpu-v4", "--json", "--phase", "train", "-c", "256")
    assert cli(*train, "--workers", "2").out == cli(*train).out


@pytest.mark.long
@every_row(
    "asked",
    [
        # three parts of 32,768 candidates, and three of 1,024 that are predicted one by one
        ("--vary", "d_model=64:6400:64", "--vary", "n_layers=1:96", "--vary", "d_ff=1024:11264:1024"),
        ("--vary", "n_layers=1:96", "--vary", "d_ff=512:12800:512",
         "--where", "n_layers * d_ff in 9000..9500", "--where", "time(device=l4) < 1",
         "--minimize", "peak_bytes"),
    ],
)  # fmt: skip
def test_a_sweep_in_two_processes_prints_the_bytes_of_one(cli, asked):
    """But the seconds that it took."""

    def printed(*arguments):
        done = cli("sweep", "gpt2", *asked, "--json", *arguments)
        assert done.code == 0
        return re.sub(r'"elapsed_s": [^,]*', "", done.out)

    one = printed()
    assert '"matching": 0,' not in one
    assert printed("--workers", "2") == one


@pytest.mark.long
def test_an_error_of_all_places_is_that_of_one_process(cli):
    wrong = (*CHOOSE, "--engine", "vllm", "--dtype", "q4_k_m")
    one, two = cli(*wrong), cli(*wrong, "--workers", "2")
    assert (two.code, two.out, two.err) == (2, "", one.err)


def test_parts_are_shared_and_stay_in_order(tmp_path):
    answers = [*ClusterOptions(workers=2).answers(squares, (str(tmp_path), -1), range(100))]
    assert [square for square, _ in answers] == [n * n for n in range(100)]
    assert os.getpid() not in {worker for _, worker in answers}


def test_a_part_whose_worker_is_killed_is_asked_again(tmp_path):
    folder = deaths(tmp_path, 2)
    answers = [*ClusterOptions(workers=2).answers(squares, (folder, 7), range(30))]
    assert [square for square, _ in answers] == [n * n for n in range(30)]
    assert not [*tmp_path.iterdir()]


@pytest.mark.long
def test_a_part_that_kills_every_worker_is_an_error(tmp_path):
    answers = ClusterOptions(workers=2).answers(squares, (deaths(tmp_path, 9), 3), range(8))
    assert [square for square, _ in (next(answers), next(answers), next(answers))] == [0, 1, 4]
    with pytest.raises(ArchError, match="asked 4 times, and each time its worker was lost"):
        next(answers)


def test_an_error_of_the_question_comes_as_it_is():
    answers = ClusterOptions(workers=2).answers(refusing, ("too large",), range(5))
    assert [next(answers) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ArchError) as error:
        next(answers)
    assert error.value.problems[0].hint == "take a smaller one"


@pytest.mark.long
@every_row("workers", [1, 2])
def test_ctrl_c_answers_for_the_places_that_were_asked(workers):
    options, subject, ticks = ChooseOptions("gpt2", devices=DEVICES, workers=workers), given("gpt2"), []

    def tick(_, done, places):
        ticks.append((done, places))
        raise KeyboardInterrupt

    report = choose_report(options, subject, tick)
    whole = choose_report(ChooseOptions("gpt2", devices=DEVICES), subject)
    ((done, places),) = ticks
    assert 0 < done < places == whole.totals["asked"]
    assert (report.totals["asked"], report.totals["places"]) == (done, places)
    assert f"interrupted after {done} of {places} places" in " ".join(report.notes)
    assert "interrupted" not in " ".join(whole.notes)


INTERRUPTED = """
from contextlib import contextmanager
import sys
import archcli.render.screen as screen

@contextmanager
def progress(title):
    yield lambda what, done, total: print(done, file=sys.stderr, flush=True)

screen.progress = progress
if __name__ == "__main__":
    from archcli.cli import main
    main()
"""


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_of_a_terminal_ends_all_processes_and_shows_what_is_done(tmp_path):
    """A terminal interrupts the workers, too."""
    script = tmp_path / "archcli"
    script.write_text(INTERRUPTED)
    line = [sys.executable, script, "choose", "gpt2", "--json", "--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(line, env=launching.environment(), start_new_session=True, **pipes)
    done = int(process.stderr.readline())
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=100)  # which ends where no worker holds the pipes any more
    totals = json.loads(out)["totals"]
    assert process.returncode == 130
    assert done <= totals["asked"] < totals["places"]
    assert err.replace("\n", "").isdigit() or not err


def test_workers_end_with_a_process_that_is_killed(tmp_path):
    code = f"""
import sys
sys.path[:0] = {[*sys.path]!r}
from archcli.api.asking.spread import ClusterOptions
from spreading import squares
for answer in ClusterOptions(workers=1 + 1).answers(squares, ({str(tmp_path)!r}, -1), range(10 ** 9)):
    print(flush=True)
"""
    line = [sys.executable, "-c", code]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    process.kill()
    # the pipe ends where nobody holds its other end any more
    reader = threading.Thread(target=process.stdout.read)
    reader.start()
    reader.join(60)
    assert not reader.is_alive()
    process.wait(60)
    process.stdout.close()


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@every_row(
    ("arguments", "said"),
    [
        (("--workers", "0"), "workers"),
        (("--workers", "2", "--on", "auto"), "--workers are processes here, and --on names a cluster"),
        (("--on", "nothing"), "--on nothing is no address of a cluster; ray://HOST:10001"),
        (("--on", "ray://host"), "--on ray://host is no address of a cluster"),
        (("--on", "dask://host:99999"), "--on dask://host:99999 is no address of a cluster"),
        (("--on", "http://host:80"), "--on http://host:80 is no address of a cluster"),
        (("--on", f"dask://127.0.0.1:{free_port()}"), "nothing answers at dask://127.0.0.1:"),
        (("--on", f"ray://127.0.0.1:{free_port()}"), "nothing answers at ray://127.0.0.1:"),
    ],
)
def test_what_is_refused(cli, arguments, said):
    done = cli(*CHOOSE, *arguments)
    assert (done.code, done.out) == (2, "")
    assert said.partition(";")[0] in done.err
    assert said.partition("; ")[2] in done.err


@every_row(("scheme", "package"), [("ray", "ray[client]"), ("dask", "distributed")])
def test_a_package_that_is_missing_is_a_line(cli, monkeypatch, scheme, package):
    monkeypatch.setitem(sys.modules, package.partition("[")[0], None)
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = cli(*CHOOSE, "--on", f"{scheme}://127.0.0.1:{server.getsockname()[1]}")
    assert (done.code, done.out) == (2, "")
    assert "is not installed" in done.err
    assert package in done.err


@every_row(
    ("versions", "said"),
    [
        ({}, "here has no worker; start one"),
        ({"a": None}, "a worker at a has no archcli, and this is"),
        ({"a": "0.0.1"}, "a worker at a has archcli 0.0.1, and this is"),
    ],
)
def test_another_version_on_a_cluster_is_an_error(versions, said):
    with pytest.raises(ArchError, match=said):
        cluster.check("here", versions)


@pytest.mark.long
def test_nothing_of_it_is_imported_unless_it_is_asked_for():
    code = "import sys; from archcli.cli import main\ntry: main()\nexcept SystemExit: print(*sys.modules)"
    command = [sys.executable, "-c", code, "choose", "gpt2", "--devices", "l4"]
    environment = launching.environment()
    for arguments, absent in (
        ((), ("archcli.load.cluster", "multiprocessing", "ray", "distributed")),
        (("--workers", "2"), ("ray", "distributed")),
    ):
        line = [*command, *arguments]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=100, check=True)
        assert not {*absent} & {*done.stdout.splitlines()[-1].split()}
