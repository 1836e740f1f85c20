"""Adapters of fused experts and routers: what `target_modules` of a peft adapter mean for a mixture.

Transformers 5 holds the experts of a layer as two parameters, gate_up_proj and down_proj. For some classes
peft takes gate_proj, up_proj, down_proj and gate of target_modules to mean these and the router's weight:
`_convert_peft_config_moe` of its utils/transformers_weight_conversion.py. Linear layers of the same names,
those of shared experts among them, then have no adapter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from archcli.load.foreign.matrices import Matrix
from archcli.load.foreign.variants import RankAndScale, Variants, is_meant

MIXTRAL = {"gate": "gate", "w1": "gate_up_proj", "w3": "gate_up_proj", "w2": "down_proj"}
QWEN = {"gate": "gate", "gate_proj": "gate_up_proj", "up_proj": "gate_up_proj", "down_proj": "down_proj"}
LIKE_MIXTRAL = "minimax minimax_m2 mixtral"
LIKE_QWEN = """
    afmoe beam cohere2_moe deepseek_v2 deepseek_v3 deepseek_v32 dots1 ernie4_5_moe exaone_moe flex_olmo
    glm4_moe glm4_moe_lite glm4v_moe glm_moe_dsa hunyuan_v1_moe longcat_flash mellum olmoe qwen3_moe
    qwen3_next qwen3_omni_moe qwen3_omni_moe_text qwen3_omni_moe_thinker sarvam_mla solar_open
"""
FUSED = {
    **dict.fromkeys(LIKE_MIXTRAL.split(), MIXTRAL),
    **dict.fromkeys(LIKE_QWEN.split(), QWEN),
}
"""The parameter of each name by model_type, as transformers 5.24's conversion_mapping.py has the types."""
OF_EXPERTS = {"gate": "gate_up_proj", "up": "gate_up_proj", "down": "down_proj"}
NTH = re.compile(r"\.(\d+|\*)\.[^.]+$")


class Fused(NamedTuple):
    """The parameters that target_modules name in a class with fused experts.

    parameters: those named: gate_up_proj. taken: module names that mean one in this class, named or not: w1.
    refusal: why peft adapts nothing at all; empty where it does.
    """

    parameters: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    refusal: str = ""

    def setting(self, matrix: Matrix, names: Sequence[str], variants: Variants) -> RankAndScale | None:
        """The rank and scale of a matrix of experts or a router; None where it has no adapter."""
        parameter = self._parameter(matrix, names)
        if parameter not in self.parameters:
            return None
        called = [
            NTH.sub(f".{parameter}", name) if matrix.row.experts else f"{name}.weight" for name in names
        ]
        # one adapter of gate and up has the rank of both
        return variants.size_of(called, times=2 if parameter == "gate_up_proj" else 1)

    def held(self, matrix: Matrix, all_matrices: Sequence[Matrix]) -> Matrix:
        """The matrices in one parameter: of experts gate and up together."""
        if OF_EXPERTS.get(matrix.word) != "gate_up_proj" or not matrix.row.experts or not self.parameters:
            return matrix
        place = matrix.tail.rpartition(".")[0]
        tails = dict.fromkeys(it.tail for it in all_matrices if it.row.experts and it.word in ("gate", "up"))
        return matrix._replace(together=tuple(it for it in tails if it.rpartition(".")[0] == place))

    def _parameter(self, matrix: Matrix, names: Sequence[str]) -> str | None:
        if matrix.row.experts:
            return OF_EXPERTS.get(matrix.word)
        return "gate" if any(name.endswith(".gate") for name in names) and matrix.is_routed else None


def fused_targets(
    targets: str | Sequence[str], kind: str, matrices: Sequence[Matrix], dropout: float, *, every: bool
) -> Fused:
    """The parameters of a class named by target_modules; `every` means all linear layers."""
    parameters = FUSED.get(kind)
    if parameters is None or not any(matrix.row.experts for matrix in matrices):
        return Fused()
    if every:
        named = {*parameters}
    elif isinstance(targets, str):
        named = {*_matched(targets, parameters, matrices)}
    else:
        named = {target.rpartition(".")[2] for target in targets} & {*parameters}
    meant = frozenset(parameters[name] for name in named)
    return Fused(meant, frozenset(parameters), _refusal(named, parameters, dropout))


def _matched(pattern: str, parameters: dict[str, str], matrices: Sequence[Matrix]) -> list[str]:
    """The names of parameters that a regular expression matches, at any matrix or next to any experts."""
    called = {name for matrix in matrices for names in matrix.names for name in names}
    stacks = {NTH.sub("", name) for it in matrices if it.row.experts for names in it.names for name in names}
    probes = {f"{stack}.{name}" for stack in stacks for name in parameters}
    lasts = {name.rpartition(".")[2] for name in called | probes if is_meant([name], pattern)}
    return [name for name in parameters if name in lasts]


def _refusal(named: set[str], parameters: dict[str, str], dropout: float) -> str:
    both = {name for name, parameter in parameters.items() if parameter == "gate_up_proj"}
    present = named & both
    if present and present != both:
        missing = ", ".join(sorted(both - present))
        return f"{', '.join(sorted(present))} without {missing}, which lies in the same parameter"
    return f"lora_dropout {dropout:g} beside a parameter" if named and dropout else ""
