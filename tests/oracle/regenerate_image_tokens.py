"""What transformers' processors make of images: tokens in the prompt, and the defaults of their classes.

    python tests/oracle/regenerate_image_tokens.py [--install FOLDER] [ID …]

Most image processors need torchvision: with --install an environment of its own is made in FOLDER (some
6 GB) and asked there. `image_tokens.json` holds for each ID a config.json, what the files of its processor
say, and the tokens of 14 images, whose sides are drawn with a seed. A processor is called whole, with a
tokenizer that has no words and keeps the text that it is given; null is an image that the class refuses.
`archcli/load/huggingface/parts/processors.json` is written beside it: what each class defaults to.
"""

import argparse
import json
import re
import subprocess
import sys
import venv
from pathlib import Path

FIGURES = Path(__file__).parent / "image_tokens.json"
ROOT = Path(__file__).parents[2]
CLASSES = ROOT / "archcli/wings/media/huggingface/processors.json"
PACKAGES = (
    *("torch==2.14.1", "torchvision==0.29.1", "transformers==5.24.0", "pillow", "num2words"),
    *("sentencepiece", "pyyaml", "typer", "rich"),
)
SEED, IMAGES = 7, 14
MARKS = re.compile(
    r"<image>|<\|IMG_PATCH\|>|<\|patch\|>|<imgpad>|<\|imgpad\|>|<im_patch>|<\]image\[>|<IMG_ATOM>"
    r"|<context_image_token>|\[IMG\]|\[IMG_BREAK\]|\[IMG_END\]"
)
"""What stands for a vector of an image; Pixtral's rows end with a token each, which its class counts too."""
UNMAPPED = {
    "glmga": "Glm46VProcessor",
    "glm_ocr": "Glm46VProcessor",
    "kosmos-2": "Kosmos2Processor",
    "kosmos-2.5": "Kosmos2_5Processor",
    "cosmos3_omni": "Qwen3VLProcessor",
    "qwen2_5_omni_thinker": "Qwen2_5OmniProcessor",
    "qwen3_omni_moe_thinker": "Qwen3OmniMoeProcessor",
}
"""Processors of types that transformers' own table leaves out."""
IMAGE_CLASSES = {
    "modernvbert": "Idefics3ImageProcessor",
    "instructblipvideo": "BlipImageProcessor",
    "qwen3_vl_moe": "Qwen2VLImageProcessor",
    "glm4v_moe": "Glm4vImageProcessor",
    "glm_ocr": "Glm46VImageProcessor",
    "qwen2_5_omni_thinker": "Qwen2VLImageProcessor",
    "qwen3_omni_moe_thinker": "Qwen2VLImageProcessor",
}
NO_TOKENS = re.compile(
    r"^(image_(mean|std|processor_type|num_channels)|resample|rescale_factor|data_format|padding_.*"
    r"|do_(rescale|normalize|convert_rgb|pad)|return_.*|.*background_color|high_res_.*|input_data_format)$"
)
"""Settings that change no size of an image."""


def sizes():
    """The heights and widths of the images, up to 1 by 4 in shape."""
    import numpy as np

    drawn = np.random.default_rng(SEED)
    return [drawn_size(drawn) for _ in range(IMAGES)]


def drawn_size(drawn):
    """A height and a width, even on a scale of logarithms."""
    height = round(24 * (1800 / 24) ** drawn.random())
    return height, min(max(round(height * 4 ** drawn.uniform(-1, 1)), 16), 2400)


def first(names):
    """The class with torchvision, else with Pillow."""
    return names.get("torchvision") or names.get("pil") if isinstance(names, dict) else names


def processor_class(kind):
    """The name of the processor of a type; None for none."""
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    return UNMAPPED.get(kind) or PROCESSOR_MAPPING_NAMES.get(kind)


def image_class(kind):
    """The name of the image processor of a type; None for none."""
    from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

    return IMAGE_CLASSES.get(kind) or first(IMAGE_PROCESSOR_MAPPING_NAMES.get(kind))


def of_sizes(settings):
    """The settings that change the size or the number of pieces of an image."""
    return {key: value for key, value in settings.items() if not NO_TOKENS.match(key)}


def class_settings(name):
    """The defaults of an image processor; null for what it takes and has no default for."""
    import transformers

    made = getattr(transformers, name)()
    settings = {key: value for key, value in made.to_dict().items() if value is not None}
    pixels = {key: None for key in ("min_pixels", "max_pixels") if key in made.valid_kwargs.__annotations__}
    return of_sizes({**settings, **pixels})


def imposed(name):
    """What a processor tells its image processor whatever the file says."""
    import transformers

    cls = getattr(transformers, name)
    older = getattr(cls.valid_processor_kwargs, "_defaults", {}).get("images_kwargs", {})
    return of_sizes({**getattr(cls, "images_kwargs", {}), **older})


def classes():
    """The classes of each type with a tower of images, their defaults, and what processors impose."""
    sys.path.insert(0, str(ROOT))
    from archcli.load.huggingface.registry import families
    from tower_defaults import TOWERS

    with_images = {kind for kind, row in TOWERS if row.key not in ("audio_config", "encoder_config")}
    kinds = sorted({*with_images, *families()})
    types = {kind: [image_class(kind), processor_class(kind)] for kind in kinds if image_class(kind)}
    processors = {name for _, name in types.values()} - {None}
    return {
        "types": types,
        "image_processors": {name: class_settings(name) for name in sorted({a for a, _ in types.values()})},
        "processors": {name: told for name in sorted(processors) if (told := imposed(name))},
    }


def tokenizer():
    """A tokenizer without words, which keeps the text that it is given."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import BatchEncoding, PreTrainedTokenizerFast

    class Encoding(BatchEncoding):
        def char_to_token(self, *_):
            return 0

    class Recorder(PreTrainedTokenizerFast):
        def __init__(self):
            names = {name: f"<{name}>" for name in ("unk", "bos", "eos", "pad")}
            model = WordLevel({"<unk>": 0}, unk_token=names["unk"])
            super().__init__(
                tokenizer_object=Tokenizer(model), **{f"{name}_token": word for name, word in names.items()}
            )
            self.text = ""

        def __getattr__(self, name):
            if name == "image_token":
                return "<image>"
            if name.endswith("_token") and not name.startswith("_"):
                return f"<{name}>"
            return 7 if name.endswith("_token_id") and name[0] != "_" else super().__getattr__(name)

        def __call__(self, text=None, *_, **__):
            texts = text if isinstance(text, list | tuple) else [text]
            self.text = "".join(map(str, texts))
            rows = [[1, 2] for _ in texts]
            return Encoding({"input_ids": rows, "attention_mask": rows})

        def encode(self, *_, **__):
            return [7]

    return Recorder()


def processor_of(entry):
    """The processor of an entry, and its tokenizer."""
    import transformers
    from transformers.models.auto.video_processing_auto import VIDEO_PROCESSOR_MAPPING_NAMES

    kind, settings = entry["config"]["model_type"], dict(entry["processor"])
    words = tokenizer()
    named = settings.pop("image_processor_type", None) or image_class(kind)
    video = first(VIDEO_PROCESSOR_MAPPING_NAMES.get(kind)) or "Qwen2VLVideoProcessor"
    cls = getattr(transformers, settings.pop("processor_class", None) or processor_class(kind))
    cls.check_argument_for_proper_class = lambda *_: None
    image_processor = getattr(transformers, named)(**settings)
    for key, value in settings.items():
        if not hasattr(image_processor, key):
            setattr(image_processor, key, value)
    parts = {
        "image_processor": lambda: image_processor,
        "tokenizer": lambda: words,
        "video_processor": getattr(transformers, video),
    }
    made = cls(**{name: parts.get(name, lambda: None)() for name in cls.get_attributes()}, **entry["options"])
    made._check_special_mm_tokens = lambda *_, **__: None
    return made, words


def tokens_of(entry):
    """The tokens of each image; none where the class refuses its settings."""
    try:
        made, words = processor_of(entry)
    except ValueError:
        return [None] * IMAGES
    return [tokens(made, words, size, entry.get("prompt")) for size in sizes()]


def tokens(made, words, size, prompt):
    """The tokens of a black image; None where the class refuses it."""
    from PIL import Image

    mark = prompt or getattr(made, "image_token", None) or "<image>"
    words.text = ""
    try:
        made(images=[Image.new("RGB", size[::-1])], text=[mark], return_tensors="pt")
    except (ValueError, RuntimeError, ZeroDivisionError):
        return None
    return len(MARKS.findall(words.text))


def written(known):
    """The text of a file: a line for each entry."""
    return "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in known.items()) + "\n}\n"


def installed(folder, names):
    """Make the environment, if it is not there yet, and run in it."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True, timeout=3600)
    subprocess.run([python, __file__, *names], check=True, timeout=7200)


def main():
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--install", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="ID")
    options = parser.parse_args()
    if options.install:
        installed(options.install, options.names)
        return
    lines = {group: written(entries).rstrip() for group, entries in classes().items()}
    CLASSES.write_text("{\n" + ",\n".join(f'"{k}": {v}' for k, v in lines.items()) + "\n}\n")
    known = json.loads(FIGURES.read_text())
    import torch

    torch.set_num_threads(1)
    for name in options.names or known:
        known[name]["tokens"] = tokens_of(known[name])
    FIGURES.write_text(written(known))


if __name__ == "__main__":
    main()
