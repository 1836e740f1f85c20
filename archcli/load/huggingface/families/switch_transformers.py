"""Switch Transformers: SwitchTransformersConfig and SwitchTransformersForConditionalGeneration.

T5 with one of E experts for each token. Fedus et al. 2021, arXiv:2101.03961.
"""

from archcli.load.huggingface.config import MOST_LAYERS, Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.networks import activation
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.whole.t5_like import ALIASES, t5_like, t5_weights

MODEL_TYPES = ("switch_transformers",)
SIZES = {"d_model": 768, "num_layers": 12, "num_decoder_layers": 12, "num_heads": 12}
SPARSE = {"num_sparse_encoder_layers": 3, "num_sparse_decoder_layers": 3, "num_experts": 8}
OWN = {"feed_forward_proj": "relu"}
HARMLESS = (
    "add_cross_attention",
    "expert_capacity",
    "router_dtype",
    "router_ignore_padding_tokens",
    "add_router_probs",
)


def mapping(config: Config) -> Mapped:
    """As T5 with experts in some layers; weights of the chosen are not normalized, none is dropped."""
    config = config.of_class(OWN, **ALIASES)
    config.ignore(*HARMLESS, "feed_forward_proj")
    depth = config.size("num_hidden_layers")
    depths = {"encoder": depth, "decoder": depth}
    if not config.stated_null("num_decoder_layers"):
        depths["decoder"] = config.size("num_decoder_layers")
    networks = {half: _networks(config, half, count) for half, count in depths.items()}
    tied = config.flag("tie_word_embeddings")
    return t5_like(config, tied, tied, networks=networks, ties=False)


def _networks(config: Config, half: str, depth: ConfigValue[int]) -> list[Mapped]:
    """The network of each layer: every n-th has experts, from the second on."""
    if depth.value > MOST_LAYERS:
        raise config.error(
            f"{depth} layers are beyond reason", f"at most {MOST_LAYERS:,} are read", depth.place
        )
    plain = {"kind": "mlp", "d_ff": config.size("d_ff"), "activation": activation(config, "dense_act_fn")}
    router = {"normalized": False, **({"bias": True} if config.flag("router_bias") else {})}
    experts = {"n_experts": config.size("num_experts"), "top_k": 1, "expert": plain, "router": router}
    routed = {"kind": "moe", **experts}
    number = config.count(f"num_sparse_{half}_layers").value
    spread = depth.value // number if number else depth.value
    step = config.count(f"{half}_sparse_step", default=spread).value
    return [routed if step == 1 or (step and i % step == 1) else plain for i in range(depth.value)]


def weights(config: Config) -> Weights:
    """T5's names, with `mlp` for what T5 calls DenseReluDense; experts have a tensor each."""
    config = config.of_class(OWN, **ALIASES)
    names = t5_weights(config, ff="mlp")
    if not config.flag("tie_word_embeddings"):
        names |= {"shared.weight": "shared.weight", "encoder.embed_tokens.weight": "source.weight"}
    for half, i in (("encoder", 1), ("decoder", 2)):
        theirs, ours = f"{half}.block.*.layer.{i}.mlp", f"{half}.layers.*.ffn"
        names |= {
            f"{theirs}.router.classifier.*": f"{ours}.router.*",
            f"{theirs}.experts.expert_#.wi.weight": f"{ours}.experts.up_proj.weight",
            f"{theirs}.experts.expert_#.wo.weight": f"{ours}.experts.down_proj.weight",
        }
    return names
