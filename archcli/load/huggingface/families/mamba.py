"""Mamba, layers of a selective state space alone: MambaConfig and MambaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.whole.mamba_like import MAMBA_WEIGHTS, mamba_only

MODEL_TYPES = ("mamba",)
OWN = {"time_step_rank": "auto"}
WEIGHTS = MAMBA_WEIGHTS


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, a Mamba-1 mixer in every layer and no feed-forward network."""
    return mamba_only(config.of_class(OWN))
