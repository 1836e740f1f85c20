"""Towers that hear: Whisper's encoder and Conformers, and a projector."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.wings.media.huggingface.towers.source import TowerSource, linear
from archcli.wings.media.huggingface.whole.vit_like import vit_like

WORDS = {
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}
NO_FIGURE = ("dropout", "activation_dropout", "encoder_layerdrop", "layerdrop", "scale_embedding")
BIASED = ["q", "v", "o"]
JOINED = 4
"""Vectors of Voxtral's encoder that become one token."""


def _whisper(source: TowerSource) -> tuple[Config, Mapped]:
    """Whisper's encoder, by its own words or the usual ones."""
    config = source.part("audio_config").with_words(**WORDS)
    config.ignore(*NO_FIGURE)
    front_end = {
        "kind": "convolved_spectrogram",
        "n_mels": config.size("num_mel_bins"),
        "positions": config.size("max_source_positions"),
        "activation": hf.activation(config, "activation_function"),
    }
    ffn = hf.mlp(config, config.size("intermediate_size"), "activation_function")
    encoder = vit_like(config, front_end, attention={"bias": BIASED}, norm=hf.layernorm(1e-5), ffn=ffn)
    config.report_unread_keys()
    return config, encoder


def qwen2_audio(source: TowerSource) -> Mapped:
    """Qwen2-Audio: means of two vectors through one linear layer."""
    _, encoder = _whisper(source)
    encoder["averaged"] = 2
    return {"part": "audio_tower", "model": encoder, "sound": "cut", "projector": [linear(source.width)]}


def voxtral(source: TowerSource) -> Mapped:
    """Voxtral: four vectors side by side through a perceptron without biases."""
    config, encoder = _whisper(source)
    width = config.size("intermediate_size").value
    if width != JOINED * config.size("hidden_size").value:
        raise config.error("intermediate_size must be four times hidden_size: the class joins by it")
    act = hf.activation(source.whole, "projector_hidden_act", default="gelu")
    steps = [
        {"kind": "merge", "block": [JOINED, 1]},
        linear(source.width, bias=False),
        {"kind": "activation", "activation": act},
        linear(source.width, bias=False),
    ]
    return {"part": "audio_tower", "model": encoder, "sound": "windows", "projector": steps}


def audioflamingo3(source: TowerSource) -> Mapped:
    """Audio Flamingo 3 and Music Flamingo: means of two vectors through a perceptron.

    Music Flamingo turns the vectors by their time before: no product.
    """
    _, encoder = _whisper(source)
    whole = source.whole
    whole.ignore("audio_frame_step", "audio_bos_token_id", "audio_eos_token_id", "rope_parameters")
    act = hf.activation(whole, "projector_hidden_act", default="gelu")
    bias = whole.flag("projector_bias", default=True)
    steps = [
        {"kind": "pool", "block": [2, 1]},
        linear(source.width, bias=bias),
        {"kind": "activation", "activation": act},
        linear(source.width, bias=bias),
    ]
    return {"part": "audio_tower", "model": encoder, "projector": steps}


def glmasr(source: TowerSource) -> Mapped:
    """GLM-ASR: Whisper's encoder with rotary positions; four vectors side by side through a perceptron."""
    config = source.part("audio_config")
    heads, width = config.size("num_attention_heads"), config.size("hidden_size")
    config.only("num_key_value_heads", heads.value, default=heads.value)
    ffn = config.size("intermediate_size")
    if ffn.value != JOINED * width.value:
        raise config.error("intermediate_size must be four times hidden_size: the class joins by it")
    front_end = {
        "kind": "chunked_spectrogram",
        "n_mels": config.size("num_mel_bins"),
        "chunk": None,
        "sinusoids": False,
    }
    attention = {"bias": BIASED, "position": half_turned(config, width.value // heads.value)}
    encoder = vit_like(config, front_end, attention=attention, norm=hf.layernorm(1e-5))
    config.report_unread_keys()
    out = source.width.value
    act = hf.activation(source.whole, "projector_hidden_act", default="gelu")
    steps = [
        {"kind": "merge", "block": [JOINED, 1]},
        linear(2 * out),
        {"kind": "activation", "activation": act},
        linear(source.width),
    ]
    return {"part": "audio_tower", "model": encoder, "projector": steps}


def half_turned(config: Config, head_dim: int) -> Mapped:
    """Rotary positions of a share of each head, by default half of it."""
    rope = config.get("rope_parameters", default=None) or {}
    if not isinstance(rope, dict) or rope.get("rope_type", "default") != "default":
        raise config.error("rope_parameters other than default are not supported")
    share = rope.get("partial_rotary_factor", config.get("partial_rotary_factor", default=0.5))
    if not hf.is_number(share) or not 0 < share <= 1:
        raise config.error(f"partial_rotary_factor {hf.short_repr(share)} is no share")
    return {"kind": "rope", "theta": rope.get("rope_theta", 10000.0), "rotary_dim": int(head_dim * share)}


def voxtral_realtime(source: TowerSource) -> Mapped:
    """Voxtral Realtime: a causal encoder with windows; several vectors side by side become one token.

    A token's vector is added to that of the word written at its time.
    """
    config, whole = source.part("audio_config").with_words(**WORDS), source.whole
    config.ignore(*NO_FIGURE, "activation_function")
    heads, width = config.size("num_attention_heads"), config.size("head_dim")
    config.only("num_key_value_heads", heads.value, default=heads.value)
    joined = whole.size("downsample_factor", default=4)
    front_end = {"kind": "causal_spectrogram", "n_mels": config.size("num_mel_bins"), "joined": joined}
    attention = {
        "head_dim": width,
        "bias": BIASED,
        "causal": True,
        "window": config.size("sliding_window"),
        "position": hf.rope(config, width),
    }
    network = hf.gated(config, bias=["down"])
    encoder = vit_like(config, front_end, attention=attention, norm=hf.rmsnorm(config), ffn=network)
    config.report_unread_keys()
    act = hf.activation(whole, "projector_hidden_act", default="gelu")
    steps = [
        {"kind": "merge", "block": [joined, 1]},
        linear(source.width, bias=False),
        {"kind": "activation", "activation": act},
        linear(source.width, bias=False),
    ]
    return {"part": "audio_tower", "model": encoder, "projector": steps, "added": True}


GRANITE_WORDS = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_dim",
    "num_attention_heads": "num_heads",
}
STACKED_RATE = 50
"""Frames of a second where two lie side by side."""


def granite_speech(source: TowerSource) -> Mapped:
    """Granite Speech: Conformer layers in blocks of 200 frames, then a Q-Former on windows of 15."""
    config = source.part("encoder_config").with_words(**GRANITE_WORDS)
    config.ignore("dropout")
    config.only("cat_hidden_layers", None, default=None)
    encoder = _granite(config)
    config.report_unread_keys()
    whole = source.whole
    if whole.flag("has_lora_adapter", default=True).value:
        whole.note("an adapter (LoRA) for sounds is not counted")
    return {"part": "audio_tower", "model": encoder, "projector": _granite_projector(source, encoder)}


def _granite(config: Config) -> Mapped:
    """The Conformer; its middle layer is conditioned on labels that it predicts."""
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    head_size = config.optional_size("dim_head")
    head_dim = width.value // heads.value if head_size is None else head_size.value
    block, most = config.size("context_size"), config.size("max_pos_emb")
    if block.value > most.value:
        raise config.error(f"context_size {block} is more than max_pos_emb {most}", at=block.place)
    attention = {
        "kind": "block_context",
        "head_dim": head_dim,
        "block": block,
        "pads_tokens": True,
        "bias": ["o"],
        "position": {"kind": "relative_vector", "left": most, "right": most},
    }
    convolution = {
        "kernel": config.size("conv_kernel_size"),
        "width": width.value * config.size("conv_expansion_factor").value,
        "bias": True,
    }
    network = {
        "kind": "mlp",
        "d_ff": width.value * config.size("feedforward_mult").value,
        "activation": "silu",
        "bias": True,
    }
    front_end = {"kind": "frames", "n_mels": config.size("input_dim"), "rate": STACKED_RATE}
    layer = {"kind": "conformer", "convolution": convolution}
    norm = hf.layernorm(1e-5)
    encoder = vit_like(
        config, front_end, attention=attention, norm=norm, ffn=network, layer=layer, final_norm=False
    )
    plain = encoder["groups"][0]["layer"]
    conditioned = {**plain, "conditioned": config.size("output_dim")}
    middle, total = config.layers() // 2, config.layers()
    counts = [(middle - 1, plain), (min(middle, 1), conditioned), (total - middle, plain)]
    return {**encoder, "groups": [{"n_layers": n, "layer": layer} for n, layer in counts if n > 0]}


def _granite_projector(source: TowerSource, encoder: Mapped) -> list[Mapped]:
    """A Q-Former on windows, and a linear layer."""
    whole = source.whole
    config = source.part("projector_config")
    whole.ignore("initializer_range", "audio_token_index", "audio_token_id")
    config.ignore("hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings")
    config.only("cross_attention_frequency", 1)
    config.only("use_qformer_text_input", False)
    if whole.inner("projector_config", {}).get("model_type", default="blip_2_qformer") != "blip_2_qformer":
        raise whole.error("a projector other than blip_2_qformer is not supported")
    window, rate = whole.size("window_size", default=15), whole.size("downsample_rate", default=5)
    if window.value % rate.value:
        raise whole.error(f"window_size {window} is no multiple of downsample_rate {rate}", at=window.place)
    width = config.size("hidden_size")
    read = config.size("encoder_hidden_size")
    if not width.value == read.value == encoder["d_model"].value:
        raise whole.error("a Q-Former of another width than its encoder is not supported", at=width.place)
    step = {
        "kind": "query_windows",
        "window": window,
        "queries": window.value // rate.value,
        "n_layers": config.size("num_hidden_layers"),
        "n_heads": config.size("num_attention_heads"),
        "norm": hf.layernorm(config.number("layer_norm_eps")),
        "ffn": hf.mlp(config, config.size("intermediate_size"), "hidden_act"),
    }
    config.report_unread_keys()
    return [step, linear(source.width)]


PHI4_FRAMES = 4000
"""The longest spectrogram that is not cut: 500 positions of eight frames."""


def phi4(source: TowerSource) -> Mapped:
    """Phi-4-multimodal: Conformer layers with a bias for each distance; one of two perceptrons runs."""
    config = source.part("audio_config").with_words(num_hidden_layers="num_blocks")
    config.ignore("dropout_rate", "feature_layer", "audio_token_id", "id2label", "problem_type", "left_chunk")
    width = config.size("hidden_size")
    config.only("chunk_size", -1)
    config.only("depthwise_multiplier", 1)
    config.only("downsample_rate", 1)
    for key in ("ext_pw_out_channel", "depthwise_separable_out_channel"):
        config.only(key, width.value)
    front_end = _phi4_front(config)
    network = {
        "kind": "glu",
        "d_ff": config.size("intermediate_size"),
        "activation": hf.activation(config, "activation"),
        "bias": True,
    }
    layer = {"kind": "conformer", "convolution": _phi4_convolution(config)}
    encoder = vit_like(config, front_end, norm=hf.layernorm(1e-5), ffn=network, layer=layer, final_norm=False)
    bias = {
        "kind": "distances",
        "max_distance": config.size("bias_max_distance"),
        "symmetric": config.flag("bias_symmetric"),
    }
    config.report_unread_keys()
    out = source.width.value
    steps = [linear(source.width), {"kind": "activation", "activation": "gelu"}, linear(source.width)]
    # the perceptron of a prompt with an image beside the sound
    idle = {"up": [out, width.value], "up_bias": out, "down": [out, out], "down_bias": out}
    return {
        "part": "audio_tower",
        "model": {**encoder, "score_bias": bias},
        "projector": steps,
        "unread": {f"vision_speech_{name}": size for name, size in idle.items()},
    }


def _phi4_convolution(config: Config) -> Mapped:
    """A causal convolution behind a gate with biases of its own."""
    return {
        "kernel": config.size("kernel_size"),
        "bias": True,
        "conv_bias": True,
        "causal": True,
        "norm": None,
        "gate": hf.activation(config, "conv_glu_type"),
        "activation": hf.activation(config, "conv_activation"),
        "gated_bias": True,
        "mixes": True,
        "overlong": True,
    }


def _phi4_front(config: Config) -> Mapped:
    """Separable convolutions, each of which halves both axes."""
    reduction = config.size("time_reduction")
    layers = reduction.value.bit_length() - 1
    if reduction.value != 1 << layers or not layers:
        raise config.error(f"time_reduction {reduction} is no power of 2", at=reduction.place)
    mels = config.size("input_size")
    left = mels.value
    for _ in range(layers):
        left = (left + 1) // 2
    config.only("nemo_final_size", left)
    return {
        "kind": "subsampled_spectrogram",
        "n_mels": mels,
        "channels": [config.size("nemo_conv_channels").value] * layers,
        "separable": True,
        "activation": hf.activation(config, "nemo_activation"),
        "most": PHI4_FRAMES * reduction.value // 8,
    }
