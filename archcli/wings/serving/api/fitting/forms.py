"""Names of formats as `archcli fit` chooses among them, and the bits that a first choice has."""

from __future__ import annotations

from archcli.arith import ELEMENT_BITS
from archcli.modules.stored.formats import is_format, stored_format
from archcli.wings.serving.memory.answers.question import MemoryQuestion

PUBLISHED = "published"
"""First word of the name of a file's own form, `published (GPTQ, 4 bits in groups of 128)`."""
MIN_BITS = 4.0
"""Bits of a weight that the first choice has at least, where such a format fits."""
LEAST = (8192, 2048, 512)
"""Tokens of context that a format must hold to be chosen; fewer only where no format holds more."""
WIDEST = 4
"""Bytes of an element of an embedding table in the widest form, fp32."""
BYTE = 8
NEAR = 0.05
"""A format counts as smaller than the published form if it saves 5% of the bytes or more."""
RIVALS = {"llamacpp": "mlx", "mlx": "llamacpp"}
"""Engines of Macs."""


def format_of(question: MemoryQuestion) -> str:
    """The format of a question's weights: `q4_k_m`, or `published (GPTQ, 4 bits in groups of 128)`."""
    model, dtype = question.model, question.settings.dtype
    if model.quantization is None or model.stored_as:
        return model.stored_as or dtype
    label = model.quantization.label
    return f"{PUBLISHED} ({label})" if label else PUBLISHED


def has_bits(name: str | None, min_bits: float) -> bool:
    """Whether most matrices of a format have so many bits a weight; a published form is as it is."""
    return name is None or not is_format(name) or stored_format(name).bits >= min_bits


def is_narrow(name: str) -> bool:
    """Whether people run a format on a CPU, which reads all weights for a token: of 8 bits or fewer."""
    return ELEMENT_BITS.get(name, 0) <= BYTE


def is_published(name: str) -> bool:
    """Whether a format is the file's own form, which --dtype cannot name."""
    return name.startswith(PUBLISHED)
