"""Builds the page "Try it", in which archcli itself runs: CPython in WebAssembly, PyYAML and this checkout.

    python docs/try/build.py [SITE]

Writes SITE/try/ (default: site/). Pyodide comes from its npm package, whose version and sha512 lock.json
keeps; where npm is not to be had, or reaches no registry, the site stays without the page. sympy, as
installed here, is an archive of its own, which the page fetches when a formula is asked for.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import distribution
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ("*.html", "*.css", "*.js")
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
COUNTED = ("pyodide.asm.wasm", "python_stdlib.zip")
"""Files of Pyodide whose bytes the worker sees arriving; the others are imported as modules."""

DATA = ("presets", "devices", "engines", "trainers")
SYMBOLIC = ("sympy", "mpmath")
NOT_RUN = {
    *("__pycache__", "tests", "benchmarks", "schema.json", "figures.json"),
    *("choosing", "prices"),  # no form of the page asks for devices
    *("runtime", "mcp"),  # torch runs no model there, and no assistant asks
    *("explore", "token_walk.py"),  # a drawing is shown there, and written to no page
}
BUILD = 'const BUILD = { cache: "", files: [] };'
FETCHED_S = 300


class UnavailableError(Exception):
    """The page cannot be built here."""


def main(site: Path) -> int:
    """Build the page, or say in a line why the site has none."""
    try:
        packed = npm_package("pyodide")
    except UnavailableError as reason:
        print(f"the page Try it is not built: {reason}")
        remove(site / "try")
        return 0
    build(packed, site / "try")
    return 0


def npm_package(name: str) -> bytes:
    """The archive of a package at the version of lock.json. An archive with another sha512 ends the build."""
    locked = json.loads((HERE / "lock.json").read_text())[name]
    npm = shutil.which("npm")
    if npm is None:
        raise UnavailableError("npm is not installed")
    with TemporaryDirectory() as folder:
        command = [npm, "pack", f"{name}@{locked['version']}", "--ignore-scripts", "--silent"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=FETCHED_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"npm did not answer within {FETCHED_S} s") from None
        archives = [*Path(folder).glob("*.tgz")]
        if done.returncode or len(archives) != 1:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise UnavailableError(
                f"npm has no {name} {locked['version']}: {(said or ['it says nothing'])[0]}"
            )
        archive = archives[0].read_bytes()
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if found != locked["integrity"]:
        sys.exit(f"{name} {locked['version']} from npm is {found}, and lock.json has {locked['integrity']}")
    return archive


def build(packed: bytes, target: Path) -> None:
    """Write all files of the page, and print what a first visit fetches."""
    remove(target)
    target.mkdir(parents=True, exist_ok=True)
    for pattern in PAGE:
        for file in HERE.glob(pattern):
            shutil.copy(file, target)
    runtime, info = unpack(packed, target)
    program = archive(target, "archcli", program_files())
    later = {"sympy": archive(target, "sympy", symbolic_files())} if find_spec("sympy") else {}
    asked = subprocess.run(
        [sys.executable, HERE / "questions.py"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=FETCHED_S,
        check=True,
    )
    (target / "questions.json").write_text(asked.stdout)
    manifest = {
        "pyodide": runtime,
        "lock": {"info": info, "packages": {}},
        "archcli": program,
        "later": later,
        "later_bytes": {name: (target / file).stat().st_size for name, file in later.items()},
        "bytes": sum((target / name).stat().st_size for name in (program, *(runtime + n for n in COUNTED))),
    }
    seal(target, manifest, [*later.values()])


def remove(target: Path) -> None:
    """Remove what an earlier build or the copy of docs/ left there."""
    if target.exists():
        shutil.rmtree(target)


def unpack(packed: bytes, target: Path) -> tuple[str, dict[str, str]]:
    """(the folder with Pyodide's files, what it says of itself)."""
    with tarfile.open(fileobj=BytesIO(packed), mode="r:gz") as package:
        held = {
            name: package.extractfile(f"package/{name}")
            for name in (*RUNTIME, "pyodide-lock.json", "package.json")
        }
        files = {name: file.read() for name, file in held.items() if file}
    folder = f"pyodide-{json.loads(files['package.json'])['version']}/"
    (target / folder).mkdir()
    for name in (*RUNTIME, "package.json"):  # the last names its licence
        (target / folder / name).write_bytes(files[name])
    return folder, json.loads(files["pyodide-lock.json"])["info"]


def archive(target: Path, name: str, files: Iterator[tuple[str, Path]]) -> str:
    """The name of an archive with those files, which has a part of its hash: one name, one content."""
    held = BytesIO()
    with ZipFile(held, "w") as archived:
        for place, file in files:
            archived.writestr(ZipInfo(place), file.read_bytes(), ZIP_DEFLATED, 9)
    digest = hashlib.sha256(held.getvalue()).hexdigest()[:16]
    (target / f"{name}-{digest}.zip").write_bytes(held.getvalue())
    return f"{name}-{digest}.zip"


def program_files() -> Iterator[tuple[str, Path]]:
    """(place, file) of archcli as a wheel holds it, of PyYAML's Python files, and of answer.py."""
    yield "answer.py", HERE / "answer.py"
    for file in sources(ROOT / "archcli"):
        yield file.relative_to(ROOT).as_posix(), file
    for folder in DATA:
        for file in sources(ROOT / folder):
            yield f"archcli/{file.relative_to(ROOT).as_posix()}", file
    yield from installed("PyYAML", "yaml")


def symbolic_files() -> Iterator[tuple[str, Path]]:
    """(place, file) of sympy and mpmath as they are installed, without their tests."""
    for name in SYMBOLIC:
        yield from installed(name, name)


def installed(name: str, package: str) -> Iterator[tuple[str, Path]]:
    """(place, file) of the Python files of an installed package, and of its licence."""
    for file in sorted(distribution(name).files or []):
        is_code = file.parts[0] == package and file.suffix == ".py" and not NOT_RUN & {*file.parts}
        if is_code or file.name.startswith("LICENSE"):
            yield file.as_posix(), Path(str(file.locate()))


def sources(folder: Path) -> list[Path]:
    """All files below a folder but those that Python makes."""
    files = folder.rglob("*")
    return sorted(
        file for file in files if file.is_file() and not NOT_RUN & {*file.relative_to(folder).parts}
    )


def seal(target: Path, manifest: dict[str, object], later: list[str]) -> None:
    """Write the manifest and the list of files that the service worker keeps, under a name of this build."""
    (target / "manifest.json").write_text(json.dumps(manifest))
    names = sorted(file.relative_to(target).as_posix() for file in target.rglob("*") if file.is_file())
    first = [
        name for name in names if name not in {*later, "service.js"} and not name.endswith("package.json")
    ]
    sums = {name: hashlib.sha256((target / name).read_bytes()).hexdigest() for name in first}
    cache = "archcli-try-" + hashlib.sha256(json.dumps(sums).encode()).hexdigest()[:16]
    (target / "manifest.json").write_text(json.dumps(manifest | {"cache": cache}))
    kept = [{"name": "./" if name == "index.html" else name, "fixed": is_fixed(name)} for name in first]
    service = (target / "service.js").read_text()
    if BUILD not in service:
        sys.exit(f"service.js lacks the line {BUILD}")
    held = json.dumps({"cache": cache, "files": kept})
    (target / "service.js").write_text(service.replace(BUILD, f"const BUILD = {held};"))
    for name in first:
        print(f"{zipped(target / name):>11,}  {name}")
    print(f"{sum(zipped(target / name) for name in first):>11,}  bytes in all of a first visit, gzipped")
    for name in later:
        print(f"{zipped(target / name):>11,}  {name}, when a formula is asked for")


def is_fixed(name: str) -> bool:
    """Whether a name has one content for all builds: a hash or a version is in it."""
    return bool(re.search(r"-[0-9a-f]{16}\.zip$|^pyodide-", name))


def zipped(file: Path) -> int:
    """Bytes of a file as a server sends it, compressed by gzip."""
    return len(gzip.compress(file.read_bytes(), 9))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"))
