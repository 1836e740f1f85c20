"""Classes of transformers' mappings that archcli refuses by name, each with the reason."""

RECURRENT = "a recurrent state or a convolution over tokens"

LATER: dict[str, str] = {
    **dict.fromkeys(
        ("causal/inkling2_text", "image-text/inkling2"), "residuals that attend to sums of earlier layers"
    ),
    "sequence-to-sequence/nemo_speechlm": RECURRENT,
    "image-text/glm5_next": "several residual streams, and an index of pooled keys",
    "image-text/mistral_large4": "trained rotary frequencies, and trained temperatures by position",
}
"""What needs operations that archcli does not have yet."""

SET_ASIDE: dict[str, str] = {
    "causal/blt": "patches of bytes, of a length that another model chooses",
    "causal/cpmant": "a trained prompt before every pass, over which attention looks both ways",
    "causal/hrm_text": "two stacks that run in nested cycles on two streams",
    "causal/prophetnet": "a second stream that predicts further words",
    "image-text/idefics": "frozen text layers, a second table and head, and cross attention to images",
    "image-text/pi0": "a diffusion transformer beside the language model",
    "image-text/pix2struct": "the encoder reads images alone",
    "image-text/pp_formulanet": "the encoder reads images alone",
    "image-text/qwen3_omni_moe_thinker": "its default head_dim is 73, which its own class cannot rotate",
    "image-text/udop": "positions on a page as a bias on scores",
    "masked/convbert": "convolutions whose kernels are made of the tokens",
    "masked/funnel": "layers that pool the tokens",
    "masked/mra": "attention approximated at several resolutions, in a kernel for GPUs",
    "masked/neomme": "embeddings of values and mixed streams",
    "masked/nystromformer": "landmarks in place of keys, and a convolution",
    "masked/perceiver": "latents that read the tokens",
    "masked/reformer": "attention within hash buckets",
    "masked/yoso": "weights of attention by an arc cosine, and a norm of each head",
    "sequence-to-sequence/pegasus_x": "an encoder of blocks with tokens that see all",
    "sequence-to-sequence/prophetnet": "a second stream that predicts further words",
}
"""What archcli could say and does not, or what is too odd for one forward in its operations."""

IMAGES: dict[str, str] = {
    "image/depth_pro": "two encoders that read patches of one image at three sizes",
    "image/hiera": "masked units whose tokens are pooled within attention",
    "image/imagegpt": "a language model over colours",
    "image/swin2sr": "attention by cosines",
    "image/timesformer": "attention along time, then along places",
    "image/videoprism_vision_model": "attention along places, then along time",
    "image/yolos": "tables of positions in every layer",
    "image-classification/cvt": "convolutions in place of projections",
    "image-classification/hiera": "masked units whose tokens are pooled within attention",
    "image-classification/imagegpt": "a language model over colours",
    "image-classification/perceiver": "latents that read the pixels",
}
"""Encoders of images that are refused, each with what it has and archcli lacks."""
