"""adapter_config.json of peft: the low-rank adapters that it states, in archcli's words.

The base model is named in it and read like any other; no weight of the adapter is. What archcli's `lora` does
not have (trained biases) is refused, as it would be miscounted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from archcli.errors import ArchError, quote
from archcli.load.foreign.adapted import ALL, TargetError, adapted_by
from archcli.load.foreign.class_names import ClassNames, class_names
from archcli.load.foreign.matrices import saved_by
from archcli.load.foreign.variants import RankAndScale, Variants, read_variants
from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigJson, ConfigValue
from archcli.load.huggingface.weights.modules import listed
from archcli.load.loaded import Loaded
from archcli.modules.adapters.lora import HEAD, TABLE, target_of
from archcli.modules.spec.trace import outline

NAMES = {
    "q": "q_proj q query q_lin wq",
    "k": "k_proj k key k_lin wk",
    "v": "v_proj v value v_lin wv",
    "o": "o_proj o out_proj out_lin output_proj",
    "gate": "gate_proj w1 wi_0",
    "up": "up_proj w3 wi wi_1 fc1 c_fc fc_in",
    "down": "down_proj w2 wo fc2 fc_out",
    "q_a": "q_a_proj",
    "q_b": "q_b_proj",
    "kv_a": "kv_a_proj_with_mqa",
    "kv_b": "kv_b_proj",
    HEAD: "lm_head",
    TABLE: "embed_tokens wte word_embeddings shared",
}
"""archcli's words in `lora.targets`, and names of the same linear layers in classes of transformers."""
WORDS = {name: word for word, names in NAMES.items() for name in names.split()}

FUSED = frozenset(
    ("c_attn", "query_key_value", "qkv_proj", "Wqkv", "W_pack", "gate_up_proj", "c_proj", "in_proj", "dense")
)
"""One matrix for several projections, whose adapter is smaller than theirs; or a name of several matrices."""

REFUSED = (
    *("layer_replication", "target_parameters", "trainable_token_indices"),
    *("lora_bias", "use_qalora"),
    *("use_bdlora", "monteclora_config", "velora_config", "arrow_config"),
)
"""Settings by which other numbers are trained than a matrix A and B for each target."""

IGNORED = """
    peft_type task_type inference_mode revision auto_mapping fan_in_fan_out init_lora_weights loftq_config
    eva_config corda_config lora_ga_config megatron_config megatron_core runtime_config
    peft_version qalora_group_size alora_invocation_tokens ensure_weight_tying
"""
"""Keys that change no number of trained weights: how they begin, how they are run, who wrote the file."""

PARTLY = (
    *("blip", "encoder-decoder", "esm", "evolla", "fsmt"),
    *("longcat_flash", "luke", "mobilebert", "molmo2", "xmod", "zamba2"),
)
"""Types whose class has linear layers that no pass over text reads, such as LUKE's queries of entities."""

LoadBase = Callable[[Sequence[str]], Loaded]
"""Loads the base model with overrides."""


class Adapter(NamedTuple):
    """The low-rank adapters of a file.

    config: the file. base: the name of the base model.
    dropout: of the adapters' inputs. variants: ranks and scales, by the names of modules.
    targets: target_modules. saved: modules_to_save, which are trained whole. dora: use_dora.
    """

    config: Config
    base: ConfigValue[str]
    dropout: float
    variants: Variants
    targets: ConfigValue[Any]
    saved: ConfigValue[Any]
    dora: bool

    @property
    def lora(self) -> dict[str, Any]:
        """The `lora` of archcli without its targets."""
        rank, alpha = self.variants.usual_setting
        sizes = {"rank": rank, "alpha": alpha, "dropout": self.dropout}
        return {**sizes, "dora": True} if self.dora else sizes


def is_adapter(data: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an adapter_config.json; a merged model's config.json has a model_type."""
    return "peft_type" in data and {"model_type", "architectures"}.isdisjoint(data)


def read_adapter(file: ConfigJson) -> Adapter:
    """Read an adapter_config.json. Raises ArchError for other methods than LoRA and for missing keys."""
    config = Config(file.data, file.places)
    config.only("peft_type", "LORA")
    for key in REFUSED:
        if config.get(key, default=None):
            what = f"{key} {short_repr(config.data[key])} is not supported"
            hint = "adapters of one rank beside frozen weights are counted"
            raise config.error(what, hint, config.place(key))
    config.only("bias", "none", default="none")
    base = config.value("base_model_name_or_path", default="")
    if not isinstance(base.value, str) or not base.value.strip():
        what, place = "base_model_name_or_path names no model", config.place("base_model_name_or_path")
        raise config.error(what, "it is a preset or a model of the hub", place)
    config.ignore(*IGNORED.split())
    dropout, variants = _sizes(config)
    targets, saved = (config.value(key, default=None) for key in ("target_modules", "modules_to_save"))
    dora = config.flag("use_dora", default=False).value
    return Adapter(config, base, dropout, variants, targets, saved, dora)


def _sizes(config: Config) -> tuple[float, Variants]:
    """The dropout; ranks and scales."""
    rank = config.size("r").value
    # peft's LoraConfig has the same defaults
    alpha = config.number("lora_alpha", default=8).value
    dropout = config.number("lora_dropout", default=0.0)
    if alpha <= 0 or not 0 <= dropout.value < 1:
        what = f"lora_alpha {alpha:g} and lora_dropout {dropout.value:g} are no scale and share"
        raise config.error(what, "a number above 0, and one from 0 to 1", config.place("lora_alpha", "r"))
    stable = config.flag("use_rslora", default=False).value
    return dropout.value, read_variants(config, RankAndScale(rank, alpha), stable=stable)


def lora_of(adapter: Adapter, base: Loaded) -> dict[str, Any]:
    """The `lora` of the base model. ArchError for targets that it does not have by itself."""
    names = class_names(base)
    saved = _saved(adapter, base, names)
    if names is not None:
        return {**adapter.lora, **_by_modules(adapter, base, names), **saved}
    if adapter.variants.are_any:
        what = f"which modules the class of {quote(base.name)} has is not known here"
        raise _refused(adapter, what, "adapters of all layers alike and of one rank are counted")
    return {**adapter.lora, "targets": _by_words(adapter, base), **saved}


def _saved(adapter: Adapter, base: Loaded, names: ClassNames | None) -> dict[str, Any]:
    """What is trained whole. ArchError for what no copy can be trained of."""
    file, modules = adapter.config, adapter.saved.value
    if not modules:
        return {}
    is_list = isinstance(modules, list) and all(isinstance(name, str) and name for name in modules)
    if not is_list or names is None:
        what = f"modules_to_save {short_repr(modules)} is not supported"
        hint = "names, such as [lm_head]" if not is_list else f"the class of {base.name} is not known here"
        raise file.error(what, hint, adapter.saved.place)
    try:
        saved, absent = saved_by(modules, base.model, names)
    except ValueError as error:
        raise file.error(f"modules_to_save: {error}", "such as lm_head", adapter.saved.place) from None
    if absent:
        file.note(f"no module of {base.name} is called {listed(absent)} of modules_to_save")
    return {"saved": saved} if saved else {}


def _by_modules(adapter: Adapter, base: Loaded, names: ClassNames) -> dict[str, Any]:
    """The targets among the modules of the base model's class, and the rules of those that differ."""
    file = adapter.config
    try:
        adapted = adapted_by(_targets(adapter), base.model, names, adapter.variants, adapter.dropout)
    except TargetError as error:
        raise _refused(adapter, f"{error.what} of {quote(base.name)}", error.hint) from None
    except ValueError:
        what = f"target_modules {short_repr(adapter.targets.value)} is a pattern that is not understood"
        raise _refused(adapter, what, "state names, such as [q_proj, v_proj]") from None
    if adapted.absent:
        file.note(f"no module of {base.name} is called {listed(adapted.absent)} of target_modules")
    if names.kind in PARTLY:
        file.note(
            f"the class of {names.kind} has more modules than a pass over text reads: where target_modules "
            "name them too, peft trains adapters of theirs, which are not counted"
        )
    if adapted.refusal:
        file.note(
            "each expert is adapted by itself, as transformers 4's class holds experts; of transformers 5's, "
            f"which holds them as one parameter, {adapted.refusal}"
        )
    elif adapted.apart is not None:
        file.note(
            "experts are one parameter in transformers 5's class, and are adapted as peft adapts that: with "
            f"each by itself {adapted.apart:,} would be trained"
        )
    return {"targets": adapted.targets, **({"rules": adapted.rules} if adapted.rules else {})}


def _targets(adapter: Adapter) -> str | list[str]:
    """target_modules: a pattern, or a list of names."""
    targets = adapter.targets.value
    if targets is None:
        what = "target_modules is left to peft's defaults"
        raise _refused(adapter, what, f"state names, such as [q_proj, v_proj], or {ALL}")
    if isinstance(targets, str) and targets:
        return targets
    if not isinstance(targets, list) or not targets or not all(isinstance(name, str) for name in targets):
        raise _refused(adapter, f"target_modules must be a list of names, not {short_repr(targets)}", "")
    return targets


def adapted(adapter: Adapter, load_base: LoadBase, overrides: Sequence[str]) -> Loaded:
    """The base model with its adapters, then with the caller's overrides.

    ArchError at the key of the file where the base is not known, or does not have the targets.
    """
    file = adapter.config
    try:
        base = load_base(())
    except ArchError as error:
        first = error.problems[0]
        what = f"the base model {quote(adapter.base.value)} is not known: {first.what}"
        raise file.error(what, first.hint, adapter.base.place) from None
    lora = f"lora={json.dumps(lora_of(adapter, base))}"
    # without the caller's overrides, so that what is wrong here is the file's mistake
    try:
        load_base((lora,))
    except ArchError as error:
        first = error.problems[0]
        raise _refused(adapter, first.what, first.hint) from None
    file.report_unread_keys()
    loaded = load_base((lora, *overrides))
    return loaded._replace(notes=(f"the base model is {base.source}", *file.notes, *loaded.notes))


def _refused(adapter: Adapter, what: str, hint: str) -> ArchError:
    return adapter.config.error(what, hint, adapter.targets.place)


def _by_words(adapter: Adapter, base: Loaded) -> list[str]:
    """archcli's words for target_modules where the class of the base model is not known."""
    targets = _targets(adapter)
    if isinstance(targets, str) or targets == [ALL]:
        what = f"target_modules {short_repr(targets)} is not supported for {quote(base.name)}"
        hint = "which matrices its class holds apart is not known here: state their names"
        raise _refused(adapter, what, hint)
    known = {name for row in outline(base.model) if (name := target_of(row.op)) is not None}
    ours = {name: _word(adapter, name) for name in targets}
    absent = next((name for name, word in ours.items() if word not in known), None)
    if absent is not None:
        what = f"{quote(absent)} of target_modules is no projection of {quote(base.name)}"
        raise _refused(adapter, what, f"it has {', '.join(sorted(known))}")
    adapter.config.note(f"whether the class of {base.name} has matrices of these names is not known here")
    return list(dict.fromkeys(ours.values()))


def _word(adapter: Adapter, name: str) -> str:
    last = name.rpartition(".")[2]
    if any(part.isdigit() for part in name.split(".")):
        what = f"target_modules name layers by number: {quote(name)}"
        raise _refused(adapter, what, "adapters of all layers alike are counted")
    if last in FUSED:
        what = f"{quote(last)} is one matrix for several projections, or several of one name"
        raise _refused(adapter, what, "its adapters are not counted: archcli holds projections apart")
    if last not in WORDS:
        raise _refused(adapter, f"target_modules name {quote(name)}, which is not known", "such as q_proj")
    return WORDS[last]
