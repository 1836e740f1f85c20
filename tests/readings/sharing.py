"""Random decoders whose layers use blocks that their stack shares."""

from hypothesis import strategies as st

from archcli.modules import ConcatBlock, Decoder, Group, MultiHeadAttention, SharedLayer
from readings import recurrent
from readings.architectures import DENSE, blocks, decoders
from readings.mixers import NORMS
from readings.outputs import BOOL, maybe

RANKS = st.integers(2, 4)


@st.composite
def concatenating(draw):
    """A block that reads the embeddings beside the stream."""
    attention = MultiHeadAttention(n_heads=draw(st.integers(1, 3)), head_dim=draw(st.integers(1, 4)))
    return ConcatBlock(attention=attention, ffn=draw(maybe(DENSE)), norm=draw(NORMS))


@st.composite
def uses(draw, name, *, concat):
    """A layer that uses a block, with adapters at its queries and a mixer of its own where it draws them."""
    return SharedLayer(
        use=name,
        norm=draw(NORMS),
        project=concat and draw(BOOL),
        adapter_rank=draw(maybe(RANKS)) if concat else None,
        adapter_targets=("q", "v"),
        mixer=draw(maybe(recurrent.MIXERS)),
        ffn=draw(maybe(DENSE)),
    )


@st.composite
def sharing(draw):
    """A decoder with one or two more groups, all layers of which use one of two shared blocks."""
    model = draw(decoders().filter(lambda model: model.lora is None))
    concat = draw(BOOL)
    block = draw(concatenating() if concat else blocks(model.d_model))
    layers = uses("a", concat=concat)
    more = [
        Group(n_layers=draw(st.integers(1, 2)), layer=draw(layers)) for _ in range(draw(st.integers(1, 2)))
    ]
    fields = {name: getattr(model, name) for name in model.fields}
    return Decoder(**{**fields, "shared": {"a": block}, "groups": (*model.groups, *more)})
