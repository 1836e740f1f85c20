"""Names that people type, of models, devices, formats, engines: known to every question alike, or to none."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load
from archcli.wings.serving.api.known_device.known import device_memory
from archcli.wings.serving.devices.budget import device_note
from table import every_row

# of forums: what is listed under a name that several devices have, and what is not listed at all
DEVICES = (
    *("h100", "8xh100", "a100", "v100", "rtx pro 6000", "two 3090", "2x RTX 3090", "M3 Pro 36GB", "24GB"),
    *("RTX 2070", "Quadro RTX 8000", "RX 7800 XT", "M40", "Arc A770", "RTX 5090 and RTX 4090", "t3k"),
)
MODELS = {
    "llama-3.1-8b-instruct": "llama-3.1-8b",
    "llama-3.3-70b-instruct": "llama-3.3-70b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "meta-llama/Llama-3.1-70B-Instruct": "llama-3.1-70b",
    "deepseek-r1:32b": "qwen2.5-32b",
    "deepseek-r1:70b": "llama-3.3-70b",
    "tinyllama": "tinyllama-1.1b",
    "mistral:latest": "mistral-7b-v0.3",
    "Qwen/Qwen3-8B-AWQ": "qwen3-8b",
    "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M": "llama-3.1-8b",
    "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:IQ4_XS": "llama-3.2-3b",
}
NO_MODELS = ("gpt-4", "llama", "llama-3.1-9b", "llama 70b", "4090", "foo:bar", "os:getcwd")
ASKED = {
    "fit": archcli.fit,
    "predict": archcli.predict,
    "memory": lambda model, device, **options: archcli.memory(model, "serve", device=device, **options),
    "kvcache": lambda model, device, **options: archcli.kvcache(model, device=device, **options),
}


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """A hub's cache without models, and no files around."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)


def answer(question, model, device, **options):
    """The notes of an answer, or what is wrong, without the name of the function."""
    try:
        return tuple(ASKED[question](model, device, **options).notes)
    except ArchError as error:
        return error.problems[0].what


@every_row("name", MODELS)
def test_a_model_is_its_preset_by_every_name(name):
    loaded = load(name)
    assert loaded.name == MODELS[name]
    assert loaded.notes[0].startswith(f"{name} is taken as the preset {MODELS[name]}")


@every_row("name", NO_MODELS)
def test_what_is_no_model_is_refused_alike(name):
    assert len({answer(question, name, "rtx-4090") for question in ASKED}) == 1


@every_row("name", DEVICES)
def test_a_device_is_known_or_refused_alike(name):
    try:
        known, note = device_memory(name, None).name, device_note(name)
    except ArchError as error:
        said = error.problems[0].what
        assert {answer(question, "gpt2", name) for question in ASKED if question != "fit"} == {said}
    else:
        if known != name:  # of a memory alone nothing is predicted
            assert all(note in answer(question, "gpt2", name) for question in ("predict", "memory") if note)


WORDS = ({"dtype": "4bit"}, {"dtype": "awq"}, {"dtype": "UD-Q4_K_XL"}, {"dtype": "q9"}, {"dtype": "bnb-4bit"})
ENGINES = ({"engine": "ollama"}, {"engine": "llama.cpp"}, {"engine": "tgi"}, {"engine": "warp"})


@pytest.mark.sample(2)
@pytest.mark.parametrize("options", [*WORDS, *ENGINES], ids=str)
def test_a_word_of_a_format_or_an_engine_is_known_or_refused_alike(options):
    ((name, word),) = options.items()
    answers = {}
    for question in ("fit", "predict", "memory"):
        said = answer(question, "gpt2", "h100", **options)
        taken = [note for note in said if note.startswith(f"{word} is taken as ")]
        answers[question] = said if isinstance(said, str) else (*taken,)
    assert len({*answers.values()}) == 1, answers
    if name == "engine":
        said = answer("kvcache", "gpt2", "h100", **options)
        assert said == answers["fit"] if isinstance(said, str) else {*answers["fit"]} <= {*said}


@pytest.mark.long
@pytest.mark.parametrize("question", ["fit", "predict", "memory", "kvcache"])
def test_whole_questions_take_the_names_that_people_type(question):
    notes = answer(question, "llama3.2:1b-instruct-q4_K_M", "8xh100" if question == "memory" else "h100")
    assert "llama3.2:1b-instruct-q4_K_M is taken as the preset llama-3.2-1b" in notes
    assert "the name says q4_k_m: its weights are taken so, unless --dtype says otherwise" in notes
    assert "h100 is taken as h100-sxm, not h100-nvl, h100-pcie or h100-sxm-96gb" in notes


OF_MODEL, OF_DEVICE = "llama3.2 is taken as the preset llama-3.2-3b", "h100 is taken as h100-sxm, not "
NOTED = {
    "scale": (lambda: archcli.scale("llama3.2", hours=1, device="h100").notes, (OF_MODEL, OF_DEVICE)),
    "compare": (
        lambda: archcli.compare("gpt2", "llama3.2", dtype="4bit").notes,
        ("4bit is taken as q4_k_m",),
    ),
    "report": (lambda: archcli.report("llama3.2", device=["h100", "a100"]).taken, (OF_MODEL, OF_DEVICE)),
    "survey": (lambda: archcli.survey("llama3.2").notes, (OF_MODEL,)),
    "devices": (lambda: archcli.devices("h100").notes, (OF_DEVICE,)),
    "explain": (lambda: archcli.explain("llama3.2").notes, (OF_MODEL,)),
    "show": (lambda: archcli.show("llama3.2").notes, (OF_MODEL,)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("question", NOTED)
def test_every_question_says_what_a_word_was_taken_for(question):
    notes, begins = NOTED[question]
    assert [begin for begin in begins if not any(note.startswith(begin) for note in notes())] == []


def test_drawings_and_surveys_of_the_line_say_it_too(cli, tmp_path):
    assert f"note: {OF_MODEL}" in cli("draw", "llama3.2", "-o", str(tmp_path / "a.svg")).err
    done, without = cli("survey", "llama3.1"), cli("survey")
    assert done.out.splitlines()[0] == without.out.splitlines()[0]  # the preset is listed once
    assert "llama3.1 is taken as the preset llama-3.1-8b" in done.out


def test_the_sizes_of_a_device_are_noted_once(cli):
    notes = [line for line in cli("devices", "m3-pro").out.splitlines() if line.startswith("note: ")]
    assert notes[-1] == "note: memories: m3-pro:18gb, m3-pro:36gb; the largest is shown"
    assert not any("is sold with" in note for note in notes)


def test_a_device_behind_the_model_is_led_to_its_option(cli):
    assert "did you mean --device h100?" in cli("predict", "gpt2", "h100").err


LONG = {
    "fit": lambda: archcli.fit("qwen3-8b", "rtx-4090", context=65_536),
    "kvcache": lambda: archcli.kvcache("qwen3-8b", context=65_536),
    "memory": lambda: archcli.memory("qwen3-8b", "serve", seq_len=65_536),
    "predict": lambda: archcli.predict("qwen3-8b", "rtx-4090", past=65_536),
    "flops": lambda: archcli.flops("qwen3-8b", seq_len=65_536),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("question", LONG)
def test_tokens_beyond_max_seq_len_are_counted_with_the_same_note(question):
    note = "65,536 tokens are beyond max_seq_len 40,960: counted by shape all the same."
    assert note in LONG[question]().notes


SWAPPED = {"2x3090": "llama-3.2-1b", "rtx-4090": "gpt2", "24GB": "gpt2"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("device", SWAPPED)
def test_a_model_and_a_device_may_be_swapped(device):
    swapped, right = archcli.fit(device, SWAPPED[device]), archcli.fit(SWAPPED[device], device)
    note = f"{device} is taken as the device and {SWAPPED[device]} as the model: MODEL stands first"
    assert (swapped.totals, note in swapped.notes) == (right.totals, True)


def test_of_a_memory_alone_the_fit_is_known_and_the_speed_is_not():
    report = archcli.fit("gpt2", memory="3GB")
    assert report.headline == "fits 3GB as bf16 with 1,024 tokens of context; a speed that is not known"
    assert (report.totals["memory_bytes"], report.totals["tokens_per_s"]["expected"]) == (3 * 10**9, None)
    with pytest.raises(ArchError, match="nothing is known of the speed of its device"):
        archcli.predict("gpt2", "24GB")
