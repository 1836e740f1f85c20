"""Heads that draft tokens for a model: its own multi-token prediction, and EAGLE-3's one layer.

B batch, T new tokens, D d_model, V vocab_size.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Self

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph import Tensor
from archcli.modules import GLU, Decoder, GroupedQueryAttention, Model
from archcli.modules.attention.mixer import Mixer
from archcli.modules.blocks.block import Block, PreNorm
from archcli.modules.models.layers import LayerIndex
from archcli.modules.models.stack import Cached, Group
from archcli.modules.positions.position import Rope
from archcli.modules.spec.base import Size, substitute
from archcli.modules.spec.context import Context, Kept
from archcli.modules.spec.request import InputSpec, Request
from archcli.ops import Concat, KeepLast, Linear, Positions

FUSED, DRAFTED = 3, 32_000
"""Of published EAGLE-3 heads: the target's hidden states that they fuse, and the words that they draft."""
OF_MIXTURES, HEAD_DIM, KV_HEADS = 6, 128, 8
"""Of heads for mixtures and latents: width of the network over D, and attention (SpecForge's configs)."""
SHARED = ("name", "source", "vocab_size", "d_model", "max_seq_len", "norm", "embedding", "head")
"""Fields that a head has in common with its target."""


class FusedLayer(PreNorm):
    """x += A [N e | N x]; x += F(N x), where e are the embeddings. EAGLE-3, arXiv:2503.01840 section 3.1."""

    def mix(self, x: Tensor, context: Context, step: str, mixer: Mixer) -> tuple[Tensor, Kept]:
        """The stream after attention, which reads 2 D and returns D."""
        # outside of a head there are no embeddings: x stands for them
        embedded = x if context.embedding is None else context.embedding
        joined = Concat("concat")(self.norm(embedded, name="input_norm"), self.norm(x, name="hidden_norm"))
        y, kept = mixer(joined, context._replace(out_width=x.shape[-1]), name=step)
        return self.after(x, y, step), kept


class DraftHead(Decoder):
    """One layer that reads the last token and hidden states of a target, and drafts the next token.

    Of multi-token prediction it is x = layer(P [N e | N h]), with the target's table and head (DeepSeek-V3,
    arXiv:2412.19437 section 2.2). With `fuses` n it is x = layer(W [h1 | … | hn], e), and the head is one of
    its own for `drafted` words (EAGLE-3). `alone` it is without what it shares with the target.
    """

    fuses: Size | None = None
    drafted: Size | None = None
    alone: bool = False

    def inputs(self, request: Request) -> dict[str, InputSpec]:
        """Tokens, and hidden states [B, T, D] or [B, T, n D]."""
        width = self.d_model * (self.fuses or 1)
        hidden = InputSpec((request.batch_size, request.seq_len, width), "features")
        return {**super().inputs(request), "hidden": hidden}

    def forward(  # type: ignore[override]
        self,
        tokens: Tensor,
        *,
        hidden: Tensor,
        past: Number = 0,
        cache: Cached = None,
        last_only: bool = False,
    ) -> tuple[Tensor, Cached]:
        """Logits of the drafted words, and the cache of the one layer."""
        positions = Positions("positions")(tokens)
        x = hidden if self.fuses is None else Linear("fc", self.d_model)(hidden)
        # alone it has no table: the state stands for the vector of the token
        e, table = x, None
        if not self.alone:
            e, table = self.embedding(tokens, positions, self.vocab_size, self.d_model, name="embedding")
        if self.fuses is None:
            joined = Concat("concat")(self.norm(e, name="enorm"), self.norm(x, name="hnorm"))
            x = Linear("eh_proj", self.d_model)(joined)
        x, kept = self.run(x, Context(positions, past, cache=cache, embedding=e))
        y = self.apply_final_norm(KeepLast("last")(x) if last_only else x)
        if self.head is None:
            return y, kept
        tied = table if self.embedding.tied else None
        return self.head(y, self._vocabulary, tied, name="lm_head"), kept

    @property
    def _vocabulary(self) -> Number:
        """The words of a rank that the head gives logits of."""
        if self.drafted is None:
            return self.vocab_size
        return self.drafted if self.degrees is None else self.degrees.chunk(self.drafted)

    def without_shared(self) -> Self:
        """The head without what is the target's: the table, and of multi-token prediction the logits."""
        return substitute(self, {"alone": True, **({"head": None} if self.drafted is None else {})})


def mtp_head(target: Model) -> DraftHead:
    """The model's own layer of multi-token prediction. Raises ArchError where it states none."""
    if not target.mtp_depth:
        what = f"{target.name or 'this model'} states no layer of multi-token prediction"
        hint = "--set mtp.depth=1 where the checkpoint has one; else eagle3, ngram, or a smaller model"
        raise ArchError(f"--draft mtp: {what}", hint)
    predicting: Any = target.value_of("mtp")
    layer = predicting.layer or [it.block for it in LayerIndex(target)][-1]
    return _headed(target, layer, quantization=target.quantization, published_in=target.published_in)


def eagle_head(target: Model) -> DraftHead:
    """An EAGLE-3 head as published ones are: a layer of Llama's kind, as wide as the target."""
    blocks = [it.block for it in LayerIndex(target)]
    known = (block.facts(target.d_model) for block in reversed(blocks))
    facts = next((of_layer for of_layer in known if of_layer.n_heads), None)
    if facts is None:
        what = "the model has no attention whose form a head could have"
        raise ArchError(f"--draft eagle3: {what}", "--draft ngram, or a smaller model of the same words")
    heads, kv_heads, width = facts.n_heads, facts.n_kv_heads, facts.head_dim
    if facts.is_latent:
        heads, width = target.d_model // HEAD_DIM, HEAD_DIM
        kv_heads = gcd(heads, KV_HEADS)
    attention = GroupedQueryAttention(n_heads=heads, n_kv_heads=kv_heads, head_dim=width, position=Rope())
    network = blocks[-1].ffn
    ffn = GLU(d_ff=(network and network.width) or OF_MIXTURES * target.d_model)
    layer = FusedLayer(attention=attention, ffn=ffn, norm=target.norm)
    untied = target.embedding.replace(tied=False)
    drafted = min(DRAFTED, target.vocab_size)
    return _headed(target, layer, embedding=untied, fuses=FUSED, drafted=drafted)


def _headed(target: Model, layer: Block, **fields: Any) -> DraftHead:
    """A head with one layer, and what it shares with the target."""
    shared = {name: getattr(target, name) for name in SHARED}
    return DraftHead.unchecked(**{**shared, "groups": (Group(n_layers=1, layer=layer),), **fields})
