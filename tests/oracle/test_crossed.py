"""Llama 3.2 Vision with images: its language model reads them by cross attention, as its class does."""

import json
from functools import cache

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

import archcli
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.load.spec.written import to_yaml
from archcli.wings.drawing.anatomy.anatomy import anatomy
from oracle.regenerate_resampled import FIGURES
from table import every_row

CONFIG = json.loads(FIGURES.read_text())["mllama"]["config"]
SIDE, TILES, ROWS = 56, 4, 4 * 17
"""Pixels of a side, tiles of an image, and their vectors: 4 x 4 patches and a class token each."""
D, FFN, KV, LAYERS, CROSSING = 48, 80, 24, 4, 2
IMAGE = "56x56"


@cache
def whole():
    """The class, without numbers."""
    config = transformers.AutoConfig.for_model(**CONFIG)
    with torch.device("meta"):
        return transformers.MllamaForConditionalGeneration._from_config(config, attn_implementation="eager")


def theirs(tokens, images, batch=1):
    """FLOPs of the class for a prompt and for a token behind it, and elements of its cache."""
    with torch.device("meta"), torch.no_grad():
        ids = torch.zeros(batch, tokens, dtype=torch.long)
        given = {
            "pixel_values": torch.zeros(batch, images, TILES, 3, SIDE, SIDE),
            "aspect_ratio_ids": torch.ones(batch, images, dtype=torch.long),
            "aspect_ratio_mask": torch.ones(batch, images, TILES, dtype=torch.long),
        }
        with FlopCounterMode(display=False) as prompt:
            out = whole()(input_ids=ids, use_cache=True, **(given if images else {}))
        kept = [
            x.numel()
            for layer in out.cache.layers
            if layer.is_initialized
            for x in (layer.keys, layer.values)
        ]
        with FlopCounterMode(display=False) as decoded:
            whole()(input_ids=ids[:, :1], use_cache=True, cache=out.cache)
    return prompt.get_total_flops(), decoded.get_total_flops(), sum(kept)


@pytest.mark.long
@every_row("text, images, batch", [(10, 1, 1), (3, 2, 1), (7, 1, 3), (10, 0, 2)])
def test_flops_and_cache_are_the_class_s(text, images, batch):
    prompt, decoded, kept = theirs(text + images, images, batch)
    asked = {"image": [IMAGE] * images, "batch_size": batch, "mask": "dense"}
    totals = archcli.count_flops(CONFIG, seq_len=text, **asked).totals
    # the class makes the mask of padding, of 24 vectors a tile, anew for each sequence; archcli once
    masks = (batch - 1) * images * 2 * (TILES * 24) ** 2
    assert totals.get("matmul_flops_with_towers", totals["matmul_flops"]) == prompt - masks
    one = archcli.count_flops(CONFIG, phase="decode", past=text, **asked).totals
    assert one.get("matmul_flops_with_towers", one["matmul_flops"]) == decoded
    cached = archcli.count_kv_cache(CONFIG, text, batch_size=batch, image=[IMAGE] * images).totals
    assert cached["elements"] + cached["cross_elements"] == kept


def test_what_an_image_adds_to_the_text():
    """Two layers: projections of 11 tokens and of 68 vectors, scores of all pairs, and a network."""
    text, both = (
        archcli.count_flops(CONFIG, seq_len=n, **m).totals for n, m in ((11, {}), (10, {"image": IMAGE}))
    )
    of_tokens = 2 * 11 * (2 * D * D + 3 * D * FFN)
    of_vectors, pairs = 2 * ROWS * 2 * D * KV, 4 * 11 * ROWS * D
    assert both["matmul_flops"] - text["matmul_flops"] == CROSSING * (of_tokens + of_vectors + pairs)


def test_their_parameters_are_those_of_attention_networks_and_norms():
    groups = archcli.count_params(CONFIG).totals["by_group"]
    assert groups["attention"] == LAYERS * (2 * D * D + 2 * D * KV)
    assert groups["ffn"] == LAYERS * 3 * D * FFN
    # two norms a layer and the last one, two gates and two norms of heads where there is cross attention
    assert groups["norms"] == (2 * LAYERS + 1) * D + CROSSING * 2
    assert groups["qk_norm"] == CROSSING * 2 * (D // 4)
    # eight rows of the table are of no word
    assert groups["embedding"] == (101 + 8) * D
    assert "unread" not in groups


def test_the_rows_of_an_image_are_cached_once():
    per_image = CROSSING * 2 * KV * ROWS
    for images, context in ((1, 100), (2, 100), (1, 1000)):
        totals = archcli.count_kv_cache(CONFIG, context, image=[IMAGE] * images).totals
        assert totals["cross_elements"] == images * per_image
        assert totals["elements"] == (LAYERS - CROSSING) * 2 * KV * (context + images)
        assert totals["prompt_tokens"] == context + images
    assert archcli.count_kv_cache(CONFIG, 100).totals["cross_elements"] == 0


def test_serving_holds_them_in_whole_blocks():
    """16 tokens a block: 4 for the 33 of the text, 5 for 68 vectors."""
    parts = {
        image: archcli.count_memory(CONFIG, "serve", seq_len=32, engine="vllm", image=image).totals["parts"]
        for image in ((), (IMAGE,))
    }
    own = 2 * (LAYERS - CROSSING) * 2 * KV
    assert parts[()]["cache"] == own * 32
    assert parts[(IMAGE,)]["cache"] == own * 48 + 2 * CROSSING * 2 * KV * 80
    chunked = archcli.count_memory(CONFIG, "serve", seq_len=32, engine="vllm", image=IMAGE, chunk=16).totals
    assert chunked["parts"]["cache"] == parts[(IMAGE,)]["cache"]


@pytest.mark.long
def test_fewer_sequences_fit_beside_each_other_s_images():
    memory, own = 10**6, 2 * (LAYERS - CROSSING) * 2 * KV * 30
    for images in (0, 1, 2):
        media = {"image": [IMAGE] * images}
        fit = archcli.count_kv_cache(CONFIG, 30 - images, memory=memory, **media).totals["fits"]
        of_images = images * 2 * CROSSING * 2 * KV * ROWS
        assert fit["cache_alone"]["sequences"] == memory // (own + of_images)
        # one sequence
        assert fit["cache_alone"]["tokens"] == (memory - of_images) // (own // 30)


@pytest.mark.long
@every_row("phase", ["prefill", "decode", "train"])
def test_they_take_time(phase):
    """Keys and values of an image are projected in the pass that reads it, not behind it."""
    asked = {"device": "h100-sxm", "phase": phase, "seq_len": 64}
    text, both = (archcli.predict(CONFIG, **asked, **medium) for medium in ({}, {"image": IMAGE}))
    timed = " ".join(row["path"] for row in both.rows if row["time_s"] > 0)
    assert not any("layers.1." in row["path"] for row in text.rows)
    assert "layers.1.cross_attention.attend" in timed
    assert "layers.1.ffn.down_proj" in timed
    assert ("layers.1.cross_attention.k_proj" in timed) == (phase != "decode")


def test_a_text_passes_them_by():
    """Their matrices are listed, and nothing is computed: as of the other layers alone."""
    rows = archcli.show(CONFIG, seq_len=8).rows
    assert any(row["path"] == "layers.1.cross_attention.q_proj" for row in rows)
    text = {**CONFIG["text_config"], "num_hidden_layers": 2, "cross_attention_layers": []}
    alone = archcli.count_flops({**CONFIG, "text_config": text}, seq_len=8).totals
    assert archcli.count_flops(CONFIG, seq_len=8).totals["by_component"] == alone["by_component"]


@pytest.mark.parametrize("layers", [[4], [-5], [0, "1"], []], ids=str)
def test_layers_beside_the_last_ones_are_layers_of_the_tower(layers):
    width = 32 * (1 + len(layers))
    vision = {**CONFIG["vision_config"], "intermediate_layers_indices": layers, "vision_output_dim": width}
    report = archcli.count_params({**CONFIG, "vision_config": vision})
    assert "by_part" not in report.totals
    assert any("intermediate_layers_indices" in note for note in report.notes)


def test_they_are_drawn_as_they_read_an_image():
    drawn = anatomy(given(CONFIG).model)
    assert [len(kind.layers) for kind in drawn.kinds] == [LAYERS - CROSSING, CROSSING]
    assert "Cross-attention" in {part.title for part in drawn.parts}
    (per_token,) = [figure for figure, what, _ in drawn.headline if what.endswith("per token at 2,048")]
    assert per_token.value == archcli.count_flops(CONFIG).totals["matmul_flops_per_token"]


def test_written_as_yaml_it_has_the_figures_of_its_config(tmp_path):
    written = tmp_path / "written.yaml"
    written.write_text(to_yaml(archcli.load(CONFIG)))
    figures = [
        (archcli.count_flops(model, image=IMAGE).totals, archcli.count_params(model).totals)
        for model in (written, CONFIG)
    ]
    assert figures[0] == figures[1]


def test_vectors_that_no_layer_reads_are_refused():
    layer = {"kind": "pre_norm", "attention": {"kind": "mha", "n_heads": 2}}
    spec = {"vocab_size": 11, "d_model": 4, "norm": "rmsnorm", "source_len": 3}
    with pytest.raises(
        ArchError, match="no layer of this decoder reads vectors of images by cross attention"
    ):
        archcli.count_params({**spec, "groups": [{"n_layers": 1, "layer": layer}]})
