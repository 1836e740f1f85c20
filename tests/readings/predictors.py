"""Random models that predict further tokens in training."""

from hypothesis import strategies as st

from archcli.modules import MultiTokenPrediction, NoPosition
from readings.architectures import adapters, blocks, decoders
from readings.mixers import NORMS
from readings.outputs import LINEAR, maybe


@st.composite
def predictors(draw):
    """A model that predicts further tokens, by layers of their own or like its last."""
    model = draw(decoders())
    lora = draw(
        maybe(
            adapters(model.groups, lends=model.embedding.tied).filter(
                lambda lora: "embedding" not in lora.targets
            )
        )
    )
    head = draw(LINEAR).replace(bias=False)
    embedding = model.embedding.replace(position=NoPosition(), norm=None)
    mtp = MultiTokenPrediction(
        depth=draw(st.integers(1, 2)), layer=draw(maybe(blocks(model.d_model))), norm=draw(NORMS)
    )
    return model.replace(head=head, embedding=embedding, mtp=mtp, lora=lora)
