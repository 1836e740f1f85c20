"""The core module library: what architectures are made of.

A class's fields are its YAML keys; its `forward` is stated once, in ops.

A name is imported when it is first asked for: a model loads the files of what it is made of and no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archcli.lazy import lazy

if TYPE_CHECKING:  # the types of the names below
    from archcli.modules.activation import *
    from archcli.modules.altup import *
    from archcli.modules.attention.base import *
    from archcli.modules.attention.compressed import *
    from archcli.modules.attention.convolved import *
    from archcli.modules.attention.cross import *
    from archcli.modules.attention.grouped import *
    from archcli.modules.attention.indexer import *
    from archcli.modules.attention.latent import *
    from archcli.modules.attention.linear import *
    from archcli.modules.attention.value_gate import *
    from archcli.modules.base import *
    from archcli.modules.batch_norm import *
    from archcli.modules.block import *
    from archcli.modules.carried import *
    from archcli.modules.context import *
    from archcli.modules.convolved import *
    from archcli.modules.decoder import *
    from archcli.modules.embedding import *
    from archcli.modules.encoder import *
    from archcli.modules.encoder_decoder import *
    from archcli.modules.ffn import *
    from archcli.modules.fields import *
    from archcli.modules.fourier import *
    from archcli.modules.frontend import *
    from archcli.modules.head import *
    from archcli.modules.heads import *
    from archcli.modules.hyper import *
    from archcli.modules.lora import *
    from archcli.modules.loss import *
    from archcli.modules.mixer import *
    from archcli.modules.model import *
    from archcli.modules.moe import *
    from archcli.modules.mtp import *
    from archcli.modules.norm import *
    from archcli.modules.norm_after import *
    from archcli.modules.packing import *
    from archcli.modules.parallel import *
    from archcli.modules.per_layer import *
    from archcli.modules.position import *
    from archcli.modules.quantization import *
    from archcli.modules.recurrent.base import *
    from archcli.modules.recurrent.delta_net import *
    from archcli.modules.recurrent.gated_norm import *
    from archcli.modules.recurrent.kda import *
    from archcli.modules.recurrent.mamba2 import *
    from archcli.modules.recurrent.rg_lru import *
    from archcli.modules.recurrent.rwkv import *
    from archcli.modules.recurrent.short_conv import *
    from archcli.modules.relative import *
    from archcli.modules.relative_key import *
    from archcli.modules.rope_scaling import *
    from archcli.modules.sandwich import *
    from archcli.modules.self_gated import *
    from archcli.modules.shared import *
    from archcli.modules.shared_sink import *
    from archcli.modules.shortcut import *
    from archcli.modules.sparsity import *
    from archcli.modules.stack import *
    from archcli.modules.training import *

HOMES = {
    ".altup": ["AltUp"],
    ".hyper": ["HyperConnected"],
    ".activation": [
        "GELU",
        "Activation",
        "GELUTanh",
        "ReLU",
        "Sigmoid",
        "SiLU",
        "Softplus",
        "SquaredReLU",
        "Swish",
        "Tanh",
        "XIELU",
    ],
    ".attention.base": ["Attention", "IndexedAttention", "LengthTemperature", "SoftmaxAttention"],
    ".attention.compressed": ["CompressedAttention"],
    ".attention.convolved": ["ConvolvedAttention"],
    ".attention.cross": ["CrossAttention"],
    ".attention.differential": ["DifferentialAttention"],
    ".attention.gate": ["OutputGate"],
    ".attention.disentangled": ["DisentangledAttention", "RelativeTable"],
    ".attention.grouped": [
        "GroupedQueryAttention",
        "MultiHeadAttention",
        "MultiQueryAttention",
        "ProjectedAttention",
        "ProjectedHeads",
    ],
    ".attention.linear": ["LinearAttention"],
    ".attention.indexer": ["Indexer"],
    ".attention.latent": ["MultiHeadLatentAttention"],
    ".attention.value_gate": ["ValueGate"],
    ".attention.mixture": ["ExpertProjection", "MixtureOfHeads"],
    ".base": ["Inline", "Module", "children", "find", "settings", "substitute"],
    ".batch_norm": ["BatchNorm"],
    ".block": ["Block", "PostNorm", "PreNorm"],
    ".carried": ["CarriedExperts", "CarriedRouting"],
    ".context": ["Context", "LayerCache"],
    ".convolved": ["ConvolvedNetwork"],
    ".embedding": ["Embedding", "Head", "JoinedTable", "LogitHead", "MaskedHead", "TransformedHead"],
    ".encoder_decoder": ["DecoderStack", "EncoderDecoder", "EncoderStack"],
    ".fields": ["Inherit"],
    ".ffn": ["GLU", "MLP", "FeedForward"],
    ".fourier": ["FourierMixer"],
    ".frontend": ["ConvFrontEnd"],
    ".head": ["OutputHead"],
    ".heads": ["AdaptiveHead", "HierarchicalHead", "SampledHead"],
    ".lora": ["LoRA"],
    ".loss": ["CrossEntropy", "Loss"],
    ".mixer": ["Mixer", "MixerFacts"],
    ".decoder": ["Decoder", "Generator"],
    ".encoder": ["Encoder"],
    ".model": ["Model"],
    ".moe": ["MixtureOfExperts", "Router"],
    ".mtp": ["MultiTokenPrediction"],
    ".norm": ["LayerNorm", "Norm", "QKNorm", "RMSNorm"],
    ".norm_after": ["ResidualPostNorm"],
    ".per_layer": ["PerLayerEmbedding"],
    ".position": ["ALiBi", "Learned", "NoPosition", "Position", "Rope", "Sinusoidal"],
    ".normed_stream": ["NormedStream"],
    ".packing": ["Packing"],
    ".parallel": ["Parallel"],
    ".parallel_mixer": ["ParallelMixer"],
    ".quantization": ["Format", "Quantization", "Rule"],
    ".recurrent.delta_net": ["DeltaRule", "GatedDeltaNet"],
    ".recurrent.kda": ["KimiDeltaAttention"],
    ".recurrent.gated_norm": ["GatedLayerNorm", "GatedNorm", "GatedRMSNorm"],
    ".recurrent.base": ["Recurrent"],
    ".recurrent.mamba2": ["Mamba2"],
    ".recurrent.short_conv": ["ShortConvolution"],
    ".recurrent.mamba": ["Mamba"],
    ".recurrent.rg_lru": ["RGLRU"],
    ".recurrent.lightning": ["LightningAttention"],
    ".recurrent.mlstm": ["MLSTM"],
    ".recurrent.retention": ["Retention"],
    ".recurrent.rwkv": ["RWKV4", "RWKVChannelMix"],
    ".relative_key": ["RelativeKey"],
    ".relative": ["LayerBuckets", "RelativeBuckets", "ScoreBias"],
    ".self_gated": ["SelfGatedRMSNorm"],
    ".shared": ["ConcatBlock", "SharedLayer"],
    ".rope_scaling": [
        "DynamicNTKScaling",
        "LinearScaling",
        "Llama3Scaling",
        "LongRopeScaling",
        "NoScaling",
        "NTKScaling",
        "ProportionalScaling",
        "RopeScaling",
        "YarnScaling",
    ],
    ".shared_sink": ["SharedSinkExperts"],
    ".sandwich": ["DoubleNorm", "Sandwich"],
    ".shortcut": ["ShortcutMoE"],
    ".sparsity": ["DilatedWindow", "FixedPattern", "Sparsity", "StridedPattern", "WindowedGlobal"],
    ".stack": ["Group", "Stack"],
    ".training": ["Training"],
}
"""The public names, by the file that defines them."""

__getattr__, __dir__ = lazy(__name__, HOMES)
__all__ = [name for names in HOMES.values() for name in names]
