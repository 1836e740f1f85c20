"""Random output heads."""

from hypothesis import strategies as st

from archcli.modules import AdaptiveHead, Head, HierarchicalHead, SampledHead

BOOL = st.booleans()
NUMBERS = st.sampled_from([0.3, 0.75, 1.5])


def maybe(strategy):
    return st.none() | strategy


LINEAR = st.builds(Head, bias=BOOL, scale=st.sampled_from([1.0, 0.5]), softcap=maybe(NUMBERS))


@st.composite
def outputs(draw, vocab_size, d_model):
    """What training ends with.

    All targets lie in one cluster, so that any number of tokens falls into clusters as whole numbers.
    """
    kinds = [LINEAR, LINEAR]
    if d_model > 1:  # torch's einsum over an axis of 1 multiplies, and counts nothing
        kinds.append(st.builds(SampledHead, n_samples=st.integers(1, vocab_size)))
    kinds.append(
        st.sampled_from(
            [
                HierarchicalHead(n_classes=n)
                for n in range(1, vocab_size + 1)
                if -(-vocab_size // -(-vocab_size // n)) == n
            ]
        )
    )
    cutoffs = sorted(draw(st.sets(st.integers(1, vocab_size - 1), min_size=1, max_size=2)))
    widest = max(n for n in range(1, 9) if d_model // n ** len(cutoffs) > 0)
    hit = draw(st.integers(0, len(cutoffs)))
    shares = tuple(float(i == hit) for i in range(len(cutoffs) + 1))
    fixed = {"cutoffs": st.just(tuple(cutoffs)), "cluster_shares": st.just(shares)}
    kinds.append(st.builds(AdaptiveHead, **fixed, div_value=st.integers(1, widest), head_bias=BOOL))
    return draw(st.one_of(kinds))
