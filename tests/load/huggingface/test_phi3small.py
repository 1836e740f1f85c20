"""Phi-3-small: published sizes worked out, pairs of its block-sparse layers, logits, and refusals.

Its class is in its repositories and needs a GPU; the reference is written here, step by step.
"""

from math import log, sqrt

import pytest
import torch

import archcli
from archcli.errors import ArchError
from archcli.load.huggingface.importer import weight_map
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.weights.compare import translate
from importing import imported_file

SMALL = {
    "model_type": "phi3small",
    "architectures": ["Phi3SmallForCausalLM"],
    "vocab_size": 53,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "ff_intermediate_size": 20,
    "max_position_embeddings": 64,
    "blocksparse_block_size": 2,
    "blocksparse_num_local_blocks": 2,
    "blocksparse_vert_stride": 4,
    "rope_embedding_base": 100.0,
    "gegelu_limit": 0.7,
    "layer_norm_epsilon": 0.01,
}
LONG = {
    "type": "su",
    "short_factor": [1.0, 1.5],
    "long_factor": [2.0, 3.0],
    "original_max_position_embeddings": 12,
    "short_mscale": 1.1,
    "long_mscale": 1.3,
}
T, TOLERANCE = 15, 1e-5


def test_published_parameters_worked_out():
    model = archcli.load({"model_type": "phi3small", "hidden_size": 4096})
    d, f, v = 4096, 14336, 100352
    attention = (d * (32 + 2 * 8) * 128 + (32 + 2 * 8) * 128) + (d * d + d)
    network = (d * 2 * f + 2 * f) + (f * d + d)
    layer = attention + network + 2 * 2 * d
    # the table is the head's matrix, too
    total = v * d + 32 * layer + 2 * d
    assert archcli.count_params(model).totals["params"] == total == 7_392_272_384


def sees(query, key, head, config):
    """Whether a query of a sparse layer sees a key: near blocks, and for each head other ones before."""
    size, near = config["blocksparse_block_size"], config["blocksparse_num_local_blocks"]
    ahead, of_key = query // size, key // size
    shift = 0 if config.get("blocksparse_homo_head_pattern") else head
    far = (of_key + shift + 1) % config["blocksparse_vert_stride"] == 0
    return key <= query and (ahead - of_key < near or far)


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "shifted"])
def test_attention_is_counted_over_the_pairs_that_heads_see(alike):
    config = {**SMALL, "blocksparse_homo_head_pattern": alike}
    sparse = sum(sees(i, j, h, config) for i in range(T) for j in range(i + 1) for h in range(8))
    dense = 8 * T * (T + 1) // 2
    # of three layers the second is dense; scores and mix, heads 4 wide
    scored = 2 * 2 * 4 * (2 * sparse + dense)
    counted = archcli.count_flops(archcli.load(config), seq_len=T).totals["by_component"]
    assert counted["attention_scores"] == scored


def test_half_of_the_published_model_sees_an_eighth_of_far_blocks():
    model = archcli.load({"model_type": "phi3small", "hidden_size": 4096})
    tokens, near = 8192, 16 * 64
    dense = tokens * (tokens + 1) // 2
    # 1,024 tokens see all before them; a later one sees its block's part and 15 whole blocks
    beyond = tokens - near
    nearby = near * (near + 1) // 2 + beyond // 64 * (64 * 15 * 64 + 64 * 65 // 2)
    sparse = 32 * nearby + 32 // 8 * (dense - nearby)
    counted = archcli.count_flops(model, seq_len=tokens).totals["by_component"]
    assert counted["attention_scores"] == 16 * 2 * 2 * 128 * (32 * dense + sparse)


def normed(x, weight, bias):
    return torch.nn.functional.layer_norm(x, (32,), weight, bias, 0.01)


def turned(x, config):
    """Heads [H, T, 4] turned by their positions, halves of a head as pairs."""
    frequencies, factor = 100.0 ** -torch.tensor([0.0, 0.5]), 1.0
    scaling = config.get("rope_scaling")
    if scaling is not None:
        longer = x.shape[1] > scaling["original_max_position_embeddings"]
        frequencies = frequencies / torch.tensor(scaling["long_factor" if longer else "short_factor"])
        stretch = 64 / scaling["original_max_position_embeddings"]
        usual = sqrt(1 + log(stretch) / log(scaling["original_max_position_embeddings"]))
        factor = scaling.get("long_mscale" if longer else "short_mscale", -1)
        factor = factor if factor > 0 else (usual if longer else 1.0)
    angles = torch.arange(x.shape[1])[:, None] * frequencies
    cos, sin = angles.cos() * factor, angles.sin() * factor
    a, b = x[..., :2], x[..., 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def attended(x, stored, layer, config):
    fused = x @ stored["query_key_value.weight"].T + stored["query_key_value.bias"]
    # four queries, a key and a value for each of two groups
    groups = fused.view(len(x), 2, 6, 4)
    q = turned(groups[:, :, :4].flatten(1, 2).transpose(0, 1), config)
    k = turned(groups[:, :, 4].transpose(0, 1), config)
    v = groups[:, :, 5].transpose(0, 1)
    scales = config.get("mup_use_scaling", True)
    scale = config.get("mup_attn_multiplier", 1.0) / 4 if scales else 0.5
    rows = []
    for head in range(8):
        scores = q[head] @ k[head // 4].T * scale
        for i in range(len(x)):
            for j in range(len(x)):
                if not (sees(i, j, head, config) if (layer + 1) % 2 else j <= i):
                    scores[i, j] = float("-inf")
        rows.append(scores.softmax(-1) @ v[head // 4])
    return torch.cat(rows, -1) @ stored["dense.weight"].T + stored["dense.bias"]


def fed(x, stored, config):
    both = x @ stored["up_proj.weight"].T + stored["up_proj.bias"]
    gate, up, limit = both[:, ::2], both[:, 1::2], config["gegelu_limit"]
    gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    hidden = gate * torch.sigmoid(1.702 * gate) * (up + 1)
    return hidden @ stored["down_proj.weight"].T + stored["down_proj.bias"]


def logits(tensors, ids, config):
    """The logits [T, V] of ids [T], from tensors by their published names."""
    table, factor = tensors["model.embed_tokens.weight"], config.get("mup_embedding_multiplier", 10.0)
    x = table[ids] * (factor if factor > 0 else 1.0)
    for layer in range(3):
        at = f"model.layers.{layer}."
        norms = [
            [tensors[f"{at}{name}.{kind}"] for kind in ("weight", "bias")]
            for name in ("input_layernorm", "post_attention_layernorm")
        ]
        within = {name.removeprefix(at): tensor for name, tensor in tensors.items() if name.startswith(at)}
        parts = {name.partition(".")[2]: tensor for name, tensor in within.items()}
        x = x + attended(normed(x, *norms[0]), parts, layer, config)
        x = x + fed(normed(x, *norms[1]), parts, config)
    last = [tensors[f"model.final_layernorm.{kind}"] for kind in ("weight", "bias")]
    return normed(x, *last) @ table.T / (config.get("mup_width_multiplier", 8.0) or 1.0)


def stored_tensors():
    shapes = {"model.embed_tokens.weight": (53, 32)}
    for layer in range(3):
        at = f"model.layers.{layer}."
        matrices = {
            "self_attn.query_key_value": (48, 32),
            "self_attn.dense": (32, 32),
            "mlp.up_proj": (40, 32),
            "mlp.down_proj": (32, 20),
        }
        for name, shape in matrices.items():
            shapes |= {f"{at}{name}.weight": shape, f"{at}{name}.bias": shape[:1]}
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes |= {f"{at}{name}.{kind}": (32,) for kind in ("weight", "bias")}
    shapes |= {f"model.final_layernorm.{kind}": (32,) for kind in ("weight", "bias")}
    torch.manual_seed(5)
    return {name: torch.randn(shape) * 0.3 for name, shape in shapes.items()}


VARIED = {
    "published-kind": {},
    "alike": {"blocksparse_homo_head_pattern": True},
    "attn-multiplier": {"mup_attn_multiplier": 1.7},
    "long": {"rope_scaling": LONG},
    "long-by-class": {"rope_scaling": {**LONG, "short_mscale": -1, "long_mscale": -1}},
    "plain": {"mup_embedding_multiplier": -1.0, "mup_width_multiplier": None, "mup_use_scaling": False},
    "multipliers": {"mup_embedding_multiplier": 3.0, "mup_width_multiplier": 2.0},
}


@pytest.mark.sample(1, whole=True)
@torch.inference_mode()
@pytest.mark.parametrize("given", VARIED.values(), ids=VARIED)
def test_its_logits_are_those_of_its_formulas(given):
    config = {**SMALL, **given}
    tensors = stored_tensors()
    model = build_model(imported_file(config))
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    model.load_state_dict(translate(tensors, weight_map(config), shapes))
    for tokens in (T, 9):
        ids = torch.arange(3, 3 + 2 * tokens, 2) % 53
        expected = logits(tensors, ids, config)
        assert (model(ids[None])[0] - expected).abs().max() <= TOLERANCE * expected.abs().max()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported"),
        ({"rope_position_scale": 2.0}, "rope_position_scale 2.0 is not supported"),
        ({"blocksparse_vert_stride": 3}, "stride 3 of shifted heads does not divide n_heads 8"),
        ({"ff_dim_multiplier": 4}, "cannot both be stated"),
        ({"ff_intermediate_size": None}, "ff_intermediate_size null needs ff_dim_multiplier"),
        ({"rope_scaling": {**LONG, "type": "linear"}}, "rope_scaling needs the type longrope or su"),
        ({"rope_scaling": {**LONG, "long_mscale": "1"}}, "long_mscale must be a number"),
        ({"rope_scaling": {"type": "su"}}, "needs original_max_position_embeddings"),
    ],
    ids=["act", "scale", "stride", "both", "neither", "linear", "mscale", "original"],
)
def test_what_cannot_be_read_exactly_is_refused(given, message):
    with pytest.raises(ArchError) as refused:
        archcli.load({**SMALL, **given})
    assert message in refused.value.problems[0].what


def test_the_inner_width_follows_from_its_multiplier():
    config = {**SMALL, "ff_intermediate_size": None, "ff_dim_multiplier": 4}
    # 4 (32 // 3) 2 = 80, rounded up to a multiple of 256
    assert imported_file(config).groups[0].blocks[0].ffn.d_ff == 256
    assert imported_file({**config, "gegelu_pad_to_256": False}).groups[0].blocks[0].ffn.d_ff == 80


def test_every_layer_is_sparse_without_dense_ones():
    for every in (None, 0):
        model = imported_file({**SMALL, "dense_attention_every_n_layers": every})
        assert [group.n_layers for group in model.groups] == [3]
        assert model.groups[0].layer.attention.sparsity is not None
