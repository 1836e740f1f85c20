"""What an importer makes of a config computes what Hugging Face's class computes: the parity table's models, imported."""

import pytest
import torch

from archcli.runtime.build import build_model
from importing import families, imported
from parity.families import FAMILIES
from parity.witness import TOLERANCE, difference, witness

NAMES = [name for name, family in FAMILIES.items() if family.config["model_type"] in families()]


@torch.inference_mode()
@pytest.mark.parametrize("name", NAMES)
def test_an_imported_config_gives_the_same_logits(name):
    seen, family = witness(name), FAMILIES[name]
    config = {"architectures": [type(seen.model).__name__], **family.config}
    model = build_model(imported(families()[config["model_type"]], config), attention="eager")
    model.load_state_dict(seen.ours)
    assert difference(model.eval()(seen.tokens, *seen.source), seen.logits) <= TOLERANCE
