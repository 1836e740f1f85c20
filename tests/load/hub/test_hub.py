"""Models named as on the Hugging Face hub: which names are, and what the hub's cache holds of them."""

import json
import os
import subprocess
import sys

import pytest

from archcli.load.hub import cache as hub_folder
from archcli.load.hub.cache import Reference, reference
from archcli.load.hub.download import hub_error
from archcli.load.source import load
from hub.cache import CONFIG, OLDER, SHA, answer, cached
from table import every_row

# which names are of the hub


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("meta-llama/Llama-3.1-8B", Reference("meta-llama/Llama-3.1-8B", "main")),
        ("org/name@v1.0", Reference("org/name", "v1.0")),
        ("org/name@refs/pr/3", Reference("org/name", "refs/pr/3")),
        (f"org/name@{SHA}", Reference("org/name", SHA)),
        ("hf://org/name", Reference("org/name", "main")),
        ("hf://models/org/name@dev", Reference("org/name", "dev")),
        ("hf://gpt2", Reference("gpt2", "main")),
        ("hf://models/name", Reference("models/name", "main")),
        ("gpt2", None),
        ("./org/name", None),
        ("../org/name", None),
        ("~/org/name", None),
        ("/org/name", None),
        ("a/b/c", None),
        ("org/", None),
        ("org/.hidden", None),
        ("org/a--b", None),
        ("org/a..b", None),
        ("org/na me", None),
        ("org\\name", None),
        ("org/name\n", None),
    ],
)
def test_a_name_is_of_the_hub_by_its_shape(model, expected, cache, tmp_path):
    assert reference(model) == expected


@every_row(
    "model", ["hf://", "hf:///a", "hf://a/b/c", "hf://datasets/a/b", "hf://a/b\n", "hf://-a/b", "hf://a/../b"]
)
def test_what_the_scheme_cannot_mean_is_refused(model):
    assert "names no model; write hf://org/name or hf://org/name@revision" in answer(model)


@pytest.mark.parametrize(
    "revision", ["", "../main", "/etc", "a//b", "a b", "..", "a..b", "-x/../y", "a\0b", ".git"]
)
def test_a_revision_does_not_lead_out_of_the_cache(revision, cache):
    assert "is no revision; a branch, a tag or a commit follows the @" in answer(f"org/name@{revision}")


@pytest.mark.parametrize(
    "page",
    ["https://huggingface.co/org/name", "huggingface.co/org/name/tree/main", "http://hf.co/org/name?x"],
)
def test_the_address_of_a_page_is_answered_with_the_name(page):
    assert answer(page).endswith("is a web page; hf://org/name names the model")


def test_a_folder_of_that_name_makes_it_a_path(cache, tmp_path):
    (tmp_path / "org" / "other").mkdir(parents=True)
    (tmp_path / "org" / "other" / "config.json").write_text(json.dumps(CONFIG))
    cached(cache, "org/othre", SHA, CONFIG)
    assert load("org/other").source == "org/other/config.json"
    assert (
        answer("org/othre")
        == "no file or preset 'org/othre'; did you mean other?; hf://org/othre asks the hub"
    )
    assert load("hf://org/othre").source == f"hf://org/othre@{SHA}"


def test_a_folder_without_a_config_is_told_of_the_hub(cache, tmp_path):
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert answer("org/name").endswith(
        "without a config.json; give a YAML file, or the name of a preset; hf://org/name asks the hub"
    )


@pytest.mark.parametrize("model", ["configs/llama.yaml", "org/name.json", "org/name.gguf"])
def test_a_missing_file_is_not_looked_for_on_the_hub(model, cache):
    assert answer(model).startswith(f"no file '{model}'; ")


# the cache


def test_the_cache_answers(cache):
    cached(cache, "org/name", SHA, CONFIG)
    loaded = load("org/name", ["n_layers=1"])
    assert (loaded.name, loaded.source, loaded.model.source) == (
        "org/name",
        f"hf://org/name@{SHA}",
        f"hf://org/name@{SHA}",
    )
    assert loaded.model.groups[0].n_layers == 1
    assert loaded.notes == (f"config.json of hf://org/name@{SHA}, from the cache of the hub",)


def test_each_revision_is_its_own(cache):
    cached(cache, "org/name", SHA, CONFIG)
    cached(cache, "org/name", OLDER, {**CONFIG, "num_hidden_layers": 7}, "refs/pr/1")
    layers = {
        revision: load(f"org/name{revision}").model.groups[0].n_layers
        for revision in ("", "@main", f"@{SHA}", "@refs/pr/1", f"@{OLDER}")
    }
    assert layers == {"": 3, "@main": 3, f"@{SHA}": 3, "@refs/pr/1": 7, f"@{OLDER}": 7}


@pytest.mark.parametrize("content", ["../../..", "..", "", "\n", "\udcff", "a/b"], ids=repr)
def test_a_ref_that_names_no_commit_is_not_followed(cache, content):
    home = cached(cache, "org/name", SHA, CONFIG).parents[2]
    (home / "config.json").write_text("outside of the snapshots")
    (home / "refs" / "main").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert hub_folder.cached(Reference("org/name")) is None


ENVIRONMENTS = [
    {},
    {"HF_HOME": "/a/b"},
    {"HF_HOME": "~/c"},
    {"HF_HOME": "$HOME/d", "XDG_CACHE_HOME": "/x"},
    {"XDG_CACHE_HOME": "/x"},
    {"HUGGINGFACE_HUB_CACHE": "/old"},
    {"HF_HUB_CACHE": "~/new", "HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/a"},
    {"HF_HUB_CACHE": "$HOME/cache"},
]


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("variables", ENVIRONMENTS, ids=lambda variables: ",".join(variables) or "none")
def test_the_cache_is_where_the_library_has_it(variables, monkeypatch):
    for name in ("HF_HOME", "XDG_CACHE_HOME", "HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    asked = [sys.executable, "-c", "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"]
    theirs = subprocess.run(
        asked,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
        timeout=300,
    ).stdout.strip()
    assert str(hub_folder.cache_folder()) == theirs


def test_what_is_in_the_cache_is_found_as_the_library_finds_it(cache):
    from huggingface_hub import try_to_load_from_cache

    path = cached(cache, "org/name", SHA, CONFIG)
    cached(cache, "org/name", OLDER, CONFIG, "v1")
    for revision in ("main", "v1", SHA, OLDER, "v2", "5f0b02c"):
        theirs = try_to_load_from_cache("org/name", "config.json", cache_dir=cache, revision=revision)
        ours = hub_folder.cached(Reference("org/name", revision))
        assert (None if ours is None else str(ours.path)) == theirs
    assert path.is_file()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "/config.json:1:1: an architecture is a mapping"),
        (
            '{"model_type": "llama"',
            "/config.json:1:23: a config.json has to be JSON: Expecting ',' delimiter",
        ),
        ("[]", "/config.json: no config.json of a model; it has neither model_type nor architectures"),
        ("{}", "/config.json: no config.json of a model; it has neither model_type nor architectures"),
        (
            {"model_type": "lama"},
            "/config.json:2:17: model_type 'lama' is not supported; nearest known: llama, ",
        ),
        (
            {**CONFIG, "hidden_size": "x"},
            "/config.json:7:18: hidden_size must be a whole number above 0, not 'x'",
        ),
        (
            {**CONFIG, "num_key_value_heads": 3},
            "/config.json:10:26: n_kv_heads 3 does not divide n_heads 4; use 2 or 4",
        ),
        ("x" * (2 << 20), "/config.json: larger than 1 MiB"),
    ],
    ids=["open", "no-json", "list", "empty", "type", "size", "heads", "huge"],
)
def test_a_config_that_is_none_is_answered_with_its_place(content, said, cache):
    cached(cache, "org/name", SHA, content)
    found = answer("org/name")
    expected = said if content != "{" else "/config.json: no config.json of a model"
    assert found.startswith(f"hf://org/name@{SHA}{expected}")


WITHOUT = """
import sys
sys.modules["huggingface_hub"] = None
sys.argv = ["archcli", "params", "org/name"]
from archcli.cli import main
main()
"""


@pytest.mark.long
def test_without_the_library_it_is_named(cache, tmp_path):
    run = [sys.executable, "-c", WITHOUT]
    absent = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert absent.returncode == 2
    assert absent.stderr == (
        "hf://org/name@main: error: this needs huggingface_hub, which is not installed\n  = help: "
        "pip install huggingface_hub, then: archcli params org/name\n"
    )
    cached(cache, "org/name", SHA, CONFIG)
    assert (
        subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300).returncode
        == 0
    )


IMPORTED = """
import sys
sys.argv = ["archcli", "params", "org/name", "--json"]
from archcli.cli import main
try:
    main()
except SystemExit as end:
    imported = [name for name in ("huggingface_hub", "httpx", "httpx2") if name in sys.modules]
    print(end.code, *imported, file=sys.stderr)
"""


@pytest.mark.long
def test_the_cache_is_read_without_the_library(cache, tmp_path):
    cached(cache, "org/name", SHA, CONFIG)
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.stderr.split() == ["0"]


PRESETS = {
    "meta-llama/Llama-3.1-8B": "; preset llama-3.1-8b needs no network",
    "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit": "; preset llama-3.1-8b needs no network",
    "openai/gpt-oss-20b": "; preset gpt-oss-20b needs no network",
    "Qwen/Qwen3.6-35B-A3B": "; preset qwen3.6-35b-a3b needs no network",
    "Qwen/Qwen3.9-35B-A3B": (
        "; config.json of Qwen/Qwen3.9-35B-A3B may be given as a file, "
        "and the nearest preset is qwen3.6-35b-a3b"
    ),
    "me/my-model": "",
}


@pytest.mark.parametrize(("repo", "more"), PRESETS.items())
def test_what_the_hub_does_not_give_may_be_a_preset(repo, more):
    assert hub_error(Reference(repo), "the hub cannot be reached", "try again").problems[0].hint == (
        f"try again{more}"
    )
