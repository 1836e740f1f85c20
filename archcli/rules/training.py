"""Rules of regularisation: what the optional `training` block says of pretraining."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.modules import settings
from archcli.rules.base import Case, DesignRule, Finding, Severity, example

ANDRIUSHCHENKO = "D'Angelo, Andriushchenko et al., arXiv:2310.04415 abstract (confirmed)"


class DropoutInPretraining(DesignRule):
    """Pretraining runs without dropout."""

    code = "TRN001"
    severity = Severity.INFO
    title = "dropout in pretraining"
    reason = (
        "One pass over much data hardly overfits: T5 v1.1 and PaLM pretrain without dropout (PaLM fine-tunes "
        "with 0.1), and so do most since, as far as papers say. OPT had 0.1, not on embeddings; the 0.1 of "
        "Qwen's report is of its fine-tuning."
    )
    source = (
        "T5 v1.1's released_checkpoints.md: turned off, a quality win (confirmed); PaLM, arXiv:2204.02311 "
        "(confirmed); OPT, arXiv:2205.01068 section 2.2 (confirmed); Qwen, arXiv:2309.16609 section 3.1.2 "
        "(corrected)"
    )
    spares = "files that state no dropout; that of adapters, which fine-tune"
    valid = (example(top="training: {dropout: 0.0}"), example())
    invalid = (example(top="training: {dropout: 0.1}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first dropout above 0, of the recipe or of a module."""
        for path, share in settings(case.model):
            if path.rsplit(".", 1)[-1] == "dropout" and share and not path.startswith("lora."):
                yield Finding(path, f"dropout {share:g}", share, "0")
                return


class WeightDecayRange(DesignRule):
    """Weight decay is between 0.01 and 0.1."""

    code = "TRN002"
    severity = Severity.INFO
    title = "weight decay outside of 0.01 to 0.1"
    reason = (
        "Weight decay changes the dynamics of training, to a lower training loss and stabler bf16, rather "
        "than prevent overfitting. 0.1 is usual (GPT-3, OPT); a slide has 0.01 for GPT-NeoX-20B and 0 for "
        "T5, and PaLM decays by the square of the learning rate."
    )
    source = (
        f"{ANDRIUSHCHENKO}; GPT-3, arXiv:2005.14165 App. B, OPT, arXiv:2205.01068 section 2.2, PaLM, "
        "arXiv:2204.02311 (confirmed)"
    )
    spares = "files without training.weight_decay"
    valid = (example(top="training: {weight_decay: 0.1}"),)
    invalid = (example(top="training: {weight_decay: 0.5}"), example(top="training: {weight_decay: 0}"))

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a weight decay below 0.01 or above 0.1."""
        decay = None if case.model.training is None else case.model.training.weight_decay
        if decay is not None and not 0.01 <= decay <= 0.1:
            yield Finding("training.weight_decay", f"weight_decay {decay:g}", decay, "0.01 to 0.1")


class DecayedNorms(DesignRule):
    """Weight decay spares norms and biases."""

    code = "TRN003"
    severity = Severity.WARNING
    title = "weight decay on norms and biases"
    reason = (
        "Gains and biases are few and of scale one or zero by design; decay pulls gains from there. Usual "
        "recipes decay matrices alone, OLMo 2 not even embeddings."
    )
    source = (
        "OLMo 2, arXiv:2501.00656 Table 1: none on embeddings (confirmed); nanoGPT's optimizer groups: "
        "matrices alone (not checked)"
    )
    spares = "files without training.decay_norms"
    valid = (example(top="training: {weight_decay: 0.1, decay_norms: false}"),)
    invalid = (example(top="training: {weight_decay: 0.1, decay_norms: true}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a recipe that decays norms and biases."""
        training = case.model.training
        if training is not None and training.decay_norms and training.weight_decay != 0:
            yield Finding("training.decay_norms", "decay_norms true: norms and biases decay", True, "false")
