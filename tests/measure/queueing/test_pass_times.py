"""Seconds of a simulated server's passes: those of `predict`, and what lies between them."""

from random import Random

import pytest

from archcli.load import load
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.predict.prediction import predict_pass
from archcli.wings.serving.queueing.pass_times import PredictedPasses
from archcli.wings.serving.queueing.server import PromptPiece

OF_SEQUENCES = {"fused_attention", "recurrence"}


@pytest.fixture(scope="module")
def asked():
    model = load("qwen3-32b")
    options = PredictOptions(model, "2xh100-sxm", phase="serve", seq_len=1024, new=256, engine="vllm", tp=2)
    return predict_question(model, options)


@pytest.fixture(scope="module")
def passes(asked):
    return PredictedPasses(asked)


def predicted(question, phase, batch_size, tokens, past=0):
    """(seconds, those of attention) of a pass asked singly."""
    changed = question.changed(phase=phase, batch_size=batch_size, seq_len=tokens, past=past)
    one = predict_pass(changed.model, changed.settings, changed.timing, changed.plan, changed.cache)
    attention = sum(row.seconds.expected for row in one.rows if row.op_class in OF_SEQUENCES)
    return one.seconds.expected, attention


def test_passes_of_the_grid_are_those_of_predict(asked, passes):
    """64 sequences behind 1,024 tokens, and a prompt of 2,048 behind 4,096."""
    assert passes.tokens_s(64, 1024) == predicted(asked, "decode", 64, 1024)[0]
    for past in (0, 4096):
        whole, _ = predicted(asked, "prefill", 1, 2048, past)
        assert passes.mixed_s(0, 0.0, [PromptPiece(2048, past)]) == pytest.approx(whole, rel=1e-12)


def test_a_piece_beside_tokens_reads_no_weights_again(asked, passes):
    """A token of 64 sequences and a prompt of 448: products of 512 tokens, and attention of both."""
    (step, _), (alone, own) = predicted(asked, "decode", 64, 1024), predicted(asked, "prefill", 1, 448)
    of_512, of_64 = (whole - part for whole, part in (predicted(asked, "prefill", 1, n) for n in (512, 64)))
    found = passes.mixed_s(64, 1024, [PromptPiece(448, 0)])
    assert found == pytest.approx(step + own + of_512 - of_64, rel=0.01)
    assert found < step + alone


@pytest.mark.long
def test_passes_between_those_of_the_grid_are_near_them(asked, passes):
    """Decoding and products within 1%, pieces of prompts within 2%: docs/load.md."""
    draws = Random(1)  # noqa: S311
    for _ in range(4):
        sequences, context = draws.randint(1, 300), draws.randint(100, 9000)
        expected = predicted(asked, "decode", sequences, context)[0]
        assert passes.tokens_s(sequences, context) == pytest.approx(expected, rel=0.01)
        tokens, past = draws.randint(256, 8000), draws.choice([0, draws.randint(1, 8000)])
        whole, attention = predicted(asked, "prefill", 1, tokens)
        assert passes._products_s(tokens) == pytest.approx(whole - attention, rel=0.01)
        whole, _ = predicted(asked, "prefill", 1, tokens, past)
        assert passes.mixed_s(0, 0.0, [PromptPiece(tokens, past)]) == pytest.approx(whole, rel=0.02)


def test_a_batch_of_micro_batches_takes_the_products_of_each(asked, passes):
    """1,280 tokens in micro batches of 512: products of 512 twice, and of 256; nothing shared in turn."""
    cut, in_turn = PredictedPasses(asked, 512), PredictedPasses(asked, in_turn=True)
    of_256, of_512 = (whole - part for whole, part in (predicted(asked, "prefill", 1, n) for n in (256, 512)))
    piece, two = [PromptPiece(256, 0)], [PromptPiece(1280, 0)]
    (step, _), (alone, _) = predicted(asked, "decode", 64, 1024), predicted(asked, "prefill", 1, 256)
    assert in_turn.mixed_s(64, 1024, piece) == pytest.approx(step + alone)
    # all but products is the same
    assert passes.mixed_s(0, 0.0, two) - cut.mixed_s(0, 0.0, two) == pytest.approx(
        passes._products_s(1280) - 2 * of_512 - of_256
    )
