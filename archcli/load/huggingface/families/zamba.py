"""Zyphra's Zamba, Mamba layers that share one block of attention: ZambaConfig and ZambaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts import zamba
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation, gated, rmsnorm
from archcli.load.huggingface.parts.recurrent import LINEAR
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.whole.mamba_like import JAMBA, mamba

MODEL_TYPES = ("zamba",)
OWN = {"mamba_dt_rank": "auto"}
NETWORK = ("gate_proj", "up_proj", "down_proj")
ALIASES = {**JAMBA, "layer_types": "layers_block_type", "head_dim": "attention_head_dim"}


def mapping(config: Config) -> Mapped:
    """Mamba-1 mixers with heads; some read the stream with what a block of attention adds to it."""
    config = config.of_class(OWN, **ALIASES)
    config.ignore(*zamba.UNREAD)
    layers = _kinds(config)
    inner = config.size("expand").value * config.size("hidden_size").value
    if inner % config.size("n_mamba_heads").value:
        what = f"n_mamba_heads {config.size('n_mamba_heads')} do not divide the {inner} channels of Mamba"
        raise config.error(what, at=config.place("n_mamba_heads"))
    act = activation(config, "hidden_mamba_act")
    mixer = mamba(config, n_heads=config.size("n_mamba_heads"), activation=act)
    block = zamba.concat_block(config, _width(config), gated(config), {"kind": "none"})
    shared = {"a": block} if zamba.HYBRID in layers else None
    return decoder(config, rmsnorm(config), zamba.hybrid(config, layers, mixer, ["a"]), shared=shared)


def _kinds(config: Config) -> list[str]:
    period, offset = config.size("attn_layer_period"), config.count("attn_layer_offset")
    after = range(max(0, config.layers() - 3))
    regular = [zamba.HYBRID if i % period.value == offset.value else LINEAR for i in after]
    return zamba.kinds(config, [LINEAR, LINEAR, zamba.HYBRID, *regular])


def _width(config: Config) -> ConfigValue[int]:
    """The width of a head: stated, or its share of twice the hidden size, which is what attention reads."""
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    reads = config.optional_size("attention_hidden_size")
    if reads is not None and reads.value != 2 * hidden.value:
        what = f"attention_hidden_size {reads} must be twice hidden_size {hidden}"
        raise config.error(what, "attention reads the stream beside the embeddings", reads.place)
    return config.optional_size("head_dim") or hidden.derive(2 * hidden.value // heads.value)


def weights(config: Config) -> Weights:
    """Weight names; rows of x and of its gate lie in turn in `in_proj`."""
    config = config.of_class(OWN, **ALIASES)
    inner = config.size("expand").value * config.size("hidden_size").value
    network = {f"feed_forward.{which}.weight": f"ffn.{which}.weight" for which in NETWORK}

    def mixer(theirs: str, ours: str = "layers.*.mixer") -> Weights:
        return {
            f"{theirs}.in_proj.*": Parts((f"{ours}.in_proj.*", f"{ours}.gate_proj.*"), groups=inner),
            f"{theirs}.out_proj.*": f"{ours}.out_proj.*",
            f"{theirs}.conv1d.*": f"{ours}.conv.*",
            f"{theirs}.x_proj_weight": f"{ours}.x_proj.weight",
            **{f"{theirs}.dt_proj_{name}": f"{ours}.dt_proj.{name}" for name in ("weight", "bias")},
            **{f"{theirs}.{name}": f"{ours}.scan.{name}" for name in ("A_log", "D")},
        }

    parts = {**zamba.BLOCK, **network}
    return {**zamba.ENDS, **zamba.names(_kinds(config), 1, "shared_transf", mixer, parts)}
