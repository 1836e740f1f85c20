"""No answer is longer than 4 kB unless rows are asked for; hostile models get an error line."""

import json

import pytest

from archcli.load.presets import presets_index
from archcli.wings.doors.commands.mcp.answers import MOST_BYTES
from assistant import answers
from covering import COVERING
from table import every_row

GENERATES = {record["name"] for record in presets_index() if record["kind"] != "encoder"}
ASKED = [
    ("params", {"depth": 99}),
    ("flops", {}),
    ("flops", {"phase": "train", "batch_size": 4}),
    ("kvcache", {"memory": "80GiB"}),
    ("memory", {}),
    ("memory", {"phase": "forward", "device": "h100-sxm", "alternatives": True}),
    ("check", {}),
    ("explain", {}),
    ("explain", {"quantity": "flops", "steps": True, "approx": True}),
    ("sweep", {"vary": ["vocab_size=1000:30000:1000"], "show": ["flops", "kv_bytes"], "top": 30}),
]
OF_GENERATORS = [
    ("memory", {"phase": "serve", "device": "8xh100-sxm", "seq_len": 1000}),
    ("predict", {"device": "h100-sxm", "curve": "batch"}),
    ("fit", {"device": "2xrtx-4090", "verbose": True}),
]
"""What is asked of models that generate."""


def of_preset(name):
    """The questions about a preset, and comparisons and drawings with three others."""
    yield from ((tool, {"model": name, **asked}) for tool, asked in ASKED)
    if name in GENERATES:
        yield from ((tool, {"model": name, **asked}) for tool, asked in OF_GENERATORS)
    several = [name, "gpt2", "deepseek-v3", "jamba-1.5-mini"]
    yield from (("compare", {"models": several}), ("draw", {"models": [name]}), ("draw", {"models": several}))


@pytest.mark.long
@pytest.mark.parametrize("name", COVERING)
@pytest.mark.sample(1)
def test_every_answer_on_a_preset_fits_a_context(name):
    asked = [*of_preset(name)]
    long = {}
    for (tool, arguments), result in zip(asked, answers(asked), strict=True):
        text = result.content[0].text
        told = result.structured_content
        if len(text.encode()) > MOST_BYTES or "a fault of archcli" in text:
            long[tool, str(arguments)] = text[:300]
        if told is not None:
            assert json.loads(text) == told
            assert told["headline"]
            assert told["command"].startswith(f"archcli {tool} ")
        else:
            assert result.is_error
    assert not long


def test_all_rows_are_bounded_too(monkeypatch):
    """As are those of a thousand candidates, here with a smaller bound."""
    asked = ("sweep", {"model": "gpt2", "vary": ["d_ff=10:1000:10"], "top": 100, "rows": True})
    (whole,) = answers([asked])
    assert len(whole.structured_content["rows"]) == 100
    assert "left_out" not in whole.structured_content
    monkeypatch.setattr("archcli.wings.doors.commands.mcp.answers.MOST_WITH_ROWS", 3000)
    (cut,) = answers([asked])
    shown = len(cut.structured_content["rows"])
    assert 10 < shown < 100
    assert len(cut.content[0].text.encode()) <= 3000
    assert (
        cut.structured_content["left_out"] == f"{100 - shown} of 100 rows; the command with --json has all."
    )


def nested(depth):
    """An object in an object, so often."""
    found = {}
    for _ in range(depth):
        found = {"model_type": found}
    return found


LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2}
HOSTILE = {
    "deep object": nested(150),
    "deep text": "[" * 50_000,
    "deep text of objects": '{"a":' * 50_000,
    "huge number": {**LLAMA, "hidden_size": 10**400},
    "huge layers": {**LLAMA, "num_hidden_layers": 10**30},
    "negative": {**LLAMA, "hidden_size": -4096},
    "NaN": '{"model_type": "llama", "hidden_size": NaN}',
    "a list": "[1, 2, 3]",
    "twice a key": '{"model_type": "llama", "model_type": "gpt2"}',
    "controls": {"model_type": "\x1b]0;owned\x07\u202e", "hidden_size": 4},
    "a command of CI": {"model_type": "x\n::error::owned\n##[error]owned", "hidden_size": 4},
    "a tag": "a: !!python/object/apply:os.system ['touch /tmp/owned']\nb: 1\n",
    "aliases": "a: &a [1,1]\n" + "".join(f"b{i}: &b{i} [*a,*a]\n" for i in range(5000)),
    "code": {"model_type": "llama", "auto_map": {"AutoConfig": "evil--Config"}},
    "a path": {**LLAMA, "_name_or_path": "/etc/passwd", "vocab_file": "/etc/passwd"},
    "many keys": {f"key{i}": i for i in range(50_000)},
    "only blanks": " \n ",
    "a NUL": "gpt2\x00",
    "a long name": "x" * 5000,
    "surrogates": "\udcff\udcfe",
}


@pytest.mark.long
@every_row(("model",), [(model,) for model in HOSTILE.values()], ids=[*HOSTILE])
def test_a_hostile_model_is_an_error_line(model):
    for result in answers([("params", {"model": model}), ("params", {"model": "gpt2"})])[:1]:
        text = result.content[0].text
        assert "Traceback" not in text
        assert "a fault of archcli" not in text, text
        assert len(text.encode()) <= MOST_BYTES
        assert "\x1b" not in text
        assert "owned\n" not in text
        assert not text.startswith("::")
        if not result.is_error:  # defaults of Llama's class stand for what is left out
            assert result.structured_content["totals"]["params"] > 0
