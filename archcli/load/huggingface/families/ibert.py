"""I-BERT, before it is quantized: IBertConfig, IBertModel and its heads."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import ROBERTA_HEAD, encoder_names, tied_names
from archcli.load.huggingface.whole.bert_like import MASKED, after_padding, bert_like, with_second_bias

MODEL_TYPES = ("ibert",)


def mapping(config: Config) -> Mapped:
    """As RoBERTa; what the class needs to compute in whole numbers is not imported."""
    config = config.of_class()
    config.only("quant_mode", False)
    config.only("hidden_act", "gelu")
    config.ignore("force_dequant")
    position = after_padding(config)
    whole = bert_like(
        config, "IBert", MASKED, embedding={"position": position}, max_seq_len=position["max_seq_len"]
    )
    return with_second_bias(config, whole)


def weights(config: Config) -> Weights:
    """Weight names: RoBERTa's, without the copies in whole numbers beside them."""
    tied = bool(config.of_class().flag("tie_word_embeddings"))
    encoder = {
        f"{name.removesuffix('*')}{kind}": f"{str(rule).removesuffix('*')}{kind}"
        for name, rule in encoder_names("ibert").items()
        if name.endswith("*")
        for kind in ("weight", "bias")
    }
    return {
        **{name: rule for name, rule in encoder_names("ibert").items() if not name.endswith("*")},
        **encoder,
        **ROBERTA_HEAD,
        **tied_names("lm_head.decoder.weight", "lm_head.bias", tied),
    }
