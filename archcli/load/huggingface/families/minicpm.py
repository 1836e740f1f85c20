"""MiniCPM 1 to 4: scaled embeddings, residuals and logits."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped
from archcli.load.huggingface.whole.llama_like import llama_like

MINICPM_DEFAULTS = {
    "mlp_bias": None,
    "tie_word_embeddings": True,
    "scale_emb": 1,
    "dim_model_base": 1,
    "scale_depth": 1,
}


def _minicpm(config: Config) -> Mapped:
    """As Llama; scaled embeddings, residuals and logits (arXiv:2404.06395 section 3.1)."""
    config.only("num_experts", None, 0, default=None)
    if config.get("sparse_config", default=None):
        config.note("sparse_config selects blocks of keys in long contexts; attention is counted dense")
    config.ignore("mup_denominator", "num_experts_per_tok")
    depth, base, width = (config.number(key) for key in ("scale_depth", "dim_model_base", "hidden_size"))
    return llama_like(
        config,
        # mup_denominator scales rates of learning alone
        block={"residual_multiplier": depth.derive(depth.value / config.layers() ** 0.5)},
        embedding={"scale": config.number("scale_emb")},
        head={"scale": base.derive(base.value / width.value)},
    )


def _minicpm3(config: Config) -> Mapped:
    """Dense layers with latent attention; scaled embeddings, residuals and logits.

    A scale that is null is 1.
    """
    width, count = config.size("hidden_size"), config.layers()
    config = config.with_defaults(v_head_dim=hf.even_split(config).value)
    depth, base = hf.optional_number(config, "scale_depth"), hf.optional_number(config, "dim_model_base")
    layer = {
        "kind": "pre_norm",
        "attention": hf.latent_attention(config, "half"),
        "ffn": hf.gated(config, bias=config.flag("mlp_bias")),
        "residual_multiplier": 1.0 if depth is None else depth.derive(depth.value / count**0.5),
    }
    scale = {"scale": 1.0 if base is None else base.derive(base.value / width.value)}
    embedding = {"scale": config.number("scale_emb")}
    return hf.decoder(config, hf.rmsnorm(config), [layer] * count, embedding=embedding, head=scale)


FAMILIES = {
    **dict.fromkeys(
        ("minicpm", "minicpm4"),
        Family(
            "MiniCPM 1, 2 and 4, whose class is in their repositories: MiniCPMConfig.",
            _minicpm,
            hf.LLAMA,
            defaults=MINICPM_DEFAULTS,
            defaults_of="llama",
        ),
    ),
    "minicpm3": Family(
        "MiniCPM3: MiniCPM3Config and MiniCPM3ForCausalLM, a class since transformers 5.",
        _minicpm3,
        {**hf.LLAMA, **hf.MLA},
    ),
}
