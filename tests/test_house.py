"""The house stands: layers, doors, circles, sizes, docstrings; no torch on the quick path.

No word of the machine it was written on.

Every rule is tried on a forged house as well, so that a rule that has gone blind is seen.
"""

import ast
import json
import re
import subprocess
import sys

import pytest

import house
from own_source import ROOT, nodes, parsed, sources
from table import every_row

FOLDERS = ("archcli", "tests", "benchmarks", "release")
QUICK = {
    "params": ["params", "llama-3.1-8b"],
    "flops": ["flops", "llama-3.1-8b"],
    "kvcache": ["kvcache", "llama-3.1-8b"],
    "list": ["list"],
    "survey": ["survey"],
    "compare": ["compare", "gpt2", "llama-3.1-8b"],
    "show": ["show", "llama-3.1-8b"],
    "schema": ["schema"],
    "schema of a profile": ["schema", "--of", "profile"],
}
HEAVY = ("torch", "fvcore", "transformers", "numpy", "sympy", "mcp")


def tracked():
    """The files of the repository, or of an unpacked sdist."""
    if not (ROOT / ".git").exists():
        paths = [path for folder in (*FOLDERS, "docs", "presets") for path in (ROOT / folder).rglob("*")]
        return [path for path in paths if path.is_file() and path.suffix != ".pyc"]
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


RULES = [
    house.not_downwards,
    house.sideways,
    house.wrong_doors,
    house.wrong_files,
    house.circles,
    house.both_ways,
    house.undocumented,
]

FORGED = [
    (house.not_downwards, {"archcli.ops.a": "from archcli.modules import norm"}),
    (house.not_downwards, {"archcli.load.a": "def f():\n    import archcli.render.table"}),
    (house.not_downwards, {"archcli.measure.a": "from archcli.rules.base import DesignRule"}),
    (house.not_downwards, {"archcli.measure.a": "import archcli"}),
    (house.not_downwards, {"archcli.graph": "from .load import base"}),
    (house.sideways, {"archcli.commands.a": "from archcli.commands import b", "archcli.commands.b": ""}),
    (
        house.sideways,
        {
            "archcli.load.huggingface.families.a": "from archcli.load.huggingface.families.b import x",
            "archcli.load.huggingface.families.b": "",
        },
    ),
    (house.wrong_doors, {"archcli.ops.a": "def f():\n    import torch.nn"}),
    (house.wrong_doors, {"archcli.commands.a": "from rich.table import Table"}),
    (house.wrong_doors, {"archcli.measure.a": "import importlib\nx = importlib.import_module('torch')"}),
    (house.wrong_files, {"archcli.measure.a": "x = open('f')"}),
    (house.wrong_files, {"archcli.wings.running.recording.a": "x = open('/proc/meminfo')"}),
    (house.wrong_files, {"archcli.load.a": "from pathlib import Path\nPath('f').write_text('')"}),
    (house.wrong_files, {"archcli.load.a": "x = open('f', 'w')"}),
    (house.wrong_files, {"archcli.render.a": "x = p.read_text()"}),
    (
        house.circles,
        {"archcli.modules.a": "import archcli.modules.b", "archcli.modules.b": "import archcli.modules.a"},
    ),
    (
        house.circles,
        {
            "archcli.modules.a": "def f():\n    import archcli.modules.b",
            "archcli.modules.b": "if TYPE_CHECKING:\n    import archcli.modules.c",
            "archcli.modules.c": "import archcli.modules.a",
        },
    ),
    (
        house.both_ways,
        {
            "archcli.load.yaml.a": "def f():\n    import archcli.load.spec.b",
            "archcli.load.spec.c": "if TYPE_CHECKING:\n    import archcli.load.yaml.d",
            "archcli.load.spec.b": "",
            "archcli.load.yaml.d": "",
        },
    ),
    (house.undocumented, {"archcli.units": "'''Units.'''\ndef parse(): ..."}),
    (house.undocumented, {"archcli.units": "'''Units.'''\nclass A:\n    x = 1"}),
    (house.undocumented, {"archcli.units": "x = 1"}),
]
FINE = [
    (house.not_downwards, {"archcli.rules.a": "from archcli.measure.params import count_params"}),
    (
        house.not_downwards,
        {"archcli.graph": "if TYPE_CHECKING:\n    from archcli.modules.spec.base import Module"},
    ),
    (house.sideways, {"archcli.ops.a": "from archcli.ops.base import matmul", "archcli.ops.base": ""}),
    (house.sideways, {"archcli.ops": "from archcli.ops import a", "archcli.ops.a": ""}),
    (house.wrong_doors, {"archcli.wings.running.runtime.a": "import torch"}),
    (house.wrong_files, {"archcli.render.a": "x = open('f', mode='w')\ny = os.open('g', os.O_WRONLY)"}),
    (house.wrong_files, {"archcli.load.a": "x = open('a')"}),
    (house.wrong_files, {"archcli.wings.serving.recorded.machine": "x = p.read_text()"}),
    (
        house.both_ways,
        {
            "archcli.load.yaml": "import archcli.load.yaml.a",
            "archcli.load.yaml.a": "import archcli.load.spec.b",
            "archcli.load.spec.b": "import archcli.load.spec",
            "archcli.load.spec": "",
        },
    ),
    (
        house.undocumented,
        {
            "archcli.a": (
                "'''A.'''\nclass A:\n    '''A.'''\n    def f(self): 'f.'\nclass B(A):\n    '''B.'''\n    "
                "def f(self): ..."
            )
        },
    ),
]


def titles(table):
    return [f"{rule.__name__}-{i}" for i, (rule, _) in enumerate(table)]


@every_row(("rule", "sources"), FORGED, ids=titles(FORGED))
def test_a_rule_sees_a_forged_offence(rule, sources):
    assert rule({name: ast.parse(source) for name, source in sources.items()})


@every_row(("rule", "sources"), FINE, ids=titles(FINE))
def test_a_rule_leaves_the_allowed_alone(rule, sources):
    assert rule({name: ast.parse(source) for name, source in sources.items()}) == []


def test_every_room_has_a_storey():
    assert {house.room(name) for name in sources("archcli")} <= {"", *house.RANK}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_the_rule(rule):
    offences = rule(parsed("archcli"))
    assert not offences, "\n" + "\n".join(offences)


LONG_TO_PARSE = [pytest.param(name, marks=pytest.mark.long) if name == "tests" else name for name in FOLDERS]


@pytest.mark.parametrize("folder", LONG_TO_PARSE)
def test_functions_fit_on_a_screen(folder):
    offences = house.long_functions(parsed(folder))
    assert not offences, "\n" + "\n".join(offences)


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_stay_short(folder):
    lengths = {name: source.count("\n") for name, source in sources(folder).items()}
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}


@pytest.mark.long
def test_the_project_speaks_of_itself_alone():
    beyond = re.compile(r"(?<![\w.])/(?:work|root|home)/|\.\./" + "shared")
    offences = []
    for path in tracked():
        if path == ROOT / ".ci" / "run":
            continue
        lines = path.read_text(errors="replace").splitlines()
        offences += [
            f"{path.relative_to(ROOT)}:{i}: {line.strip()[:100]}"
            for i, line in enumerate(lines, 1)
            if beyond.search(line)
        ]
    assert not offences, "\n" + "\n".join(offences)


def in_a_fresh_process(program, *args):
    """What a program prints as JSON, in a process that has imported nothing."""
    command = [sys.executable, "-c", program, *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_archcli_is_light():
    program = (
        f"import json, sys, archcli; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    assert in_a_fresh_process(program) == []


ONE_AFTER_ANOTHER = f"""
import contextlib, io, json, sys
from archcli.cli import main

ends = {{}}
for name, args in json.loads(sys.argv[1]).items():
    sys.argv = ["archcli", *args, "--json"]
    code, printed = 0, io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            main()
    except SystemExit as end:
        code = end.code or 0
    ends[name] = [code, bool(json.loads(printed.getvalue())), [one for one in {HEAVY} if one in sys.modules]]
print(json.dumps(ends))
"""
"""Runs command lines one after another: exit code, whether JSON came, and which heavy packages are there."""


def test_quick_commands_import_nothing_heavy():
    ends = in_a_fresh_process(ONE_AFTER_ANOTHER, json.dumps(QUICK))
    assert ends == {name: [0, True, []] for name in QUICK}


def test_names_of_cases_are_words():
    """A text as `ids` of several arguments is spelled: "-".join of "survey" is s-u-r-v-e-y."""
    spelled = re.compile(r"(?:parametrize|every_row)\(\s*\([^()]*\),[^()]*ids=\"-\"\.join")
    assert [name for name, source in sources("tests").items() if spelled.search(source)] == []


@pytest.mark.long
def test_what_tests_start_ends():
    """`subprocess.run` without a timeout waits for a child that hangs."""
    endless = [
        f"{name}:{node.lineno}"
        for name, tree in parsed("tests").items()
        for node in nodes(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "subprocess.run"
        and not {"timeout", None} & {option.arg for option in node.keywords}
    ]
    assert endless == []
