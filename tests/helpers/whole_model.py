"""What a multimodal class of transformers says of itself as a whole, on the meta device.

Parameters by part, frozen ones too, and FLOPs and rows of `get_image_features` for one usual image: matrix
products and convolutions, 2 per multiply-add. Of a class whose text reads an image by cross attention also
FLOPs of a text that does. None of our code takes part.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.flop_counter import FlopCounterMode

from images_given import Given, given

SHOWN = 160
LANGUAGE = "language_model"
PROJECTOR, AUDIO, VISION, GENERATOR = "projector", "audio_tower", "vision_tower", "image_generator"
PROJECTORS = {
    "multi_modal_projector",
    "mm_projector",
    "projector",
    "vision_projection",
    "visual_projection",
    "language_projection",
    "image_to_text_projection",
    "merger",
    "merger_list",
    "vit_merger",
    "deepstack_merger_list",
    "downsample",
    "connector",
    "aligner",
    "qformer",
    "query_tokens",
    "resampler_model",
    "vision_adapter",
    "visual_embeddings_table",
    "image_newline",
    "embed_vision",
    "embed_audio",
    "audio_bos_eos_token",
}
HEARING = {"audio_tower", "audio_model", "audio_encoder", "audio_tokenizer"}
SEEING = {"vision_tower", "vision_model", "vision_encoder", "visual", "image_encoder", "vision_embed_tokens"}
GENERATING = {"vqmodel", "generation_embeddings", "generation_aligner", "generation_head"}
CODING = {"vision_tokenizer"}
"""What makes words of an image, with convolutions of any name."""
SEEING |= {"img_temporal_embedding", "vision_final_layernorm"}
SEEING |= {f"high_res_vision_{end}" for end in ("alpha", "model", "neck", "proj")}


PROJECTED_LATER = ("Llama4ForConditionalGeneration",)
"""Classes whose method leaves the last matrix of the projector to the forward."""
CROSSING = ("MllamaForConditionalGeneration",)
"""Classes whose text reads images by cross attention."""
CROSSING_TOKENS = 2
"""Tokens of such a text: one of text, and that of the image."""
WITHOUT_METHOD = "GitForCausalLM"
"""The class whose forward alone runs its tower and projector."""


def part_of(name: str) -> str:
    """The part of a tensor or module, by the names on its path; a language model's own are its alone."""
    path = name.split(".")
    if LANGUAGE in path:
        return LANGUAGE
    parts = (
        (GENERATOR, GENERATING),
        (VISION, CODING),
        (PROJECTOR, PROJECTORS),
        (AUDIO, HEARING),
        (VISION, SEEING),
    )
    return next((part for part, names in parts if not names.isdisjoint(path)), LANGUAGE)


def params_by_part(model: Any) -> dict[str, int]:
    """Parameters of each part, tied ones once."""
    counts: Counter[str] = Counter()
    for name, tensor in model.named_parameters():
        counts[part_of(name)] += tensor.numel()
    return dict(sorted(counts.items()))


def figures(model: Any) -> dict[str, Any]:
    """Parameters by part, and an image, or a sound where the class reads no images."""
    parts = params_by_part(model)
    medium = one_sound(model) if AUDIO in parts and VISION not in parts else one_image(model)
    return {"params": parts, **medium}


class WeightsAlone(TorchDispatchMode):
    """Weights have no values, and what is computed with them; grids, sizes, places and masks have theirs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The operation on meta where one of its tensors is there; else with values, on any device."""
        kwargs = dict(kwargs or {})
        if func is torch.ops.aten._to_copy.default:
            kwargs.pop("device", None)
        elif "device" in {argument.name for argument in func._schema.arguments}:
            kwargs["device"] = torch.device("cpu")
        if func is torch.ops.aten.index.Tensor:
            args = (args[0], _numbered(args[1]))
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        if len({x.device.type for x in tensors}) > 1:
            args, kwargs = tree_map_only(torch.Tensor, lambda x: x.to("meta"), (args, kwargs))
        return func(*args, **kwargs)


def _numbered(indices: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Masks with values as the places that they choose, which a tensor on meta takes."""
    if not any(x is not None and x.dtype == torch.bool and x.device.type == "cpu" for x in indices):
        return indices
    places = [
        (None,) if x is None else x.nonzero().unbind(1) if x.dtype == torch.bool else (x,) for x in indices
    ]
    return [x for group in places for x in group]


class ListsAreReal(TorchFunctionMode):
    """A tensor that is made of a list has values, whatever device is named."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The call without a device where it makes a tensor of a list."""
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor):
            kwargs.pop("device", None)
        return func(*args, **kwargs)


def one_image(model: Any) -> dict[str, Any]:
    """Size, rows and FLOPs by part of an image, by the first form of input that the class takes."""
    look = _method(model)
    if look is None:
        return {"hidden": "the class has no get_image_features"}
    hidden = {}
    model.requires_grad_(False)  # torch's tracker of modules looks for gradients
    for form in given(look, model.config):
        try:
            image, inputs = form(model.config)
            counted = _counted(model, look, inputs)
            return {"image": list(image), **counted, **_crossed(model, counted["rows"])}
        except Exception as error:  # noqa: BLE001 what any class may raise on meta
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:SHOWN]
            hidden = hidden or {"hidden": reason}
    return hidden


def one_sound(model: Any) -> dict[str, Any]:
    """Frames, rows and FLOPs by part of a spectrogram of the length of training, as Whisper has them."""
    model.requires_grad_(False)
    heard = model.config.audio_config
    # an encoder without a table of positions reads any length
    positions = getattr(heard, "max_source_positions", None) or heard.max_position_embeddings
    frames = 2 * positions
    spectrogram = torch.ones(1, heard.num_mel_bins, frames)

    def hear(input_features: torch.Tensor) -> Any:
        if hasattr(model.model, "get_audio_features"):
            return model.model.get_audio_features(input_features)
        return model.model.multi_modal_projector(model.model.audio_tower(input_features).last_hidden_state)

    try:
        return {"frames": frames, **_counted(model, hear, {"input_features": spectrogram}, AUDIO)}
    except Exception as error:  # noqa: BLE001 what any class may raise on meta
        return {"hidden": f"{type(error).__name__}: {error}".splitlines()[0][:SHOWN]}


def _method(model: Any) -> Any:
    """What makes features of an image."""
    holders = [
        holder for holder in (getattr(model, "model", None), model) if hasattr(holder, "get_image_features")
    ]
    if type(model).__name__ in CROSSING:
        return _tiled(model.model)
    if type(model).__name__ == WITHOUT_METHOD:
        return lambda pixel_values: model.git.visual_projection(
            model.git.image_encoder(pixel_values).last_hidden_state
        )
    if type(model).__name__ not in PROJECTED_LATER:
        return holders[0].get_image_features if holders else None

    def look(pixel_values: torch.Tensor) -> Any:
        return model.multi_modal_projector(model.get_image_features(pixel_values).last_hidden_state)

    return look


def _tiled(model: Any) -> Any:
    """What makes features of an image as each of several tiles."""

    def look(pixel_values: torch.Tensor) -> Any:
        tiles = model.config.vision_config.max_num_tiles
        seen = model.vision_model(
            pixel_values=pixel_values[:, None, None].expand(-1, -1, tiles, -1, -1, -1),
            aspect_ratio_ids=torch.ones(1, 1, dtype=torch.long),
            aspect_ratio_mask=torch.ones(1, 1, tiles, dtype=torch.long),
        )
        return model.multi_modal_projector(seen.last_hidden_state)

    return look


def _crossed(model: Any, rows: int) -> dict[str, int]:
    """FLOPs of a text that reads so many rows of an image by cross attention, and of its logits."""
    if type(model).__name__ not in CROSSING:
        return {}
    width = model.config.text_config.hidden_size
    with FlopCounterMode(display=False) as counter, torch.no_grad(), torch.device("meta"):
        ids = torch.zeros(1, CROSSING_TOKENS, dtype=torch.long)
        text = model.model.language_model(input_ids=ids, cross_attention_states=torch.zeros(1, rows, width))
        model.lm_head(text.last_hidden_state)
    return {"crossed": counter.get_total_flops()}


def _counted(model: Any, look: Any, inputs: Given, tower: str = VISION) -> dict[str, Any]:
    counter = FlopCounterMode(display=False)
    with (
        ExitStack() as stack,
        warnings.catch_warnings(),
        torch.no_grad(),
        counter,
        WeightsAlone(),
        ListsAreReal(),
    ):
        warnings.simplefilter("ignore")
        projected = _of_projectors(model, counter, stack)
        rows = _rows(look(**inputs))
    total = counter.get_total_flops() - _resizing(model, inputs)
    parts = {tower: total - sum(projected), PROJECTOR: sum(projected)}
    return {"rows": rows, "flops": {part: flops for part, flops in parts.items() if flops}}


def _resizing(model: Any, inputs: Given) -> int:
    """FLOPs of the products by which SigLIP 2 resizes its table of positions: an interpolation."""
    if "spatial_shapes" not in inputs:
        return 0
    tables = [
        module.position_embedding.weight
        for module in model.modules()
        if hasattr(module, "position_embedding")
    ]
    return sum(2 * int(inputs["spatial_shapes"].prod()) * table.numel() for table in tables)


def _of_projectors(model: Any, counter: FlopCounterMode, stack: ExitStack) -> list[int]:
    """A list that gets the FLOPs of each call of an outermost module of the projector."""
    called: list[int] = []
    for module in _projectors(model):
        started = module.register_forward_pre_hook(lambda *_: called.append(-counter.get_total_flops()))
        ended = module.register_forward_hook(lambda *_: called.append(counter.get_total_flops()))
        stack.callback(started.remove)
        stack.callback(ended.remove)
    return called


def _projectors(module: Any, path: str = "") -> Iterator[Any]:
    """The outermost modules of the projector; a list is never called, its modules are."""
    for name, child in module.named_children():
        inner = f"{path}.{name}"
        if part_of(inner) == PROJECTOR and not isinstance(child, torch.nn.ModuleList):
            yield child
        else:
            yield from _projectors(child, inner)


def _rows(out: Any) -> int:
    """Vectors that the language model gets."""
    pooled = getattr(out, "pooler_output", None)
    features = getattr(out, "last_hidden_state", out) if pooled is None else pooled
    tensors: Iterator[torch.Tensor] = (x for x in tree_flatten(features)[0] if isinstance(x, torch.Tensor))
    return sum(x.numel() // x.shape[-1] for x in tensors)
