"""Phi-3.5-MoE: PhimoeConfig and PhimoeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import head_dim, window
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import layernorm
from archcli.load.huggingface.parts.rope import position, stated
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MIXTRAL_EXPERTS
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("phimoe",)
CHOSEN = 2
"""Experts that the class's router chooses, whatever num_experts_per_tok says."""


def mapping(config: Config) -> Mapped:
    """As Mixtral with LayerNorm, biases, and two experts that are chosen one after the other."""
    config = config.of_class(num_experts="num_local_experts")
    config.ignore("input_jitter_noise")
    heads = {
        "bias": config.flag("attention_bias"),
        "position": _position(config, head_dim(config)),
        "window": window(config),
    }
    head = {"bias": True} if config.flag("lm_head_bias") else None
    norm = layernorm(config.number("rms_norm_eps"))
    return llama_like(config, heads=heads, ffn=_experts(config), norm=norm, head=head)


def _experts(config: Config) -> Mapped:
    asked, jitter = config.value("num_experts_per_tok"), config.number("router_jitter_noise")
    if asked != CHOSEN:
        config.note(f"num_experts_per_tok {asked} is not read: the class's router chooses {CHOSEN}")
    if jitter.value <= 0:
        what = f"router_jitter_noise must be above 0, not {jitter}"
        raise config.error(what, "the router divides experts by it", jitter.place)
    router = {"scores": "sparsemixer", "jitter": jitter}
    return experts(config, width="intermediate_size", router=router, top_k=asked.derive(CHOSEN))


def _position(config: Config, width: ConfigValue[int]) -> ConfigValue[Mapped]:
    """RoPE; of LongRoPE short_mscale and long_mscale multiply the rotation, alike in published files."""
    known = stated(config)
    kind, short, long = (known.get(key) for key in ("rope_type", "short_mscale", "long_mscale"))
    kind = known.get("type") if kind is None else kind
    if kind is None or kind == "default":
        return position(config, width, known)
    if kind != "longrope" or short is None or short != long:
        hint = "longrope with short_mscale equal to long_mscale is"
        raise config.error(f"rope scaling {kind} is not supported as stated", hint, kind.place)
    return position(config, width, {**known, "attention_factor": short})


WEIGHTS: Weights = {
    **LLAMA,
    **EXPERTS,
    **MIXTRAL_EXPERTS,
    "[model.]layers.*.mlp.router.weight": "layers.*.ffn.router.weight",
}
