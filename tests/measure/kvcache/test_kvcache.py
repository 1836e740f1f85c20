"""What the small decoder caches, worked out by hand."""

from typing import Literal

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.kvcache.cache_size import CacheDtypes, CacheSize
from archcli.measure.kvcache.held import fits
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.modules import (
    GLU,
    CrossAttention,
    Decoder,
    DecoderStack,
    Encoder,
    EncoderDecoder,
    EncoderStack,
    Group,
    LinearAttention,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    PreNorm,
    RMSNorm,
    SoftmaxAttention,
)
from archcli.modules.spec.context import or_default
from archcli.ops import MergeHeads, Unsqueeze
from small import NORM, attention, decoder, layer

TOKEN = 3 * 2 * (2 + 2)
WINDOWED = Group(n_layers=3, pattern=(layer(attention(window=4)), layer()))
LATENT = Group(
    n_layers=3,
    layer=layer(
        MultiHeadLatentAttention(
            n_heads=4, kv_lora_rank=6, qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=5, latent_norm=NORM
        )
    ),
)


@pytest.mark.parametrize("context", [1, 2, 17])
def test_keys_and_values_of_every_layer_and_token(context):
    assert CacheSize(decoder()).elements(context) == context * TOKEN
    assert CacheSize(decoder()).elements(context, 5) == 5 * context * TOKEN


@pytest.mark.parametrize(("context", "kept"), [(3, 3), (4, 4), (5, 4), (100, 4)])
def test_a_window_holds_no_more_than_itself(context, kept):
    assert CacheSize(decoder(WINDOWED)).elements(context) == (2 * kept + context) * 2 * (2 + 2)


def test_a_latent_is_cached_in_the_place_of_keys_and_values():
    assert CacheSize(decoder(LATENT)).elements(7) == 3 * 7 * (6 + 2)


def test_totals_carry_the_agreed_names():
    found = count_kv_cache(decoder(WINDOWED), context=10, batch_size=2, dtype="fp8").totals
    assert found["elements"] == found["bytes"] == 2 * (2 * 4 + 10) * 2 * (2 + 2)
    assert found["cross_elements"] == 0
    assert found["bytes_per_token"] == TOKEN


@pytest.mark.parametrize(("max_seq_len", "context"), [(None, 2048), (100, 100)])
def test_without_a_context_it_is_the_one_trained_for(max_seq_len, context):
    report = count_kv_cache(decoder(max_seq_len=max_seq_len))
    assert report.inputs["context"] == context
    assert report.totals["elements"] == context * TOKEN


def elements(found, key):
    return {name: held["elements"] for name, held in found.totals[key].items()}


def test_what_engines_hold_instead_is_a_second_figure():
    assert elements(count_kv_cache(decoder(), 10), "held_by_engines") == {}
    assert elements(count_kv_cache(decoder(WINDOWED), 10), "held_by_engines") == {
        "every layer at full length": 10 * TOKEN,
        "window - 1 tokens, as transformers": (2 * 3 + 10) * 2 * (2 + 2),
    }
    alone = decoder(Group(n_layers=1, layer=layer(attention(window=1))))
    assert elements(count_kv_cache(alone, 10), "held_by_engines").keys() == {"every layer at full length"}
    rebuilt = {"keys and values rebuilt from the latent": 3 * 10 * 4 * ((3 + 2) + 5)}
    assert elements(count_kv_cache(decoder(LATENT), 10), "held_by_engines") == rebuilt


# elements that transformers 5.23 holds after a prefill, as its own cache classes count them
OF_TRANSFORMERS = {
    "gemma-2-9b": (8192, 1_056_878_592),
    "gemma-3-1b": (1024, 7_853_056),
    "gpt-oss-20b": (1024, 14_143_488),
    "mistral-7b-v0.1": (8192, 268_369_920),
    "phi-3-mini-4k": (8192, 402_259_968),
}


@pytest.mark.parametrize("name", OF_TRANSFORMERS)
def test_the_cache_of_transformers_lacks_the_newest_token_of_a_window(name):
    context, held = OF_TRANSFORMERS[name]
    found = elements(count_kv_cache(load(name).model, context), "held_by_engines")
    assert found["window - 1 tokens, as transformers"] == held


def test_other_kinds_of_attention_beside_it():
    assert elements(count_kv_cache(decoder(), 10), "as_kind") == {
        "mha": 3 * 10 * 4 * (2 + 2),
        "gqa": 3 * 10 * 2 * (2 + 2),
        "mqa": 3 * 10 * (2 + 2),
        "mla": 3 * 10 * (4 * 2 + 2),
    }
    assert elements(count_kv_cache(decoder(LATENT), 10), "as_kind") == {
        "mha": 3 * 10 * 4 * (3 + 5),
        "gqa": 3 * 10 * 4 * (3 + 5),
        "mqa": 3 * 10 * (3 + 5),
        "mla": 3 * 10 * (6 + 2),
    }


@pytest.mark.parametrize(("heads", "kv_heads"), [(32, 8), (12, 6), (7, 7), (71, 1)])
def test_gqa_takes_eight_kv_heads_or_the_most_that_divide(heads, kv_heads):

    model = decoder(Group(n_layers=3, layer=layer(MultiHeadAttention(n_heads=heads, head_dim=2))))
    assert elements(count_kv_cache(model, 10), "as_kind")["gqa"] == 3 * 10 * kv_heads * (2 + 2)


def test_each_is_told_per_token_too():
    found = count_kv_cache(decoder(), 10, batch_size=2, dtype="bf16").totals["as_kind"]["mqa"]
    assert found == {
        "elements": 2 * 10 * 3 * 4,
        "bytes": 4 * 10 * 3 * 4,
        "elements_per_token": 3 * 4,
        "bytes_per_token": 2 * 3 * 4,
    }


def test_windows_stay_when_the_kind_changes():
    assert elements(count_kv_cache(decoder(WINDOWED), 10), "as_kind")["mqa"] == (2 * 4 + 10) * (2 + 2)


def test_like_layers_share_a_row():
    rows = count_kv_cache(decoder(WINDOWED), 10).rows
    assert [(row["layers"], row["window"], row["tokens"], row["elements"]) for row in rows] == [
        (2, 4, 4, 2 * 4 * 8),
        (1, None, 10, 10 * 8),
    ]
    assert sum(row["elements"] for row in rows) == CacheSize(decoder(WINDOWED)).elements(10)


@pytest.mark.parametrize("spare", [0, 1, 2 * TOKEN - 1])
def test_as_many_tokens_fit_as_fit(spare):
    weights = 2 * count_params(decoder()).totals["params"]
    found = fits(
        decoder(),
        CacheSize(decoder()),
        weights + 1000 * 2 * TOKEN + spare,
        context=300,
        batch_size=1,
        dtypes=CacheDtypes("bf16"),
    )
    assert found["weights_bytes"] == weights
    assert found["beside_weights"] == {"tokens": 1000, "sequences": 3}
    assert found["cache_alone"]["tokens"] == (weights + 1000 * 2 * TOKEN + spare) // (2 * TOKEN)


def test_the_tokens_of_several_sequences():
    found = fits(
        decoder(),
        CacheSize(decoder()),
        1000 * 2 * TOKEN,
        context=10,
        batch_size=7,
        dtypes=CacheDtypes("bf16"),
    )
    assert found["cache_alone"]["tokens"] == 1000 // 7


def test_what_is_windowed_throughout_has_no_bound():
    model = decoder(Group(n_layers=3, layer=layer(attention(window=4))))
    report = count_kv_cache(model, 10, memory_bytes=1 << 20)
    assert report.totals["fits"]["cache_alone"]["tokens"] is None
    assert any("no bound" in note for note in report.notes)


def test_memory_too_small_for_the_weights_holds_nothing():
    report = count_kv_cache(decoder(), 10, memory_bytes=100)
    assert report.totals["fits"]["beside_weights"] == {"tokens": 0, "sequences": 0}
    assert "the weights alone are larger than the memory." in report.notes


def layers(attention, **more):
    return (Group(n_layers=2, layer=PreNorm(norm=RMSNorm(), attention=attention, ffn=GLU(d_ff=8), **more)),)


def test_an_encoder_caches_nothing_and_says_so():
    model = Encoder(
        vocab_size=9, d_model=8, norm=RMSNorm(), groups=layers(MultiHeadAttention(n_heads=2, causal=False))
    )
    report = count_kv_cache(model, 16, memory_bytes=1024**3)
    assert (report.totals["elements"], report.totals["cross_elements"], report.totals["bytes_per_token"]) == (
        0,
        0,
        0,
    )
    assert (report.totals["as_kind"], report.rows) == ({}, [])
    assert report.totals["fits"]["cache_alone"] == {"tokens": None, "sequences": None}
    assert report.notes == ("nothing is cached: no layer of this model generates tokens.",)


def test_an_encoder_decoder_keeps_its_source_apart():
    own, cross = MultiHeadAttention(n_heads=2), CrossAttention(n_heads=2)
    model = EncoderDecoder(
        vocab_size=9,
        d_model=8,
        norm=RMSNorm(),
        encoder=EncoderStack(norm=RMSNorm(), groups=layers(MultiHeadAttention(n_heads=2, causal=False))),
        decoder=DecoderStack(norm=RMSNorm(), groups=layers(own, cross_attention=cross)),
    )
    totals = count_kv_cache(model, 16, source_len=5).totals
    assert (totals["elements"], totals["cross_elements"]) == (2 * 2 * 8 * 16, 2 * 2 * 8 * 5)
    assert totals["as_kind"]["mha"]["elements"] == totals["elements"]
    assert totals["as_kind"]["mqa"]["elements"] == 2 * 2 * 4 * 16


def test_linear_attention_has_a_state_that_does_not_grow():
    model = Decoder(vocab_size=9, d_model=8, norm=RMSNorm(), groups=layers(LinearAttention(n_heads=2)))
    short, long = (count_kv_cache(model, length).totals for length in (4, 4000))
    assert short["elements"] == long["elements"] == 2 * 2 * (4 * 4 + 4)
    assert long["bytes_per_token"] == 0


def test_growing_and_constant_elements_add_up():
    blocks = (layer(LinearAttention(n_heads=2)), layer(attention(window=4)), layer())
    cache = count_kv_cache(decoder(Group(n_layers=3, pattern=blocks)), 100, 5).totals
    assert cache["state_elements"] == 5 * 2 * 4 * (4 + 1)  # S and z of 2 heads of width 4
    assert cache["kv_elements"] == 5 * (4 + 100) * 2 * (2 + 2)
    assert cache["elements"] == cache["kv_elements"] + cache["state_elements"]


class AveragedTokens(SoftmaxAttention):
    """Softmax attention whose keys and values are the tokens themselves: neither projected nor latent."""

    kind: Literal["averaged"] = "averaged"

    def forward(self, x, context=None):
        context = or_default(x, context)
        head = Unsqueeze("head")(x)
        (seen,), kept = self.extend(context, token=head)
        return MergeHeads("merge")(self.attend(context, x.shape[-1], head, seen, seen)), kept


@pytest.mark.parametrize("kept", [{}, {"window": 4}], ids=["all", "window"])
def test_attention_of_an_unknown_sort_is_answered(kept):
    alone = count_kv_cache(decoder(Group(n_layers=3, layer=layer(AveragedTokens(n_heads=1, **kept)))), 10)
    assert alone.totals["elements"] == 3 * (4 if kept else 10) * 8
    assert alone.totals["as_kind"] == {}
    assert not any("gqa" in note for note in alone.notes)
    pattern = (layer(AveragedTokens(n_heads=1, **kept)), layer())
    beside = count_kv_cache(decoder(Group(n_layers=2, pattern=pattern)), 10).totals
    assert beside["as_kind"]["mqa"]["elements"] == (4 if kept else 10) * 8 + 10 * (2 + 2)


def test_the_source_of_an_encoder_decoder_is_in_the_bytes_of_all():
    """Whisper small: 12 layers keep keys and values of 768 for 1,500 positions, and for each token."""
    totals = archcli.kvcache("whisper-small", context=100).totals
    assert totals["bytes"] == 12 * 2 * 768 * 100 * 2
    assert totals["cross_bytes"] == 2 * totals["cross_elements"] == 12 * 2 * 768 * 1500 * 2
    assert totals["all_bytes"] == 12 * 2 * 768 * 1600 * 2


@pytest.mark.parametrize(
    ("media", "what"),
    [
        ({"audio_seconds": 30}, "reads each sound as 1,500 positions, which are counted"),
        ({"image": ["224x224"]}, "reads sound alone, no image"),
    ],
    ids=["sound", "image"],
)
def test_a_whisper_hears(media, what):
    with pytest.raises(ArchError, match=what):
        archcli.kvcache("whisper-small", **media)
