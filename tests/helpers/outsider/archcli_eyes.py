"""A wing of another package: a subcommand, a family with a tower, a tower of a wrapper, a column."""

from typing import Annotated

import typer

import archcli
from archcli.errors import ArchError
from archcli.load.huggingface.family import Family, TowerRow
from archcli.load.huggingface.weights.names import LLAMA
from archcli.load.huggingface.whole.llama_like import llama_like
from archcli.measure.survey.columns import SurveyColumn
from archcli.wings.media.huggingface.towers.source import TowerSource, linear


def sizes(model: str, unit: Annotated[int, typer.Option(help="Bytes of a parameter.")] = 2) -> None:
    """Print the bytes of a model's parameters."""
    if unit < 1:
        raise ArchError("a parameter has at least one byte", "--unit 1")
    params = archcli.params(model).totals["params"]
    print(f"{model}: {params * unit:,} bytes")


def eye(source: TowerSource):
    """SigLIP's patches through one matrix."""
    encoder = source.encoder("vision_config", "siglip_vision_model")
    size = source.size(encoder["front_end"]["image_size"])
    return {"model": encoder, "sizing": {"kind": "fixed", "size": size}, "projector": [linear(source.width)]}


EYE = TowerRow("archcli_eyes:eye")
FAMILY = Family("Llama with an eye.", llama_like, LLAMA, defaults_of="llama", towers=(EYE,))
HYBRID = (EYE._replace(joins=("high_res_vision_config",)),)
"""What stands beside the text of deepseek_vl_hybrid, of which archcli knows the text alone."""


def table_share(architecture):
    """The share of the input table in all parameters."""
    model = architecture.model
    return model.vocab_size * model.d_model / architecture.counted.params()


TABLE_SHARE = SurveyColumn("table_share", "input table", "share", "", table_share)
