"""Output heads that train on less than all logits: adaptive, hierarchical and sampled softmax.

Without targets they give a figure for every word of the vocabulary, as evaluation and generation need. With
targets they give the likelihoods of those, at the cost of the words involved.

B batch, T tokens, D width of the vectors, V vocab_size, N = B T.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm
from typing import Annotated, Any, ClassVar, Literal

from archcli.arith import Number, ceil_div, exact, prod, rounded, share_of
from archcli.graph import Tensor
from archcli.modules.ends.embedding import OutputHead, all_logits, output_matrix
from archcli.modules.ends.loss import Likelihood, likelihood
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.values import Interval
from archcli.ops import (
    Add,
    Candidates,
    ClassLinear,
    ClassLogProbs,
    ClassOf,
    ClusterIndex,
    Concat,
    Einsum,
    Gather,
    Linear,
    LogSoftmax,
    LogSumExp,
    Sample,
    ScatterAdd,
    Select,
    Split,
    Subtract,
)

ClusterShare = Annotated[float, Interval(ge=0, le=1)]
"""A share of a whole, 0 to 1; counted as the decimal it is written as."""


class AdaptiveHead(OutputHead):
    """Adaptive softmax: rare words in clusters, each behind an entry of a small softmax.

    Grave et al. 2016, arXiv:1609.04309.

    p(w) = softmax(H x)[w] for the most frequent words; else softmax(H x)[cluster] * softmax(B_i A_i x)[w]
    for the words of cluster i = 1, 2, …, with A_i [D // div_value^i, D]. As
    torch.nn.AdaptiveLogSoftmaxWithLoss, whose head.weight is lm_head.weight here, tail.0.0.weight
    lm_head_tail_0_down.weight, tail.0.1.weight lm_head_tail_0_up.weight.

    `cutoffs` are the first id of each cluster, rising; ids below the first are the most frequent words.
    `div_value` is by how much each cluster's vectors are narrower than those before; `head_bias` biases H.
    `cluster_shares` are the shares of targets below the first cutoff, in the first cluster, and so on; they
    sum to 1.

    Training costs what these shares make of it: an expected value, exact. Without targets there are
    log-probabilities of all words, at full cost.
    """

    kind: Literal["adaptive"] = "adaptive"
    ties: ClassVar[bool] = False
    cutoffs: tuple[Size, ...]
    div_value: Size = 4
    head_bias: bool = False
    cluster_shares: tuple[ClusterShare, ...]

    @property
    def token_multiple(self) -> int:
        return lcm(*(exact(share).denominator for share in self.cluster_shares))

    def target_ranges(self, vocab_size: int, tokens: int) -> list[tuple[int, int, int]]:
        """(first id, end id, number of targets) per cluster, by `cluster_shares` in whole tokens."""
        bounds = (0, *self.cutoffs, vocab_size)
        counts = [rounded(share_of(tokens, share)) for share in self.cluster_shares[:-1]]
        # the last cluster takes what is left: rounded shares need not sum to all tokens
        return list(zip(bounds, bounds[1:], [*counts, tokens - sum(counts)], strict=False))

    def forward(
        self, x: Tensor, vocab_size: Number, table: Tensor | None, targets: Tensor | None = None, *, name: str
    ) -> Any:
        """[B, T, D] to log-probabilities [B, T, V], or with targets to their likelihoods."""
        # logits of the most frequent words, then one for each cluster, as torch's head has them
        first = Linear(name, self.cutoffs[0] + len(self.cutoffs), self.head_bias)(x)
        if targets is None:
            return self._all_log_probs(x, first, vocab_size, name)
        first_level = likelihood(first, ClusterIndex(f"{name}_index", self.cutoffs)(targets), name)
        nll = first_level.nll
        for i, (low, high) in enumerate(self._bounds(vocab_size)):
            tail = f"{name}_tail_{i}"
            chosen, entry, place = Select(f"{tail}_tokens", low, high, self.cluster_shares[i + 1])(x, targets)
            nll = ScatterAdd(f"{tail}_add")(
                nll, likelihood(self._cluster_logits(chosen, i, high - low, tail), entry, tail).nll, place
            )
        return Likelihood(nll, first_level.log_z)

    def _bounds(self, vocab_size: Number) -> list[tuple[Number, Number]]:
        """(first id, the one after the last) of each cluster."""
        return list(zip(self.cutoffs, (*self.cutoffs[1:], vocab_size), strict=True))

    def _cluster_logits(self, x: Tensor, i: int, size: Number, name: str) -> Tensor:
        narrow = Linear(f"{name}_down", self.width(x.shape[-1], i))(x)
        logits: Tensor = Linear(f"{name}_up", size)(narrow)
        return logits

    def width(self, d: Number, i: int) -> Number:
        """The width of the vectors of cluster i."""
        return d // prod([self.div_value] * (i + 1))

    def _all_log_probs(self, x: Tensor, first: Tensor, vocab_size: Number, name: str) -> Tensor:
        parts = (self.cutoffs[0], *[1] * len(self.cutoffs))
        every, *clusters = Split(f"{name}_split", parts)(LogSoftmax(f"{name}_log_softmax")(first))
        for i, (cluster, (low, high)) in enumerate(zip(clusters, self._bounds(vocab_size), strict=True)):
            tail = f"{name}_tail_{i}"
            inner = LogSoftmax(f"{tail}_log_softmax")(self._cluster_logits(x, i, high - low, tail))
            every = Concat(f"{tail}_join")(every, Add(f"{tail}_add")(inner, cluster))
        joined: Tensor = every
        return joined

    def check(self) -> Iterator[Conflict]:
        """Conflicts: cutoffs that do not rise, or shares that do not match the clusters."""
        if not self.cutoffs:
            yield Conflict(
                "cutoffs-empty",
                "cutoffs",
                "an adaptive head needs a cutoff",
                "the ids below the first are its most frequent words",
            )
        if any(low >= high for low, high in zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            yield Conflict(
                "cutoffs-rise",
                "cutoffs",
                "cutoffs must rise",
                "write them from the smallest to the largest, each once",
            )
        if len(self.cluster_shares) != len(self.cutoffs) + 1:
            shares, needed = len(self.cluster_shares), len(self.cutoffs) + 1
            yield Conflict(
                "cluster-shares-count",
                "cluster_shares",
                f"{len(self.cutoffs)} cutoffs make {needed} clusters, not {shares}",
                f"write {needed} shares",
            )
        # as decimals: in floats 0.7 + 0.2 + 0.1 is not 1
        total = sum(exact(share) for share in self.cluster_shares)
        if total != 1:
            # a sum beside 1 may print as 1.0: its fraction shows what is missing
            nearly = total if float(total) == 1 else float(total)
            yield Conflict(
                "cluster-shares-sum",
                "cluster_shares",
                f"the shares of all clusters sum to {nearly}, not 1",
                "they are counted as they are written",
            )

    def check_sizes(self, vocab_size: int, width: int) -> Iterator[Conflict]:
        """Conflicts: a last cluster without words, or a cluster without width."""
        if self.cutoffs and self.cutoffs[-1] >= vocab_size:
            yield Conflict(
                "cutoffs-within-vocab",
                "cutoffs",
                f"the last cutoff {self.cutoffs[-1]} leaves no words of vocab_size {vocab_size} behind it",
                "lower it",
            )
        n = len(self.cutoffs)
        if self.width(width, n - 1) < 1:
            yield Conflict(
                "cluster-width",
                "div_value",
                f"the last of {n} clusters would have {width} // {self.div_value}^{n} = 0 dimensions",
                "lower div_value",
            )


class HierarchicalHead(OutputHead):
    """Two-level softmax: p(w) = softmax(C x)[class of w] * softmax(W_class x)[w].

    Goodman 2001, arXiv:cs/0108006; deeper trees, which are not expressed here: Morin & Bengio 2005.

    `n_classes` classes of ceil(V / n_classes) words each, by id: word w is in class w // size. A target
    costs its class and the words of that class, whichever it is, as the last class is computed as wide as
    the others. The words' matrix is [V, D] (`lm_head`, or the tied table), that of the classes [n_classes,
    D] (`lm_head_classes`). Without targets there are log-probabilities of all words, at full cost.
    """

    kind: Literal["hierarchical"] = "hierarchical"
    n_classes: Size

    def forward(
        self, x: Tensor, vocab_size: Number, table: Tensor | None, targets: Tensor | None = None, *, name: str
    ) -> Any:
        """[B, T, D] to log-probabilities [B, T, V], or with targets to their likelihoods."""
        classes = Linear(f"{name}_classes", self.n_classes)(x)
        if targets is None:
            logits = all_logits(x, vocab_size, table, name)
            return ClassLogProbs(f"{name}_join")(LogSoftmax(f"{name}_log_softmax")(classes), logits)
        class_of, entry = ClassOf(f"{name}_class", ceil_div(vocab_size, self.n_classes))(targets)
        outer = likelihood(classes, class_of, f"{name}_classes")
        logits = ClassLinear(f"{name}_words", self.n_classes)(
            x, class_of, output_matrix(x, vocab_size, table, name)
        )
        inner = likelihood(logits, entry, f"{name}_words")
        return Likelihood(Add(f"{name}_add")(outer.nll, inner.nll), outer.log_z)

    def check_sizes(self, vocab_size: int, width: int) -> Iterator[Conflict]:
        """Conflict: a class without words."""
        # rounding up may leave classes empty: 10 words in 6 classes are 2 each, and fill 5
        size = ceil_div(vocab_size, self.n_classes)
        filled = ceil_div(vocab_size, size)
        if filled != self.n_classes:
            what = f"{vocab_size} words, {size} to a class, fill {filled} classes, not {self.n_classes}"
            yield Conflict("classes-filled", "n_classes", what, f"{filled} classes take as many")


class SampledHead(OutputHead):
    """Sampled softmax: training sees the target and a sample of words.

    Jean et al. 2014, arXiv:1412.2007 section 3.

    -log p(w) = log(exp(w x) + sum over samples exp(s x)) - w x. `n_samples` different words are drawn for
    each pass, each as likely as any other, and serve all its tokens; one that is the target does not count
    twice. Without targets it is a linear head: logits of all words, and the same matrix [V, D] (`lm_head`,
    or the tied table).
    """

    kind: Literal["sampled"] = "sampled"
    n_samples: Size

    def forward(
        self, x: Tensor, vocab_size: Number, table: Tensor | None, targets: Tensor | None = None, *, name: str
    ) -> Any:
        """[B, T, D] to logits [B, T, V], or with targets to their likelihoods among the candidates."""
        if targets is None:
            return all_logits(x, vocab_size, table, name)
        matrix = output_matrix(x, vocab_size, table, name)
        logit = Einsum(f"{name}_target_logit", "btd,btd->bt")(
            x, Gather(f"{name}_target_rows")(targets, matrix)
        )
        ids = Sample(f"{name}_samples", self.n_samples, vocab_size)(x)
        logits = Linear(f"{name}_sample_logits", self.n_samples, borrowed=True)(
            x, Gather(f"{name}_sample_rows")(ids, matrix)
        )
        log_z = LogSumExp(f"{name}_log_z")(Candidates(f"{name}_candidates")(logit, logits, ids, targets))
        return Likelihood(Subtract(f"{name}_nll")(log_z, logit), log_z)

    def check_sizes(self, vocab_size: int, width: int) -> Iterator[Conflict]:
        """Conflict: more samples than words."""
        if self.n_samples > vocab_size:
            yield Conflict(
                "samples-within-vocab",
                "n_samples",
                f"n_samples {self.n_samples} is more than vocab_size {vocab_size}",
                "a word is drawn once",
            )
