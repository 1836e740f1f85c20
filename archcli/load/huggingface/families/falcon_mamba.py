"""Falcon Mamba, Mamba with norms inside its mixers: FalconMambaConfig and FalconMambaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.whole.mamba_like import MAMBA_WEIGHTS, mamba_only

MODEL_TYPES = ("falcon_mamba",)
OWN = {"time_step_rank": "auto"}
WEIGHTS = MAMBA_WEIGHTS


def mapping(config: Config) -> Mapped:
    """As Mamba, with RMSNorm without weights on the step sizes, B and C."""
    config = config.of_class(OWN)
    config.ignore("use_falcon_mambapy")
    eps = config.number("mixer_rms_eps")
    return mamba_only(config, dt_norm={"kind": "rmsnorm", "eps": eps, "weight": False})
