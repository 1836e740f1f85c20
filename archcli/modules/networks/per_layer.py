"""Per-layer embeddings: a second, narrow vector per token and layer (Gemma 3n, Gemma 4).

B batch, T new tokens, D d_model, L layers, w width.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules.networks.activation import Activation
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Inherit, Module, Size
from archcli.modules.spec.context import Context
from archcli.ops import Add, Linear, Lookup, Multiply, Scale, SplitHeads, TakeStream, WithinTable

TABLE, INPUT = "per_layer_embedding", "per_layer_input"
"""Headings of the table, and of the matrices before and after its vectors."""


class PerLayerEmbedding(Module):
    """e = (norm(D^-1/2 P x) + sqrt(w) table[id]) / sqrt(2), [B, T, L, w], for embeddings x [B, T, D].

    One table [vocab_size, L w] holds the vectors of all layers, P is [L w, D]; the norm, of width w, is one
    for all. Tokens beyond `vocab_size` have the vector of id 0.

    Its source is the code of Gemma3nTextModel and Gemma4TextModel in transformers; no paper describes it.
    """

    group: ClassVar[str] = INPUT
    width: Size
    vocab_size: Size
    norm: Annotated[Norm, Inherit("norm")]

    def forward(self, tokens: Tensor, x: Tensor, n_layers: Number) -> Tensor:
        """Ids [B, T] and embeddings [B, T, D] to [B, T, L, w]."""
        ids = WithinTable("within", self.vocab_size)(tokens)
        rows = Lookup("tokens", self.vocab_size, n_layers * self.width)(ids, group=TABLE)
        rows = Scale("tokens_scale", self.width**0.5)(rows)
        projected = Linear("projection", n_layers * self.width)(x)
        projected = Scale("projection_scale", x.shape[-1] ** -0.5)(projected)
        normed = self.norm(SplitHeads("projection_layers", n_layers)(projected), name="norm", group=INPUT)
        both = Add("add", meets=False)(normed, SplitHeads("token_layers", n_layers)(rows))
        # per_layer_input_scale of Gemma3nTextModel, a constant
        halved: Tensor = Scale("scale", 2**-0.5)(both)
        return halved


def gated_by_layer(x: Tensor, context: Context, activation: Activation, norm: Norm) -> Tensor:
    """N(P(g(G x) * e)) of a stream x [B, T, D] and the layer's own embedding e [B, T, w]."""
    if context.per_layer is None:
        raise ArchError("a layer with per_layer_gate reads the per_layer_embedding of its model")
    embedding = TakeStream("per_layer_own", context.layer)(context.per_layer)
    gate = Linear("per_layer_gate", embedding.shape[-1])(x, group=INPUT)
    gate = activation(gate, name="per_layer_activation", group=INPUT)
    gated = Multiply("per_layer_gated")(gate, embedding, group=INPUT)
    y = Linear("per_layer_proj", x.shape[-1])(gated, group=INPUT)
    normalized: Tensor = norm(y, name="per_layer_norm", group=INPUT)
    return normalized
