"""X-MOD, RoBERTa with an adapter for each language: XmodConfig, XmodForMaskedLM and the other heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import mlp
from archcli.load.huggingface.weights.map import Rule, Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import ROBERTA_HEADS, after_padding, bert_like, with_second_bias

MODEL_TYPES = ("xmod",)


def mapping(config: Config) -> Mapped:
    """As RoBERTa, with a bottleneck behind each network; of the languages' adapters a pass runs one."""
    config = config.of_class()
    for key in ("pre_norm", "adapter_layer_norm", "adapter_reuse_layer_norm", "ln_before_adapter"):
        config.only(key, config.defaults[key])
    position = after_padding(config)
    whole = bert_like(
        config,
        "Xmod",
        ROBERTA_HEADS,
        embedding={"position": position},
        head={"activation": "gelu"},
        max_seq_len=position["max_seq_len"],
    )
    adapted = _adapters(config)
    groups = [{**group, "layer": {**group["layer"], **adapted}} for group in whole["groups"]]
    return with_second_bias(config, {**whole, "groups": groups})


def _adapters(config: Config) -> Mapped:
    """The fields of a layer: the adapter that runs, and the shapes of those that do not."""
    hidden, factor = config.size("hidden_size"), config.size("adapter_reduction_factor")
    width = hidden.derive(hidden.value // factor.value)
    if width == 0:
        what = f"adapter_reduction_factor {factor} leaves nothing of hidden_size {hidden}"
        raise config.error(what, at=factor.place)
    languages, runs = _languages(config)
    shapes = {"up": [width.value, hidden.value], "up_bias": [width.value]}
    shapes |= {"down": [hidden.value, width.value], "down_bias": [hidden.value]}
    held = {
        f"adapter_{index}_{name}": shape
        for index, language in enumerate(languages)
        if language != runs
        for name, shape in shapes.items()
    }
    if held:
        config.note(f"adapters of {len(languages)} languages are parameters; a pass runs that of {runs}")
    return {"adapter": mlp(config, width, "hidden_act"), **({"unread": held} if held else {})}


def _languages(config: Config) -> tuple[list[str], str]:
    """The languages, each once, and the one whose adapter runs: the default, else the first."""
    stated = config.value("languages")
    languages = stated.value
    if not isinstance(languages, list) or not languages or not all(map(_is_name, languages)):
        what = f"languages must be a list of names, not {short_repr(languages)}"
        raise config.error(what, at=stated.place)
    chosen = config.get("default_language", default=languages[0])
    if chosen not in languages:
        what = f"default_language {short_repr(chosen)} is none of the languages"
        raise config.error(what, at=config.place("default_language"))
    return [*dict.fromkeys(languages)], chosen


def _is_name(language: object) -> bool:
    return isinstance(language, str) and language != "" and "." not in language


def weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, and those of each language's adapter."""
    config = config.of_class()
    languages, runs = _languages(config)
    adapters: dict[str, Rule] = {}
    for index, language in enumerate(languages):
        place = f"[roberta.]encoder.layer.*.output.adapter_modules.{language}"
        for theirs, ours in (("dense1", "up"), ("dense2", "down")):
            held = f"layers.*.adapter_{index}_{ours}"
            runs_as = f"layers.*.adapter.{ours}_proj"
            for kind, end in (("weight", ""), ("bias", "_bias")):
                rule = f"{runs_as}.{kind}" if language == runs else f"{held}{end}.weight"
                adapters[f"{place}.{theirs}.{kind}"] = rule
    tied = tied_names("lm_head.decoder.weight", "lm_head.bias", bool(config.flag("tie_word_embeddings")))
    return {**encoder_names("roberta"), **adapters, **ROBERTA_HEAD, **tied}
