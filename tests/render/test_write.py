"""Writing: whole or not at all, to files, devices and pipes."""

import os
import shutil
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from archcli.errors import ArchError
from archcli.render.write import check_writable, remember, write, write_data

ROOT_MAY_ALL = pytest.mark.skipif(os.geteuid() == 0, reason="root writes where others may not")


def test_a_file_is_replaced_and_keeps_its_mode(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o640)
    write("new é\n", path)
    assert path.read_text(encoding="utf-8") == "new é\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_new_file_is_as_open_as_any(tmp_path):
    beside = tmp_path / "usual"
    beside.touch()
    write("x", tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode == beside.stat().st_mode


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write("new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_into(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_text()))
    reader.start()
    write("through", path)
    reader.join(10)
    assert got == ["through"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_folder_is_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(ArchError, match="cannot write"):
        write("x", tmp_path)
    assert list(tmp_path.parent.glob(f".{tmp_path.name}*")) == []


@pytest.mark.parametrize("where", ["missing/out.txt", "file/out.txt"])
def test_a_place_that_is_not_there_is_refused(tmp_path, where):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchError, match="cannot write"):
        write("x", tmp_path / where)


@ROOT_MAY_ALL
def test_a_folder_one_may_not_write_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ArchError, match="Permission denied"):
            write("x", tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)


def test_a_failure_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_text("old")
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(ArchError, match="No space left"):
        write("new", path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def run(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False, **options
    )


def test_a_full_disk_behind_standard_output_is_one_error():
    code = """
import os, sys
from archcli.errors import ArchError
from archcli.render.write import write
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
try:
    write("x" * 100_000, None)
except ArchError as error:
    print(error, file=sys.stderr)
"""
    done = run(code)
    assert done.returncode == 0
    assert done.stderr.decode() == "cannot write to standard output: No space left on device\n"


def test_a_reader_that_left_is_no_error():
    code = """
import os, sys
from archcli.render.write import write
reading, writing = os.pipe()
os.dup2(writing, 1)
os.close(reading)
write("x" * 100_000, None)
"""
    done = run(code)
    assert done.returncode == 141
    assert done.stderr == b""


def test_an_encoding_that_knows_no_ticks_still_prints():
    done = run(
        "from archcli.render.write import write\nwrite('✓ 1 × 2\\n', None)",
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stdout) == (0, b"? 1 ? 2\n")


@pytest.mark.parametrize("save", [lambda path: write("new", path), lambda path: remember(path, "new")])
def test_a_link_planted_under_a_guessed_name_is_not_written_through(tmp_path, monkeypatch, save):
    (tmp_path / "victim").write_text("untouched")
    monkeypatch.setattr("os.urandom", lambda n: b"\0" * n)
    for name in (f".out.txt.{os.getpid()}", f".archcli-{bytes(8).hex()}"):
        (tmp_path / name).symlink_to("victim")
    with suppress(ArchError):
        save(tmp_path / "out.txt")
    assert (tmp_path / "victim").read_text() == "untouched"


def test_names_of_temporary_files_are_not_guessed(tmp_path, monkeypatch):
    names = []
    monkeypatch.setattr("pathlib.Path.replace", lambda beside, _: names.append(beside.name))
    for _ in range(3):
        write("new", tmp_path / "out.txt")
    assert len(set(names)) == 3
    assert len(names[0]) < 40


@pytest.mark.parametrize("root", [True, False])
def test_a_file_that_is_read_only_stays(tmp_path, monkeypatch, root):
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o444)
    if root:
        monkeypatch.setattr("os.open", lambda *_: os.dup(0))
    for refuse in (lambda: write("new", path), lambda: check_writable(path)):
        with pytest.raises(ArchError, match=r"read-only|Permission denied"):
            refuse()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_to_nothing_is_refused(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(ArchError, match="it is a link to a file that does not exist"):
        write("new", tmp_path / "link")
    assert not (tmp_path / "nowhere").exists()


def test_a_name_as_long_as_a_name_may_be_is_written(tmp_path):
    path = tmp_path / ("n" * 255)
    write("new", path)
    assert path.read_text() == "new"


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_by_any_name_is_standard_output(name, capfdbinary):
    write("text ", Path(name))
    write_data(b"and bytes", Path(name))
    assert capfdbinary.readouterr().out == b"text and bytes"
    assert not Path("-").exists()


def test_a_descriptor_is_written_to():
    reading, writing = os.pipe()
    write("through", Path(f"/dev/fd/{writing}"))
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        assert stream.read() == b"through"


@pytest.mark.parametrize("name", ["/dev/fd/999", f"/dev/fd/{10**30}", "/proc/self/fd/999", "a\0b"])
def test_a_descriptor_that_is_not_open_is_refused(name):
    with pytest.raises(ArchError, match="cannot write"):
        write("x", Path(name))


@pytest.mark.long
@pytest.mark.parametrize("output", ["/dev/stdout", "/dev/fd/1", "-", ">(cat)"])
def test_a_shell_gets_what_it_asked_for(output, tmp_path):
    line = f"{sys.executable} -m archcli params gpt2 --json -o {output} | python3 -m json.tool --no-indent"
    done = subprocess.run(
        [shutil.which("bash"), "-o", "pipefail", "-c", line],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert '"command": "params"' in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_what_a_file_held_before_standard_output_stays(tmp_path):
    line = f"{{ echo first; {sys.executable} -m archcli params gpt2 -o /dev/stdout; }} > out"
    subprocess.run([shutil.which("bash"), "-c", line], cwd=tmp_path, check=True, timeout=300)
    assert (tmp_path / "out").read_text().startswith("first\ngpt2: 124M parameters")
