"""Wrappers: a config.json that holds the config of a language model beside towers for images or sound.

It is counted as the causal language model of its class: the text part and the head, without the towers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.places import KeyPlaces
from archcli.load.huggingface.value import ConfigValue, Mapped

TIE = "tie_word_embeddings"
TOWERS = ("vision", "image", "video", "audio", "speech")
"""Words in the keys of towers; other parts, such as qformer_config, join them to the language model."""

TieRule = Callable[[Config], ConfigValue[bool] | None]
"""The tie that a whole file states; None where the text part's own holds."""

Head = Callable[[Mapped | None], Mapped | None]
"""The head of the wrapper's class, made of the head of the text part's causal language model."""


def of_whole(default: bool) -> TieRule:
    """The whole file's tie_word_embeddings, whatever the text part says."""
    return lambda whole: whole.flag(TIE, default=default)


def of_text(whole: Config) -> None:
    """The text part's tie_word_embeddings, whatever the whole file says."""
    whole.ignore(TIE)


def of_either(whole: Config) -> ConfigValue[bool] | None:
    """Tied where the whole file says so or the text part does."""
    return whole.flag(TIE, default=False) or None


def of_first(whole: Config) -> ConfigValue[bool] | None:
    """The whole file's tie_word_embeddings where it states one, else the text part's."""
    return whole.flag(TIE) if whole.get(TIE, default=None) is not None else None


def never(whole: Config) -> ConfigValue[bool]:
    """Untied, whatever the file says: the class names no tied weights."""
    whole.ignore(TIE)
    return ConfigValue(False, whole.places.start)


TIED, UNTIED = of_whole(default=True), of_whole(default=False)


def plain(head: Mapped | None) -> None:
    """An output head without a bias, a scale or a cap."""


def capped(head: Mapped | None) -> Mapped | None:
    """An output head with the text part's cap on logits."""
    return {"softcap": head["softcap"]} if head and "softcap" in head else None


def own(head: Mapped | None) -> Mapped | None:
    """The output head of the text part's own class, which the wrapper holds as a whole."""
    return head


class Wrapper(NamedTuple):
    """How a wrapper's class holds its language model.

    `text` is the family of a text part that states no model_type; `any_text`: another one is allowed.
    `called` is that model_type where it is not the family's: a class of the same layers, with other
    defaults, whose positions in three axes are equal for text. `defaults` are sizes that the class fills in
    before those of the text part's own class. `partial`: it has sizes of its own where there is no text part,
    so that a file has to state one. `headed` are names of classes that have a head, and do not end as such
    names do.
    `left_out` are keys of the text part that are not read, each with a note of what is counted instead.
    """

    text: str
    tie: TieRule
    key: str = "text_config"
    head: Head = plain
    any_text: bool = True
    partial: bool = False
    defaults: Mapping[str, Any] = {}
    headed: tuple[str, ...] = ()
    left_out: Mapping[str, str] = {}
    called: str = ""

    @property
    def own_type(self) -> str:
        """The model_type of a text part that states none."""
        return self.called or self.text


VOXTRAL = {
    "vocab_size": 131072,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 30,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000000.0,
}
GLM_ASR = {
    "vocab_size": 59264,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
}
QWEN2_VL = {
    "vocab_size": 152064,
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-5,
    "max_window_layers": 80,
    "rope_theta": 1000000.0,
}
QWEN3_VL = {"max_position_embeddings": 128000, "rope_theta": 500000.0}
PREFIX = {"use_bidirectional_attention": "tokens before the answer attend both ways; all are counted causal"}

WRAPPERS: Mapping[str, Wrapper] = {
    "audioflamingo3": Wrapper("qwen2", never),
    "blip-2": Wrapper("opt", of_text, head=own),
    "deepseek_vl": Wrapper("llama", TIED),
    "deepseek_vl_hybrid": Wrapper("llama", TIED),
    "fast_vlm": Wrapper("qwen2", of_either, partial=True),
    "fun_asr_nano": Wrapper("qwen3", TIED, partial=True),
    "gemma3": Wrapper("gemma3_text", TIED, any_text=False),
    "glmasr": Wrapper("llama", TIED, defaults=GLM_ASR),
    "got_ocr2": Wrapper("qwen2", TIED, partial=True),
    "granite_speech": Wrapper("granite", TIED),
    "granite_speech_plus": Wrapper("granite", TIED),
    "idefics2": Wrapper("mistral", UNTIED, partial=True),
    "idefics3": Wrapper("llama", UNTIED, partial=True),
    "instructblip": Wrapper("opt", of_text, head=own),
    "instructblipvideo": Wrapper("opt", of_text, head=own),
    "internvl": Wrapper("qwen2", TIED),
    "janus": Wrapper("llama", TIED),
    "kimi_k25": Wrapper("deepseek_v3", TIED),
    "lighton_ocr": Wrapper("qwen3", TIED, partial=True),
    "llama4": Wrapper("llama4_text", of_text, head=own, any_text=False),
    "llava": Wrapper("llama", of_either),
    "llava_next": Wrapper("llama", UNTIED),
    "llava_next_video": Wrapper("llama", of_either),
    "llava_onevision": Wrapper("qwen2", of_either),
    "mistral3": Wrapper("mistral", TIED, partial=True),
    "moss_transcribe_diarize": Wrapper("qwen3", TIED, partial=True),
    "musicflamingo": Wrapper("qwen2", never),
    "paligemma": Wrapper("gemma", TIED, head=capped, partial=True, left_out=PREFIX),
    "perception_lm": Wrapper("llama", of_first),
    "pp_chart2table": Wrapper("qwen2", TIED, partial=True),
    "qianfan_ocr": Wrapper("qwen3", UNTIED),
    "qwen2_audio": Wrapper("qwen2", never),
    "qwen2_vl": Wrapper("qwen2", of_either, any_text=False, defaults=QWEN2_VL, called="qwen2_vl_text"),
    "qwen2_5_vl": Wrapper("qwen2", of_either, any_text=False, defaults=QWEN2_VL, called="qwen2_5_vl_text"),
    "qwen3_vl": Wrapper("qwen3", UNTIED, any_text=False, defaults=QWEN3_VL, called="qwen3_vl_text"),
    "qwen3_asr": Wrapper("qwen3", TIED, partial=True),
    "smolvlm": Wrapper("llama", UNTIED, partial=True),
    "vibevoice": Wrapper("qwen2", of_text),
    "vibevoice_asr": Wrapper("qwen2", never),
    "video_llama_3": Wrapper("qwen2", of_either),
    "video_llava": Wrapper("llama", UNTIED),
    "vipllava": Wrapper("llama", UNTIED),
    "voxtral": Wrapper("llama", never, defaults=VOXTRAL),
    # classes that their repositories hold: a causal language model of transformers as it is
    "deepseek_vl_v2": Wrapper("deepseek_v2", of_text, "language_config", own),
    "internvl_chat": Wrapper("llama", of_text, "llm_config", own, headed=("InternVLChatModel",)),
    "multi_modality": Wrapper("llama", of_text, "language_config", own, headed=("MultiModalityCausalLM",)),
    "NVLM_D": Wrapper("qwen2", of_text, "llm_config", own, headed=("NVLM_D_Model",)),
}
"""Model types whose text part is exactly a model of a family, as the class in transformers has it."""


class TextPart(NamedTuple):
    """The config of a language model, with the wrapper that it was found in, if any."""

    config: Config
    wrapper: Wrapper | None = None

    @property
    def headed(self) -> tuple[str, ...]:
        """Names of classes that have an output head without the usual ending such as `ForCausalLM`."""
        return () if self.wrapper is None else self.wrapper.headed

    def with_head(self, mapping: Mapped) -> Mapped:
        """The mapping with the head of the wrapper's class."""
        if self.wrapper is None:
            return mapping
        rest = {key: value for key, value in mapping.items() if key != "head"}
        head = self.wrapper.head(mapping.get("head"))
        return rest if head is None else {**rest, "head": head}


def text_part(whole: Config) -> TextPart:
    """The language model's config: that of a wrapper's text part, or the file itself."""
    wrapper = WRAPPERS.get(whole.model_type)
    if wrapper is None:
        return TextPart(whole)
    for note in (*_notes(whole, wrapper), *wrapper.left_out.values()):
        whole.note(note)
    stated, places = _text(whole, wrapper)
    data = {"model_type": wrapper.own_type, **wrapper.defaults, **stated}
    data = {key: value for key, value in data.items() if key not in wrapper.left_out}
    if not wrapper.any_text and data["model_type"] != wrapper.own_type:
        what = f"a {wrapper.key} of model_type {short_repr(data['model_type'])} is not supported here"
        raise whole.error(what, f"supported: {wrapper.own_type}", places.place("model_type"))
    if wrapper.called:
        data |= {"model_type": wrapper.text, **_in_one_axis(data)}
    tie, classes = wrapper.tie(whole), whole.value("architectures", default=["ForConditionalGeneration"])
    outer = {"architectures": classes, **({} if tie is None else {TIE: tie})}
    for name, value in outer.items():
        data[name] = value.value
    places = places._replace(places={**places.places, **{name: value.place for name, value in outer.items()}})
    return TextPart(Config(data, places, notes=whole.notes), wrapper)


def _text(whole: Config, wrapper: Wrapper) -> tuple[Mapping[str, Any], KeyPlaces]:
    """The text part and the places of its keys; a file without one is flat, and states them itself."""
    text = whole.get(wrapper.key, default=None)
    if text is None:
        flat = {key: value for key, value in whole.data.items() if not _is_part(key)}
        if wrapper.partial and "hidden_size" not in flat:
            hint = "its class fills in sizes of its own, which archcli does not know"
            raise whole.error(f"key {wrapper.key!r} is missing", hint)
        return {**flat, "model_type": wrapper.own_type}, whole.places
    if not isinstance(text, dict):
        what = f"{wrapper.key} must be a mapping, not {short_repr(text)}"
        raise whole.error(what, at=whole.place(wrapper.key))
    outer = {
        key: value for key, value in whole.data.items() if key not in text and not key.endswith("_config")
    }
    whole.ignore("head_dim")
    replace(whole, data=outer).report_unread_keys()
    return text, whole.places.inner(wrapper.key)


def _in_one_axis(data: Mapping[str, Any]) -> Mapped:
    """Three-axis RoPE (mrope) rewritten as plain RoPE: for text the three positions are equal."""
    scaling = data.get("rope_scaling")
    if not isinstance(scaling, dict) or scaling.get("rope_type", scaling.get("type")) != "mrope":
        return {}
    return {"rope_scaling": {**scaling, "rope_type": "default"}}


def _is_part(key: str) -> bool:
    """Whether a key holds the config of a part, be it a tower or the language model."""
    return key.endswith("_config") and key != "quantization_config"


def _notes(whole: Config, wrapper: Wrapper) -> Iterator[str]:
    """What is counted of the file, and each part that is not."""
    place = wrapper.key if wrapper.key in whole.data else "the file itself"
    yield f"only the language model is counted ({place})"
    for key in whole.data:
        if _is_part(key) and key != wrapper.key:
            part = key.removesuffix("_config")
            name = f"{part} tower" if any(word in part for word in TOWERS) else part
            yield f"{name} ({key}) is not counted, nor what joins it to the language model"
