"""Llama beside images, sound or proteins: Chameleon, Llama 3.2 Vision, Molmo 2, Moshi, Evolla."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.weights.auxiliary import TOWER
from archcli.load.huggingface.whole.llama_like import llama_like

CHAMELEON_WEIGHTS = {
    **hf.LLAMA,
    **hf.QK_NORM,
    "[model.]layers.*.self_attn.q_norm.bias": "layers.*.attention.q_norm.bias",
    "[model.]layers.*.self_attn.k_norm.bias": "layers.*.attention.k_norm.bias",
}


def _chameleon(config: Config) -> Mapped:
    """As Llama with a LayerNorm for each query and key head; swin_norm puts norms after sublayers."""
    config.ignore("model_parallel_size", "vocabulary_map")
    heads, hidden = config.size("num_attention_heads"), config.size("hidden_size")
    if hidden.value % heads.value:
        raise config.error(f"{heads} heads do not divide hidden_size {hidden}", at=heads.place)
    if "head_dim" in config.data and config.get("head_dim", default=None) != hf.even_split(config):
        raise config.error("head_dim is not read by this class", "leave it out", config.place("head_dim"))
    norm = {"per": "head_distinct", "norm": hf.layernorm(1e-5)}
    return llama_like(
        config,
        heads={"qk_norm": norm},
        block={"kind": "norm_after" if config.flag("swin_norm") else "pre_norm"},
    )


def _moshi(config: Config) -> Mapped:
    """As Llama, never tied, with a row more in the token table and a window in every layer."""
    config.ignore("tie_word_embeddings", "audio_vocab_size", "audio_encoder_config", "depth_decoder_config")
    if "depth_decoder_config" in config.data or "audio_encoder_config" in config.data:
        config.note("only the text decoder is counted, not the depth decoder nor the audio encoder")
    both = config.size("ffn_dim")
    if both.value % 2:
        raise config.error(f"ffn_dim {both} must be even", "its halves are gate and up", both.place)
    ffn = {
        "kind": "glu",
        "d_ff": both.derive(both.value // 2),
        "activation": hf.activation(config, "hidden_act"),
    }
    embedding = {"tied": False, "extra_rows": 1}
    return llama_like(config, ffn=ffn, slides=lambda _: True, embedding=embedding)


LANGUAGE: Weights = hf.renamed(
    hf.LLAMA,
    {
        "[model.]layers.*.self_attn.q_proj.linear.*": "layers.*.attention.q_proj.*",
        "[model.]layers.*.self_attn.k_proj.linear.*": "layers.*.attention.k_proj.*",
        "[model.]layers.*.self_attn.v_proj.linear.*": "layers.*.attention.v_proj.*",
        "[model.]layers.*.self_attn.o_proj.linear.*": "layers.*.attention.o_proj.*",
        "[model.]layers.*.mlp.fc1.*": Parts(("layers.*.ffn.gate_proj.*", "layers.*.ffn.up_proj.*")),
        "[model.]layers.*.mlp.fc2.*": "layers.*.ffn.down_proj.*",
    },
)
MOSHI_WEIGHTS: Weights = {
    **{f"[decoder.]{name}": rule for name, rule in LANGUAGE.items()},
    "embed_tokens.*.weight": Auxiliary(TOWER),
    "depth_decoder.**": Auxiliary(TOWER),
    "audio_encoder.**": Auxiliary(TOWER),
}


IMAGE_TOKENS = "image_tokens"
"""The name of the vectors of tokens beyond the vocabulary, which the head does not predict."""
MLLAMA_IMAGE_TOKENS = 8
"""Rows of the class's table beyond the vocabulary."""

MLLAMA_CROSSING: dict[str, str] = {
    **{f"cross_attn.{n}_proj.weight": f"cross_attention.{n}_proj.weight" for n in "qkvo"},
    **{f"cross_attn.{n}_norm.weight": f"cross_attention.{n}_norm.weight" for n in "qk"},
    **{f"mlp.{n}_proj.weight": f"ffn.{n}_proj.weight" for n in ("gate", "up", "down")},
    "input_layernorm.weight": "cross_attention_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "cross_attn_attn_gate": "cross_attention_gate.gate",
    "cross_attn_mlp_gate": "ffn_gate.gate",
}
"""Weights of a layer of cross attention: names of the class, and archcli's."""


def _mllama(config: Config) -> Mapped:
    """As Llama, with cross-attention layers to images; a text without images skips these."""
    # the class ties no tables: that of tokens has more rows, for images
    config.ignore("head_dim", "tie_word_embeddings")
    width, count, crossing = hf.even_split(config), config.layers(), _crossing(config)
    attention, ffn = hf.attention(config, width), hf.gated(config)
    layer = {"kind": "pre_norm", "attention": attention, "ffn": ffn}
    heads: Mapped = {key: attention[key] for key in ("n_heads", "head_dim") if key in attention}
    cross: Mapped = {**heads, "n_kv_heads": hf.key_value_heads(config), "qk_norm": hf.PER_HEAD}
    reading = {"kind": "gated_pre_norm", "cross_attention": cross, "ffn": ffn}
    if crossing:
        config.note("layers of cross attention read images; text passes them by")
    layers = [reading if index in crossing else layer for index in range(count)]
    embedding = {"tied": False, "extra_rows": MLLAMA_IMAGE_TOKENS}
    return hf.decoder(config, hf.rmsnorm(config), layers, embedding=embedding)


def _crossing(config: Config) -> set[int]:
    """The indices of the layers of cross-attention."""
    layers = config.get("cross_attention_layers")
    if not isinstance(layers, list) or not all(isinstance(index, int) for index in layers):
        what = f"cross_attention_layers must be a list of whole numbers, not {hf.short_repr(layers)}"
        raise config.error(what, at=config.place("cross_attention_layers"))
    return {*layers}


def _mllama_weights(config: Config) -> Weights:
    """Weight names, layer by layer: layers of cross attention have names in common with the others."""
    crossing = _crossing(config)
    names: dict[str, Rule] = {name: rule for name, rule in hf.LLAMA.items() if "layers.*" not in name}
    for index in range(config.layers()):
        layer = f"layers.{index}."
        if index in crossing:
            for theirs, ours in MLLAMA_CROSSING.items():
                names[f"[model.]{layer}{theirs}"] = f"{layer}{ours}"
            continue
        for name, rule in hf.LLAMA.items():
            if isinstance(rule, str) and "layers.*." in name:
                names[name.replace("layers.*.", layer)] = rule.replace("layers.*.", layer)
    return names


MOLMO2_NORMS = {"qwen3": hf.PER_HEAD, "olmo": {"per": "full"}}


def _molmo2(config: Config) -> Mapped:
    """As Qwen 3, or with OLMo 2's norms by qk_norm_type and norm_after; RoPE is scaled in some layers."""
    config.only("qk_norm_type", *MOLMO2_NORMS)
    width, count, scaled = (
        hf.head_dim(config),
        config.layers(),
        config.get("rope_scaling_layers", default=None),
    )
    if scaled is not None and not isinstance(scaled, list):
        what = f"rope_scaling_layers must be a list, not {hf.short_repr(scaled)}"
        raise config.error(what, at=config.place("rope_scaling_layers"))
    place = hf.rope(config, width)
    plain = place.derive({key: value for key, value in place.value.items() if key != "scaling"})
    norm = MOLMO2_NORMS[config.get("qk_norm_type")]
    bias = ["q", "k", "v"] if config.flag("attention_bias") else False
    kind, ffn = "norm_after" if config.flag("norm_after") else "pre_norm", hf.gated(config)
    by_scaling = {
        is_scaled: {
            "kind": kind,
            "attention": hf.attention(config, width, bias=bias, qk_norm=norm, position=position),
            "ffn": ffn,
        }
        for is_scaled, position in ((True, place), (False, plain))
    }
    more = config.count("additional_vocab_size")
    unread = {IMAGE_TOKENS: [more.value, config.size("hidden_size").value]} if more else None
    layers = [by_scaling[scaled is None or index in scaled] for index in range(count)]
    return hf.decoder(config, hf.rmsnorm(config), layers, unread=unread)


def _molmo2_weights(config: Config) -> Weights:
    """Weight names, Llama's and those of files: queries, keys and values in one, up before gate."""
    tables = ("embedding.tokens.weight", f"{IMAGE_TOKENS}.weight")
    layer = "[model.]transformer.blocks.*"
    return {
        **hf.LLAMA,
        **hf.QK_NORM,
        **({"[model.]embed_tokens.weight": Parts(tables)} if config.count("additional_vocab_size") else {}),
        "[model.]transformer.wte.embedding": tables[0],
        "[model.]transformer.wte.new_embedding": tables[1],
        "[model.]transformer.ln_f.weight": "final_norm.weight",
        f"{layer}.attn_norm.weight": "layers.*.attention_norm.weight",
        f"{layer}.ff_norm.weight": "layers.*.ffn_norm.weight",
        f"{layer}.self_attn.att_proj.*": Parts(hf.FUSED),
        f"{layer}.self_attn.attn_out.weight": "layers.*.attention.o_proj.weight",
        f"{layer}.self_attn.q_norm.weight": "layers.*.attention.q_norm.weight",
        f"{layer}.self_attn.k_norm.weight": "layers.*.attention.k_norm.weight",
        f"{layer}.mlp.ff_proj.weight": Parts(
            ("layers.*.ffn.up_proj.weight", "layers.*.ffn.gate_proj.weight")
        ),
        f"{layer}.mlp.ff_out.weight": "layers.*.ffn.down_proj.weight",
    }


OF_PROTEINS = (
    "protein_encoder_config",
    *(f"resampler_{key}" for key in ("depth", "dim_head", "heads", "num_latents", "ff_mult")),
    "aligner_attention_probs_dropout_prob",
    *("add_cross_attention", "is_decoder"),
)
"""Keys of the encoder and of the resampler behind it, and some that the class does not read."""

EVOLLA_UNREAD = {
    "adapter_q": "query.weight",
    "adapter_q_bias": "query.bias",
    "adapter_k": "key_protein.weight",
    "adapter_k_bias": "key_protein.bias",
    "adapter_v": "value_protein.weight",
    "adapter_v_bias": "value_protein.bias",
    "adapter_o": "out_proj.weight",
    "adapter_norm": "attention_norm.weight",
    "adapter_ffn_norm": "ff.norm.weight",
    "adapter_ffn_norm_bias": "ff.norm.bias",
    "adapter_up_proj": "ff.fc1.weight",
    "adapter_down_proj": "ff.fc2.weight",
    "adapter_gate": "gate_attention",
    "adapter_ffn_gate": "gate_ffw",
    "adapter_o_bias": "out_proj.bias",
}
"""Weights of an adapter to proteins: archcli's names, and those of the class."""


def _evolla(config: Config) -> Mapped:
    """As Llama, never tied; adapters to proteins after some layers are not read by text."""
    config.ignore(*OF_PROTEINS, "tie_word_embeddings")
    config.note("only the language model is counted, not the encoder of proteins (protein_encoder_config)")
    config.note("adapters to proteins are counted as parameters; text passes them by")
    unread, period = _evolla_unread(config), _period(config)

    def adapted(layers: list[Mapped]) -> list[Mapped]:
        """The layers with gated networks, and with adapters after the last of each period."""
        ffn = hf.gated(config, bias=config.flag("mlp_bias"))
        ends = [{} if (index + 1) % period else {"unread": unread} for index in range(len(layers))]
        return [{**layer, "ffn": ffn, **end} for layer, end in zip(layers, ends, strict=True)]

    return llama_like(config, networks=adapted, embedding={"tied": False})


def _period(config: Config) -> int:
    """The distance between layers with an adapter."""
    return max(config.layers() // config.size("aligner_num_add_layers").value, 1)


def _evolla_unread(config: Config) -> Mapped:
    """The shapes of an adapter's weights."""
    d_model, n_heads = config.size("hidden_size").value, config.size("num_attention_heads").value
    inner, q = d_model * config.size("aligner_ffn_mult").value, d_model // n_heads * n_heads
    shapes = [
        *([q, d_model], [q], [q, d_model], [q], [q, d_model], [q], [d_model, d_model], [d_model]),
        *([d_model], [d_model], [inner, d_model], [d_model, inner], [1], [1]),
        *([[d_model]] if config.flag("aligner_enable_bias") else []),
    ]
    return dict(zip(EVOLLA_UNREAD, shapes, strict=False))


EVOLLA_WEIGHTS: Weights = {
    **hf.LLAMA,
    **{
        f"[model.]layers.*.adapter.{theirs}": hf.idle(f"layers.*.{ours}.weight")
        for ours, theirs in EVOLLA_UNREAD.items()
    },
    "[model.]protein_encoder.**": Auxiliary(TOWER),
}


FAMILIES = {
    "chameleon": Family(
        "Chameleon, of text and image tokens: ChameleonConfig and ChameleonForConditionalGeneration.",
        _chameleon,
        CHAMELEON_WEIGHTS,
        towers=(hf.TowerRow(key="vq_config"),),
    ),
    "moshi": Family(
        "Moshi's text decoder: MoshiConfig and MoshiForCausalLM, without its audio parts.",
        _moshi,
        MOSHI_WEIGHTS,
    ),
    "mllama_text_model": Family(
        "Llama 3.2 Vision's text part: MllamaTextConfig and MllamaForConditionalGeneration.",
        _mllama,
        _mllama_weights,
    ),
    "molmo2_text": Family(
        "Molmo 2's text part: Molmo2TextConfig and Molmo2ForConditionalGeneration.",
        _molmo2,
        _molmo2_weights,
        aliases={"attention_bias": "qkv_bias", "rms_norm_eps": "layer_norm_eps"},
    ),
    "evolla": Family(
        "Evolla's language model: "
        "EvollaConfig and EvollaForProteinText2Text without the encoder of proteins.",
        _evolla,
        EVOLLA_WEIGHTS,
        headed=("EvollaForProteinText2Text",),
    ),
}
