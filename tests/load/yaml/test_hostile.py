"""What is wrong with a text before it is a model.

Hostile, broken or foreign files, each with its exact answer, each within a second.
"""

import sys
from itertools import pairwise

import pytest

from archcli.errors import ArchError
from archcli.load.yaml import reader as loader_yaml
from archcli.load.yaml.text import MOST_BYTES, decode
from table import every_row

DEEP = "nested deeper than 32 levels; an architecture needs about ten"
MANY = "more than 20,000 values; aliases count as often as they are used"
UNCLOSED = "this list is not closed; it ends with ]"
COLON = "a ':' is out of place here; put text that holds ': ' in quotes, and check the indentation"
TAB = "a tab in the indentation; indent with spaces"
EMPTY = "f: the file is empty; an architecture needs vocab_size, d_model, norm and groups"
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{b}: &{b} [{', '.join(8 * ['*' + a])}]\n" for a, b in pairwise("abcdefgh")
)

JSON_KEY = (
    "Illegal trailing comma before end of object"
    if sys.version_info >= (3, 13)
    else "Expecting property name enclosed in double quotes"
)

# id: (a whole file, the answers)
FILES = {
    "empty": ("", [EMPTY]),
    "comment-alone": ("# llama\n", [EMPTY]),
    "dashes-alone": ("---\n", [EMPTY]),
    "null": ("null\n", ["1:1: an architecture is a mapping of keys to values; this is null"]),
    "list": ("- 1\n", ["1:1: an architecture is a mapping of keys to values; this is a list"]),
    "word": ("llama\n", ['1:1: an architecture is a mapping of keys to values; this is "llama"']),
    "number": ("3", ["1:1: an architecture is a mapping of keys to values; this is 3"]),
    "two-documents": ("a: 1\n---\nb: 2\n", ["2:1: a second document begins here; a file holds one model"]),
    "end-and-more": ("a: 1\n...\nb: 2\n", ["3:1: a second document begins here; a file holds one model"]),
    "alias-bomb": (BOMB, [f"5:20: {MANY}"]),
    "alias-cycle": ("a: &a [*a]\n", ["1:8: *a refers to itself; a value cannot contain itself"]),
    "alias-cycle-by-merge": (
        "a: &a {<<: *a}\n",
        [
            (
                "1:8: merge keys (<<) are not part of YAML 1.2; what all groups share may be said once, "
                "under a top-level `layer`"
            ),
            "1:12: *a refers to itself; a value cannot contain itself",
        ],
    ),
    "nested-lists": (100_000 * "[", [f"1:33: {DEEP}"]),
    "nested-mappings": (100_000 * "{a: ", [f"1:129: {DEEP}"]),
    "nested-dashes": (100_000 * "- ", [f"1:65: {DEEP}"]),
    "nested-question-marks": (100_000 * "? ", [f"1:65: {DEEP}"]),
    "nested-lines": ("".join(f"{i * ' '}a:\n" for i in range(1000)), [f"33:33: {DEEP}"]),
    "many-values": (f"a: [{60_000 * '1,'}]", [f"1:39999: {MANY}"]),
    "many-keys": (
        "".join(f"k{i}: 1\n" for i in range(60_000)),
        ["201:1: more than 200 keys in one mapping; an architecture needs about ten"],
    ),
    "many-mistakes": (60_000 * "1: 1\n", [f"{i}:1: a key must be text, not 1" for i in range(1, 101)]),
    "huge": ("a: " + MOST_BYTES * "x", ["f: larger than 1 MiB; an architecture is a few lines of text"]),
    "long-number": ("a: " + 100_000 * "9", ["1:4: a number of 100,000 characters; no size is that large"]),
    "long-fraction": (
        "a: 1." + 100_000 * "9",
        ["1:4: a number of 100,002 characters; no size is that large"],
    ),
    "long-hexadecimal": (
        "a: 0x" + 100_000 * "f",
        ["1:4: a number of 100,002 characters; no size is that large"],
    ),
    "open-quote": ('a: "' + 500_000 * "x", ["1:4: this quote is not closed"]),
    "open-list": ("a: [1, 2\nb: 3\n", [f"1:4: {UNCLOSED}"]),
    "open-mapping": ("a: {b: 2\n", ["1:4: this mapping is not closed; it ends with }"]),
    "wrong-bracket": ("a: [1, 2}\n", [f"1:4: {UNCLOSED}"]),
    "two-colons": ("a: b: c\n", [f"1:5: {COLON}"]),
    "indented-too-far": ("a: 1\n  b: 2\n", [f"2:4: {COLON}"]),
    "indented-too-little": (
        "a:\n  - 1\n  b: 2\n",
        ["3:3: expected another '- ' here; check the indentation of this line"],
    ),
    "no-colon": ("a: 1\nb\nc: 2\n", ["3:1: this line is no `key: value`; a key is followed by ': '"]),
    "tab": ("a:\n\tb: 1\n", [f"2:1: {TAB}"]),
    "tab-after-spaces": ("a:\n  b: 1\n\tc: 2\n", [f"3:1: {TAB}"]),
    "begins-with-at": ("a: @b\n", ["1:4: a value cannot begin with @; put it in quotes"]),
    "begins-with-percent": ("a: %b\n", ["1:4: a value cannot begin with %; put it in quotes"]),
    "tag": (
        "a: !!python/object:os.system 1\n",
        ["1:4: a tag, '!!python/object:os.system'; values are written without tags"],
    ),
    "tag-of-the-core": ("a: !!int 1\n", ["1:4: a tag, '!!int'; values are written without tags"]),
    "alias-of-nothing": ("a: *b\n", ["1:4: *b refers to nothing; no value before it is marked &b"]),
    "duplicate-key": ("a: 1\nb: 2\na: 3\n", ["3:1: duplicate key 'a'; it is already at line 1"]),
    "duplicate-key-by-alias": (
        "k: &y foo\n*y : 1\n*y : 2\n",
        ["1:4: duplicate key 'foo'; it is already at column 4"],
    ),
    "duplicate-key-on-a-line": ("{a: 1, 'a': 3}\n", ["1:8: duplicate key 'a'; it is already at column 2"]),
    "merge-key": (
        "a: &a {b: 1}\nc: {<<: *a}\n",
        [
            (
                "2:5: merge keys (<<) are not part of YAML 1.2; what all groups share may be said once, "
                "under a top-level `layer`"
            )
        ],
    ),
    "key-number": ("1: 2\n", ["1:1: a key must be text, not 1"]),
    "key-boolean": ("true: 2\n", ["1:1: a key must be text, not true"]),
    "key-null": ("~: 2\n", ["1:1: a key must be text, not ~"]),
    "key-list": ("[a]: 2\n", ["1:1: a key must be text, not a list"]),
    "key-mapping": ("{a: 1}: 2\n", ["1:1: a key must be text, not a mapping"]),
    "escape-character": ("a: \x1b[31m\n", ["1:4: a control character, U+001B; remove it"]),
    "line-separator": ("a: 1 # \u2028b: 2\n", ["1:8: a control character, U+2028; remove it"]),
    "escaped-control": ('a: "\\x07"\n', ["1:4: an invisible character, U+0007; remove it"]),
    "no-break-space": ("\u00a0a: 1\n", ["1:1: an invisible character, U+00A0; remove it"]),
    "surrogate": ('a: "\\ud800"\n', ["1:7: not YAML: found invalid Unicode character escape code"]),
    "old-version": (
        "%YAML 1.0\n---\na: 1\n",
        ["1:1: this version of YAML is not read; write %YAML 1.2, or leave the line out"],
    ),
    "config-json": ('{"model_type": "llama", }', ["1:25: a config.json has to be JSON: " + JSON_KEY]),
    "config-json-cut-off": (
        '{"model_type": "llama",\n "a": [',
        ["2:8: a config.json has to be JSON: Expecting value"],
    ),
    "config-json-and-more": ('{"model_type": "llama"} x', ["1:25: a config.json has to be JSON: Extra data"]),
    "config-yaml": (
        "a: 1\nmodel_type: llama\n",
        ["2:1: a config.json of Hugging Face has to be JSON; this is YAML"],
    ),
    "config-nested": ('{"model_type": ' + 100_000 * "[", ["f: nested too deep; no config.json is like that"]),
    "config-digits": (
        '{"model_type": ' + 100_000 * "9" + "}",
        ["f: a number of thousands of digits; no config.json is like that"],
    ),
}


@pytest.mark.long
@every_row(("text", "answers"), FILES.values(), ids=FILES)
def test_a_hostile_file_is_answered_at_once(text, answers, refused):
    found = refused(text)
    known = [answer for answer in found if "unknown key" not in answer and "missing key" not in answer]
    assert known == answers


@pytest.mark.long
@every_row("text", [text for text, _ in FILES.values()], ids=FILES)
def test_the_parser_without_libyaml_refuses_the_same_files(text, refused, monkeypatch):
    with monkeypatch.context() as patch:
        patch.delattr(loader_yaml.pyyaml, "CLoader")
        assert refused(text if len(text) < 10_000 else text[:10_000])


BYTES = {
    "utf-16": ("a: 1".encode("utf-16"), "f: the text is UTF-16; save it as UTF-8"),
    "latin-1": (b"a: 1\nb: caf\xe9\n", "f:2: not UTF-8: byte 0xe9; save it as UTF-8"),
    "binary": (b"\x7fELF\0\0\0", "f: a binary file; an architecture is a YAML or JSON text"),
    "huge": (b"a" * (MOST_BYTES + 1), "f: larger than 1 MiB; an architecture is a few lines of text"),
}


@pytest.mark.parametrize(("data", "answer"), BYTES.values(), ids=BYTES)
def test_bytes_that_are_no_text_are_refused(data, answer):
    with pytest.raises(ArchError) as caught:
        decode(data, "f")
    assert str(caught.value) == answer
