"""A wrapper's config.json is the language model of its class in transformers: text part, head and tie."""

import itertools
from dataclasses import fields

import pytest
import transformers

import archcli
from archcli.errors import ArchError
from archcli.load.huggingface.family import class_defaults
from archcli.load.huggingface.importer import import_config, weight_map
from archcli.load.huggingface.parts.rope import DEFAULT_THETA
from archcli.load.huggingface.registry import families, family_of
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.load.huggingface.wrappers.texts import TEXTS
from archcli.wings.running.weights.checkpoint import compare
from hub.compared import told, wrong
from importing import imported_file, text_alone
from table import every_row
from wrapping import NAMES, TINY, language_model, their_wrapper, tiny_text

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

OF_REPOSITORIES = {"deepseek_vl_v2", "internvl_chat", "multi_modality", "NVLM_D"}
NESTED = {"qwen2_5_omni", "qwen3_omni_moe"}
KINDS = sorted(WRAPPERS.keys() - OF_REPOSITORIES - NESTED)
EACH_KIND = every_row("kind", KINDS)
OF_TIMM = {"gemma3n"}
"""Wrappers whose class cannot be made without timm."""

EACH_BUILT = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in OF_TIMM])
WITHOUT_TOWER = {"gemma4", "gemma4_unified"}
"""Wrappers that by default have none."""

QUANTIZED = (
    "quantization_config: a quant_method that is missing is not known: parameters are counted, "
    "and bytes are not known: --dtype states a form"
)
TIED_ALONE = {"florence2"}
"""Wrappers of an encoder and a decoder, which are refused where their tables come apart."""

OF_THE_WHOLE = {"tie_word_embeddings"}
"""What the whole file says of the text part."""

TIES = list(itertools.product((None, True, False), repeat=2))


def our_total(model):
    return archcli.count_params(model).totals["trainable_params"]


def file_of(kind, text="", whole_tie=None, text_tie=None):
    """A wrapper's config.json around a tiny text part."""
    inner = text or WRAPPERS[kind].text
    stated = tiny_text(inner)
    outer = {"model_type": kind, "architectures": [NAMES.get(kind, "ForCausalLM")]}
    return {
        **outer,
        **{key: TINY[key] for key in WRAPPERS[kind].head_sizes},
        WRAPPERS[kind].key: stated | ({} if text_tie is None else {"tie_word_embeddings": text_tie}),
        **({} if whole_tie is None else {"tie_word_embeddings": whole_tie}),
    }


@pytest.mark.sample(1)
@EACH_BUILT
def test_the_language_model_is_that_of_the_class_however_it_is_tied(kind):
    for whole_tie, text_tie in TIES:
        config = file_of(kind, "", whole_tie, text_tie)
        if kind in TIED_ALONE and False in (whole_tie, text_tie):
            with pytest.raises(ArchError, match="tie_word_embeddings"):
                imported_file(config)
            continue
        theirs = sum(tensor.numel() for tensor in language_model(their_wrapper(config)).values())
        assert our_total(imported_file(config)) == theirs, (whole_tie, text_tie)


OF_ITS_OWN = ("voxtral_realtime",)
"""Classes that hand their text a vector of the delay, which texts of other classes leave unread.

Its text part states a tie, too, where the whole file's alone is read: see the tests of ties below.
"""
TIE = "tie_word_embeddings"


@pytest.mark.long
@EACH_KIND
def test_the_text_part_that_a_class_expects_is_the_one_in_the_table(kind):
    spec, wrapper = transformers.CONFIG_MAPPING[kind].sub_configs_defaults["text_config"], WRAPPERS[kind]
    assert wrapper.text == (getattr(spec, "model_type", "") or spec.config_class.model_type)
    assert wrapper.any_text == (spec.config_class is transformers.AutoConfig and kind not in OF_ITS_OWN)
    assert wrapper.partial == bool(spec.init_kwargs and not wrapper.defaults)
    unread = {"use_cache", "eos_token_id", "rope_parameters", *({TIE} if kind in OF_ITS_OWN else ())}
    assert wrapper.defaults in ({}, {k: v for k, v in spec.init_kwargs.items() if k not in unread})


@every_row("kind", TEXTS)
def test_a_text_part_has_the_defaults_of_its_class(kind):
    text, cls = TEXTS[kind], transformers.CONFIG_MAPPING[kind]
    theirs = {field.name: field.default for field in fields(cls)}
    of_text = {**class_defaults(kind), **text.defaults}
    ours = {**class_defaults(text.family), **family_of(text.family).defaults, **of_text}
    assert ours.pop("rope_theta", DEFAULT_THETA) == cls().rope_parameters["rope_theta"]
    known = ours.keys() & theirs.keys() - text.fixed.keys() - OF_THE_WHOLE
    assert {key: ours[key] for key in known if ours[key] != theirs[key]} == {}
    known = {key for key, value in of_text.items() if value is not None}
    assert known - {"rope_theta", "partial_rotary_factor"} <= theirs.keys()


@pytest.mark.sample(1)
@EACH_BUILT
def test_every_tensor_of_the_class_is_a_weight_or_a_tower(kind):
    config = file_of(kind)
    held = {name: tuple(tensor.shape) for name, tensor in their_wrapper(config).state_dict().items()}
    # the towers of the class are made of one layer each
    found = compare(text_alone(imported_file(config)), held, weight_map(config))
    assert wrong(found) == set()
    assert any("tower" in reason for reason in told(found).values()) == (kind not in WITHOUT_TOWER)


@pytest.mark.sample(1)
@pytest.mark.parametrize("text", ["llama", "phi", "gemma2", "granite", "qwen3_moe"])
@pytest.mark.parametrize("kind", ["llava", "llava_next", "instructblip"])
def test_another_family_inside_has_the_head_of_the_wrapper(kind, text):
    config = file_of(kind, text)
    theirs = sum(tensor.numel() for tensor in language_model(their_wrapper(config)).values())
    assert our_total(imported_file(config)) == theirs


TOWERS_OF_IT = "; those of vision_config and audio_config stand beside them"


@pytest.mark.parametrize("kind", sorted(NESTED))
def test_a_wrapper_within_another_is_read_as_it_is_alone(kind):
    thinker = file_of(WRAPPERS[kind].text, whole_tie=True)
    whole = {
        "model_type": kind,
        "architectures": ["Qwen2_5OmniModel"],
        "thinker_config": {key: value for key, value in thinker.items() if key != "architectures"},
        "talker_config": {"hidden_size": 8},
    }
    assert text_alone(imported_file(whole)) == text_alone(imported_file(thinker))
    assert import_config(whole).notes[:2] == (
        f"figures are those of the language model (thinker_config){TOWERS_OF_IT}",
        "talker (talker_config) is not counted, nor what joins it to the language model",
    )


@pytest.mark.parametrize("word", ["num_experts", "num_local_experts"])
def test_both_words_for_the_number_of_experts_are_read(word):
    model = imported_file({"model_type": "qwen3_vl_moe", "text_config": {**TINY, word: 6}})
    assert model.groups[0].layer.ffn.n_experts == 6


def test_only_a_class_that_caps_its_logits_has_a_cap():
    heads = {
        kind: imported_file(file_of(kind, "gemma2")).head for kind in ("llava", "paligemma", "instructblip")
    }
    assert {kind: head.softcap for kind, head in heads.items()} == {
        "llava": None,
        "paligemma": 30.0,
        "instructblip": 30.0,
    }


@pytest.mark.parametrize("kind", sorted(OF_REPOSITORIES))
def test_a_wrapper_of_a_repository_is_its_causal_language_model(kind):
    wrapper = WRAPPERS[kind]
    classes = wrapper.headed or (f"{kind}ForCausalLM",)
    inner = {**TINY, "model_type": "llama", "tie_word_embeddings": True}
    config = {"model_type": kind, "architectures": [*classes], wrapper.key: inner, "vision_config": {}}
    alone = {**inner, "architectures": ["LlamaForCausalLM"]}
    whole = imported_file(config)
    assert text_alone(whole) == imported_file(alone)
    if wrapper.towers:
        assert ([tower.part for tower in whole.towers], whole.uncounted) == (["vision_tower"], ())
        return
    assert (whole.towers, whole.uncounted) == ((), ("vision_config",))
    assert import_config(config).notes == (
        f"only the language model is counted ({wrapper.key})",
        "vision tower (vision_config) is not counted, nor what joins it to the language model",
    )


def test_every_part_is_named_as_not_counted():
    parts = {
        "vision_config": {},
        "qformer_config": {},
        "audio_config": {},
        "quantization_config": {"bits": 4},
    }
    notes = import_config({**file_of("llava"), **parts, "image_token_index": 3, "n_extra": 1}).notes
    assert notes == (
        "only the language model is counted (text_config)",
        "vision tower (vision_config) is not counted, nor what joins it to the language model",
        "qformer (qformer_config) is not counted, nor what joins it to the language model",
        "audio tower (audio_config) is not counted, nor what joins it to the language model",
        "the class of llava does not read 'n_extra'",
        QUANTIZED,
    )


def test_a_flat_file_states_its_language_model_itself():
    """As the first files of LLaVA do, whose class is not in transformers."""
    flat = {**TINY, "model_type": "llava", "architectures": ["LlavaLlamaForCausalLM"], "mm_hidden_size": 8}
    config = {**TINY, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    assert imported_file(flat) == imported_file(config)
    assert import_config(flat).notes[0] == "only the language model is counted (the file itself)"


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen2_5_vl"])
@pytest.mark.parametrize("tied", [True, False])
def test_positions_in_three_axes_are_plain_for_text(kind, nested, tied):
    text = {
        **TINY,
        "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]},
        "tie_word_embeddings": tied,
    }
    outer = {"model_type": kind, "architectures": [NAMES[kind]], "vision_config": {"depth": 1}}
    config = {**outer, "text_config": text} if nested else {**outer, **text}
    theirs = sum(tensor.numel() for tensor in language_model(their_wrapper(config)).values())
    model = imported_file(config)
    assert our_total(model) == theirs
    assert model.groups[0].layer.attention.position.scaling.kind == "none"
    assert not [note for note in import_config(config).notes if "understood" in note]


REFUSED = {
    "unknown-text": (file_of("llava", "blt"), "model_type 'blt' is not supported"),
    "text-of-another": (
        file_of("gemma3", "llama"),
        "text_config of model_type 'llama' is not supp",
    ),
    "no-text": ({"model_type": "mistral3"}, "key 'text_config' is missing"),
    "text-a-list": ({"model_type": "llava", "text_config": [1]}, "text_config must be a mapping"),
    "head-of-other-sizes": (
        {**file_of("ovis2", whole_tie=False), "hidden_size": 48},
        "the head has hidden_size 48, and the text part 32",
    ),
    "type-a-list": ({"model_type": "llava", "text_config": {"model_type": ["llama"]}}, "must be a string"),
    "tie-a-text": ({**file_of("llava"), "tie_word_embeddings": "no"}, "must be true or false"),
    "unknown-wrapper": (
        {**file_of("llava"), "model_type": "emu9"},
        "what its class makes of it is not",
    ),
}


@every_row(("config", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_known_is_refused_by_name(config, said):
    with pytest.raises(ArchError, match=said):
        import_config(config)


def test_no_wrapper_is_a_family():
    assert not WRAPPERS.keys() & families().keys()
    texts = {wrapper.text for wrapper in WRAPPERS.values()}
    assert texts <= families().keys() | TEXTS.keys() | {WRAPPERS[kind].text for kind in NESTED}
    assert {text.family for text in TEXTS.values()} <= families().keys()


@pytest.mark.parametrize("stated", [{}, {"vq_config": {"embed_dim": 8}}], ids=["left-out", "stated"])
def test_the_image_generator_of_janus_stands_beside_the_figures(stated):
    notes = import_config({**file_of("janus"), **stated}).notes
    about = [note for note in notes if "vq" in note]
    beside = "those of vision_config and vq_config stand beside them"
    assert [note.partition("; ")[2] for note in about] == [beside]
