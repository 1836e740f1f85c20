"""Types of tensors in GGUF files: which one each matrix has in a mixture such as Q4_K_M.

The rules, in formats.json, are those of `llama_tensor_get_type_impl` of llama.cpp's src/llama-quant.cpp, with
an importance matrix where a type needs one. q, k and v count as tensors of their own, as most architectures
store them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from archcli.arith import prod
from archcli.graph import Row
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.spec.base import Spec
from archcli.plugins import json_beside

TABLE = json_beside(__spec__, "formats.json")
"""Types of ggml, llama.cpp's mixtures of them, and formats of others."""


class StoredLayer(Protocol):
    """A layer of a model: the path of its rows, and its feed-forward network."""

    @property
    def path(self) -> str:
        """The path of its rows: encoder.layers.3."""

    @property
    def ffn(self) -> FeedForward | None:
        """Its feed-forward network; None without one."""


class StoredLayers(Protocol):
    """The layers of a model, as formats read them. A `LayerIndex` of `models` is one."""

    model: Spec
    ranks: int
    prefixes: list[str]

    @property
    def facts(self) -> tuple[MixerFacts, ...]:
        """The facts of each distinct layer."""

    def __iter__(self) -> Iterator[StoredLayer]:
        """Every distinct layer."""

    def span(self, path: str) -> range:
        """The layers of its stack that a row represents."""

    def stored_span(self, row: Row) -> range:
        """The layers that store a row's weights, among those that it represents."""


Choice = tuple[str, str]
"""(condition, type): the type of a tensor where the condition holds."""


class Mix(NamedTuple):
    """A mixture: the type of most matrices, and of those with a role. Empty: as most.

    most: of every matrix without a role.
    output: of the head, or of a tied token table. table: of an untied token table.
    query, key: of attention's projections to queries and to keys.
    value: of its projection to values, by the first choice that holds.
    attention_output: of its output projection.
    key_of_eight, value_of_eight, attention_output_of_eight: the same where layers have eight experts, as in
        Mixtral. value_of_70b: of values in q3_k and q4_k of a 70B.
    down, up: of the network's second matrix, and of its first ones, by the first choice that holds.
    stacks: of tensors with a matrix for each expert, or for each head of latent attention.
    by_tensor: down goes by the number of such tensors, of which layers with shared experts have two.
    """

    most: str
    output: str = "q6_k"
    table: str = ""
    query: str = ""
    key: str = ""
    value: tuple[Choice, ...] = ()
    attention_output: str = ""
    key_of_eight: str = "q8_0"
    value_of_eight: str = "q8_0"
    value_of_70b: str = "q5_k"
    attention_output_of_eight: str = "q5_k"
    down: tuple[Choice, ...] = ()
    up: tuple[Choice, ...] = ()
    stacks: str = ""
    by_tensor: bool = False


def _mix(fields: Mapping[str, Any]) -> Mix:
    values: dict[str, Any] = {
        role: tuple(map(tuple, it)) if isinstance(it, list) else it for role, it in fields.items()
    }
    return Mix(**values)


MIXES: Mapping[str, Mix] = {name: _mix(fields) for name, fields in TABLE["mixes"].items()}
BROKEN_BLOCKS: Mapping[str, str] = TABLE["broken"]
"""The type of smaller blocks that stands in where rows are not made of whole blocks."""

# values of a block of the older types (QK4_0, QK8_0) and of the k-quants (QK_K)
BLOCK, SUPER_BLOCK = 32, 256
BLOCKS = {
    **dict.fromkeys(("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "mxfp4"), BLOCK),
    "q2_0": 64,
    "q1_0": 128,
}
"""Values of a block, where they are fewer than 256."""
MIXTRAL_EXPERTS = 8
"""Experts of Mixtral, for which keys, values and attention's output get more bits."""
# of use_more_bits in llama-quant.cpp
EVERY_THIRD = 3
GROUPED_QUERIES = SOME_EXPERTS = 4
"""Query heads per key head from which on values get more bits, being so few."""
LAYERS_OF_70B, QUERIES_PER_KEY_OF_70B = 80, 8
"""Layers of a 70B, and query heads of each of its key heads."""
ROLES: Mapping[str, str] = {
    "attention.q_proj": "query",
    "attention.k_proj": "key",
    "attention.v_proj": "value",
    # stored as two stacks, of keys and of values
    "attention.kv_b_proj": "stack",
    "attention.o_proj": "attention_output",
    # llama.cpp stores the three of a delta net as one tensor, and picks its type as that of values
    **dict.fromkeys(("mixer.q_proj", "mixer.k_proj", "mixer.v_proj"), "value"),
}
"""The role of a matrix by the last two steps of its path."""


OF_NETWORKS: Mapping[str, str] = {"down_proj": "down", "up_proj": "up", "gate_proj": "up"}
BY_LAYER = {"value", "down", "up"}
"""Roles whose type goes by the number of the layer."""


class Stacked(NamedTuple):
    """A stack: its number of layers, the place of each with values among these, of its first network."""

    n_layers: int
    values: Mapping[int, int]
    networks: Mapping[int, int]


class MixedModel:
    """The types of a model's matrices in a mixture."""

    def __init__(self, mix: Mix, layers: StoredLayers) -> None:
        """The facts that choices depend on, read off the layers."""
        self.mix = mix
        # Any: the index knows its model as a Spec
        embedding: Any = vars(layers.model)["embedding"]
        self.is_tied: bool = embedding.tied
        grouped = [int(it.n_heads // it.n_kv_heads) for it in layers.facts if it.n_heads and it.n_kv_heads]
        self.heads_per_key = max(grouped, default=1)
        experts = [layer.ffn.expert_counts[0] or 0 for layer in layers if layer.ffn is not None]
        self.n_experts = max(experts, default=0)
        self.has_eight_experts = self.n_experts == MIXTRAL_EXPERTS
        self.stacks = {prefix: _stacked(layers, prefix) for prefix in layers.prefixes}

    def types_of(self, row: Row) -> Callable[[int], str]:
        """The type of a row's matrix by the number of the layer; of any number outside of layers."""
        length = int(prod(row.weights["weight"][1:]))
        prefix = next((prefix for prefix in self.stacks if row.path.startswith(prefix)), None)
        if prefix is None:
            of_model = self._of_model(row, length)
            return lambda number: of_model  # noqa: ARG005
        *_, part, name = row.path.split(".")
        role = OF_NETWORKS.get(name) or ROLES.get(f"{part}.{name}", "")
        if self.mix.stacks and (row.experts is not None or role == "stack"):
            return lambda number: _whole(self.mix.stacks, length)  # noqa: ARG005
        stack = self.stacks[prefix]
        if role not in BY_LAYER:
            of_all = _whole(self._of_layer(role, 0, stack), length)
            return lambda number: of_all  # noqa: ARG005
        return lambda number: _whole(self._of_layer(role, number, stack), length)

    def _of_model(self, row: Row, length: int) -> str:
        """The type of a matrix outside of layers."""
        if row.group == "lm_head" or (self.is_tied and row.group == "embedding"):
            return self.mix.output if length % SUPER_BLOCK == 0 else _whole("q8_0", length)
        return _whole((self.mix.table if row.group == "embedding" else "") or self.mix.most, length)

    def _of_layer(self, role: str, number: int, stack: Stacked) -> str:
        """The type of a matrix of this role in the layer of a number."""
        mix = self.mix
        of_eight: str | None = getattr(mix, f"{role}_of_eight", None) if self.has_eight_experts else None
        if of_eight is not None:
            return of_eight or mix.most
        if role == "value":
            chosen = self._chosen(mix.value, stack.values.get(number, number), len(stack.values))
            # a 70B has so few of them that more bits cost next to nothing
            is_70b = (stack.n_layers, self.heads_per_key) == (LAYERS_OF_70B, QUERIES_PER_KEY_OF_70B)
            return mix.value_of_70b or chosen if is_70b and chosen in {"q3_k", "q4_k"} else chosen
        if role in BY_LAYER:
            i = stack.networks.get(number, number) if mix.by_tensor else number
            return self._chosen(getattr(mix, role), i, stack.n_layers)
        by_role = {"query": mix.query, "key": mix.key, "attention_output": mix.attention_output}
        return by_role.get(role) or mix.most

    def _chosen(self, choices: tuple[Choice, ...], i: int, n: int) -> str:
        """The first choice that holds for tensor i of n."""
        grouped = self.heads_per_key >= GROUPED_QUERIES
        # the first eighth, the last eighth, and every third layer between (use_more_bits of llama.cpp)
        sensitive = i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % EVERY_THIRD == EVERY_THIRD - 1
        holds = {
            "": True,
            "grouped": grouped,
            "grouped or experts": grouped or self.n_experts >= SOME_EXPERTS,
            "first 2": i in range(2),
            "first 4": i in range(4),
            "first eighth": i < n // 8,
            "first sixteenth": i < n // 16,
            "inner": n // 8 <= i < 7 * n // 8,
            "sensitive": sensitive,
            "sensitive of eight": sensitive and self.has_eight_experts,
        }
        return next((name for condition, name in choices if holds[condition]), self.mix.most)


def _whole(name: str, length: int) -> str:
    """The type, or what stands in for it where rows are not made of whole blocks."""
    if length % BLOCKS.get(name, SUPER_BLOCK):
        name = BROKEN_BLOCKS.get(name, "fp16")
    return name if length % BLOCK == 0 else "fp16"


def _stacked(layers: StoredLayers, prefix: str) -> Stacked:
    mine = [pair for pair in zip(layers, layers.facts, strict=True) if pair[0].path.startswith(prefix)]
    spans = [layers.span(layer.path) for layer, facts in mine if _has_values(facts)]
    holding = sorted(number for span in spans for number in span)
    sizes = {n: 1 + _has_shared(layer.ffn) for layer, _ in mine for n in layers.span(layer.path)}
    before = accumulate((sizes[n] for n in sorted(sizes)), initial=0)
    networks = dict(zip(sorted(sizes), before, strict=False))
    return Stacked(len(sizes), {number: i for i, number in enumerate(holding)}, networks)


def _has_shared(network: FeedForward | None) -> bool:
    """Whether a network has shared experts beside those that are chosen."""
    return getattr(network, "shared", None) is not None


def _has_values(facts: MixerFacts) -> bool:
    """Whether a layer has a projection to values: attention, or a delta net."""
    return facts.has_scores or facts.recurrence is not None
