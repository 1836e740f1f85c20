"""Tiny models of every kind of layer that profiles differently, and profiles of them in a moment."""

from archcli.measure.passes import checked_pass
from archcli.modules import (
    GLU,
    MLP,
    AdaptiveHead,
    ALiBi,
    CrossEntropy,
    Decoder,
    Embedding,
    GELUTanh,
    Group,
    GroupedQueryAttention,
    Head,
    LayerNorm,
    Learned,
    MixtureOfExperts,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    MultiQueryAttention,
    MultiTokenPrediction,
    Parallel,
    PreNorm,
    QKNorm,
    RMSNorm,
    Rope,
    Router,
    Sandwich,
    Swish,
)
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.profile.record import record
from archcli.wings.running.runtime.profile.work import BuildSettings, prepare
from sources import OTHERS

LAYER, RMS, ROPE = LayerNorm(), RMSNorm(), Rope()
GQA = GroupedQueryAttention(n_heads=4, n_kv_heads=2, head_dim=8, position=ROPE)
EXPERT = GLU(d_ff=24)


def decoder(*blocks, norm=RMS, n_layers=2, **options):
    groups = (Group(n_layers=n_layers, pattern=blocks),)
    return Decoder(
        name="tiny", vocab_size=61, d_model=32, max_seq_len=64, norm=norm, groups=groups, **options
    )


MLA = MultiHeadLatentAttention(
    n_heads=2,
    kv_lora_rank=12,
    q_lora_rank=10,
    qk_nope_head_dim=8,
    qk_rope_head_dim=4,
    v_head_dim=8,
    position=ROPE,
    latent_norm=RMS,
)
SIGMOID = Router(scores="sigmoid", correction=True, n_groups=2, top_k_groups=1, group_score="top2", scale=2.5)
MODELS = {
    "gpt2": decoder(
        PreNorm(
            norm=LAYER,
            attention=MultiHeadAttention(n_heads=4, bias=True),
            ffn=MLP(d_ff=64, bias=True, activation=GELUTanh()),
        ),
        norm=LAYER,
        embedding=Embedding(tied=True, position=Learned(max_seq_len=64)),
    ),
    "qwen3": decoder(
        PreNorm(norm=RMS, attention=GQA.replace(qk_norm=QKNorm(norm=RMS)), ffn=GLU(d_ff=48)),
        n_layers=3,
    ),
    "gemma2": decoder(
        Sandwich(
            norm=RMSNorm(offset=1),
            attention=GQA.replace(softcap=50.0, window=6),
            ffn=GLU(d_ff=48),
        ),
        Sandwich(
            norm=RMSNorm(offset=1), attention=GQA, ffn=GLU(d_ff=48, activation=Swish(beta=1.0, learnt=True))
        ),
        n_layers=3,
        norm=RMSNorm(offset=1),
        embedding=Embedding(tied=True, scale="sqrt_d_model"),
        head=Head(softcap=30.0),
    ),
    "falcon": decoder(
        Parallel(norm=LAYER, attention=MultiQueryAttention(n_heads=4, position=ALiBi()), ffn=MLP(d_ff=64)),
        norm=LAYER,
    ),
    "windowed": decoder(PreNorm(norm=RMS, attention=GQA.replace(window=5, sinks=False), ffn=EXPERT)),
    "sinks": decoder(PreNorm(norm=RMS, attention=GQA.replace(sinks=True), ffn=EXPERT)),
    "mixtral": decoder(
        PreNorm(norm=RMS, attention=GQA, ffn=MixtureOfExperts(n_experts=4, top_k=2, expert=EXPERT))
    ),
    "deepseek": decoder(
        PreNorm(norm=RMS, attention=MLA, ffn=GLU(d_ff=48)),
        PreNorm(
            norm=RMS,
            attention=MLA,
            ffn=MixtureOfExperts(
                n_experts=4, top_k=2, expert=MLP(d_ff=24, bias=True), router=SIGMOID, shared=EXPERT
            ),
        ),
    ),
    "adaptive": decoder(
        PreNorm(norm=RMS, attention=GQA, ffn=EXPERT),
        head=AdaptiveHead(cutoffs=(20, 40), cluster_shares=(0.5, 0.5, 0)),
        norm=RMS,
    ),
    "predicting": decoder(
        PreNorm(norm=RMS, attention=GQA, ffn=EXPERT),
        mtp=MultiTokenPrediction(norm=RMS),
        loss=CrossEntropy(z_loss=0.1),
        norm=RMS,
    ),
}
MODELS |= {name: OTHERS[name] for name in ("bert-pretraining", "longformer", "linear", "performer")}
MODELS |= {
    name: OTHERS[name]
    for name in ("t5", "marian", "whisper", "modern", "gpt2-base", "linear-decoder", "performer-decoder")
}
PHASES = ("forward", "train", "prefill", "decode")
RUNS = [(name, phase) for name, model in MODELS.items() for phase in PHASES[: None if model.caches else 2]]
"""Every model in every phase it has."""
BY_KIND = [run for run in RUNS if run != ("predicting", "train")]
"""Those that can be measured by kinds of layer."""


def question(phase, seq_len=9, past=5):
    """A source longer than what is new; `past` tokens where a cache is filled."""
    past = past if phase in {"prefill", "decode"} else None
    return Request(phase=phase, batch_size=2, seq_len=seq_len, past=past, source_len=12).resolved()


def profiled(model, phase, attention="sdpa", pairs=1, past=5, **options):
    """(the counted pass, what was recorded of it)."""
    counted = checked_pass(model, question(phase, past=past))
    work = prepare(model, counted.request, BuildSettings(attention=attention, **options))
    return counted, record(work, "cpu", pairs, lambda what, done, total: None)
