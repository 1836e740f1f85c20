"""The core module library: what architectures are made of.

A class's fields are its YAML keys; its `forward` is stated once, in ops.

Importing this package registers every `kind`.
"""

from archcli.modules.activation import GELU, Activation, GELUTanh, ReLU, Sigmoid, SiLU, SquaredReLU, Swish
from archcli.modules.attention import (
    Attention,
    CrossAttention,
    GroupedQueryAttention,
    LengthTemperature,
    LinearAttention,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    MultiQueryAttention,
    ProjectedAttention,
)
from archcli.modules.base import Inherit, Inline, Module, children, settings, substitute
from archcli.modules.block import Block, Parallel, PostNorm, PreNorm, ResidualPostNorm, Sandwich
from archcli.modules.context import Context
from archcli.modules.embedding import Embedding, Head, MaskedHead
from archcli.modules.encoder_decoder import DecoderStack, EncoderDecoder, EncoderStack
from archcli.modules.ffn import GLU, MLP, FeedForward
from archcli.modules.frontend import ConvFrontEnd
from archcli.modules.heads import AdaptiveHead, HierarchicalHead, OutputHead, SampledHead
from archcli.modules.lora import LoRA
from archcli.modules.loss import CrossEntropy, Loss
from archcli.modules.model import Decoder, Encoder, Generator, Model
from archcli.modules.moe import MixtureOfExperts, Router
from archcli.modules.mtp import MultiTokenPrediction
from archcli.modules.norm import BatchNorm, LayerNorm, Norm, QKNorm, RMSNorm
from archcli.modules.position import ALiBi, Learned, NoPosition, Position, RelativeKey, Rope, Sinusoidal
from archcli.modules.quantization import Format, Packing, Quantization, Rule
from archcli.modules.relative import RelativeBuckets, ScoreBias
from archcli.modules.rope_scaling import (
    DynamicNTKScaling,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    NoScaling,
    NTKScaling,
    RopeScaling,
    YarnScaling,
)
from archcli.modules.sparsity import DilatedWindow, FixedPattern, Sparsity, StridedPattern, WindowedGlobal
from archcli.modules.stack import Group, Stack

__all__ = [
    "GELU",
    "GLU",
    "MLP",
    "ALiBi",
    "Activation",
    "Attention",
    "BatchNorm",
    "Block",
    "Context",
    "Decoder",
    "DynamicNTKScaling",
    "Embedding",
    "FeedForward",
    "GELUTanh",
    "Group",
    "GroupedQueryAttention",
    "Head",
    "Inherit",
    "Inline",
    "LayerNorm",
    "Learned",
    "LinearScaling",
    "LoRA",
    "Llama3Scaling",
    "LongRopeScaling",
    "MixtureOfExperts",
    "Module",
    "MultiHeadAttention",
    "MultiHeadLatentAttention",
    "MultiQueryAttention",
    "NTKScaling",
    "NoPosition",
    "NoScaling",
    "Norm",
    "ResidualPostNorm",
    "Parallel",
    "Position",
    "Packing",
    "PostNorm",
    "Quantization",
    "Rule",
    "Format",
    "PreNorm",
    "ProjectedAttention",
    "QKNorm",
    "RMSNorm",
    "ReLU",
    "Rope",
    "RopeScaling",
    "Router",
    "Sandwich",
    "SiLU",
    "Sigmoid",
    "Sinusoidal",
    "SquaredReLU",
    "Swish",
    "YarnScaling",
    "ConvFrontEnd",
    "DecoderStack",
    "EncoderStack",
    "LengthTemperature",
    "MaskedHead",
    "Encoder",
    "EncoderDecoder",
    "Model",
    "RelativeBuckets",
    "ScoreBias",
    "Stack",
    "CrossAttention",
    "DilatedWindow",
    "FixedPattern",
    "Sparsity",
    "StridedPattern",
    "WindowedGlobal",
    "LinearAttention",
    "RelativeKey",
    "AdaptiveHead",
    "CrossEntropy",
    "Generator",
    "HierarchicalHead",
    "Loss",
    "MultiTokenPrediction",
    "OutputHead",
    "SampledHead",
    "children",
    "settings",
    "substitute",
]
