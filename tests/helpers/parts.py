"""The five parts of archcli: a core, and wings that add to it; and the imports of the core from a wing.

A module below `archcli.wings.NAME` is of the wing NAME, and any other of the part that the longest of its
prefixes in `PARTS` names; without one it is of the core. Like `house.py`: parsed source alone is read.
"""

from typing import NamedTuple

import house

WINGS = "archcli.wings"
CORE = "core"
PARTS = {
    # what a device holds, and how fast it is
    "serving": (
        "api.asking.engine",
        "api.asking.offload",
        "api.asking.plan_options",
        "api.devices",
        "api.engines",
        "api.fit",
        "api.fitting",
        "api.known_device",
        "api.memory",
        "api.predict",
        "api.slow_figures",
        "commands.devices",
        "commands.engines",
        "commands.fit",
        "commands.memory",
        "commands.predict",
        "launches",
        "load.devices",
        "load.hub.model_files",
        "measure.kvcache.served",
        "measure.memory",
        "measure.predict",
        "render.picture.fit",
        "render.picture.memory",
        "render.picture.predict",
    ),
    # encoders of images and sounds, and what joins them to a language model
    "media": (
        *(
            f"load.huggingface.families.{kin}"
            for kin in ("dinov2", "llama_towers", "siglip", "text_towers", "vit", "whisper")
        ),
        "load.huggingface.parts.processing",
        "load.huggingface.towers",
        "load.huggingface.weights.towers",
        "load.huggingface.whole.clip_like",
        "load.huggingface.whole.processed",
        "load.huggingface.whole.vit_like",
        "load.huggingface.whole.wave_like",
        "load.huggingface.wrappers",
        "modules.blocks.conformer",
        "modules.blocks.contexts",
        "modules.blocks.crossed",
        "modules.blocks.grid",
        "modules.blocks.windows",
        "modules.ends.frontend",
        "modules.ends.patches",
        "modules.ends.pooling",
        "modules.ends.projectors",
        "modules.models.resamplers",
        "modules.ends.sounds",
        "modules.ends.spectrograms",
        "modules.ends.waves",
        "modules.images",
        "modules.models.media",
        "modules.models.media_encoder",
        "modules.models.text_tower",
        "modules.models.tower",
        "modules.models.videos",
        "modules.positions.grid",
        "ops.grids",
    ),
    # torch: a model built, run, verified and profiled, and modules and programs of the user's
    "running": (
        "api.asking.module_options",
        "api.build",
        "api.by_class",
        "api.modules",
        "api.own",
        "api.plot",
        "api.profile",
        "api.profiling",
        "api.verify",
        "api.verify_memory",
        "commands.plot",
        "commands.profile",
        "commands.summary",
        "commands.verify",
        "load.devices.ceilings",
        "load.saved",
        "measure.profile",
        "measure.survey.own_module",
        "recording",
        "render.picture.profile",
        "render.picture.roofline",
        "runtime",
    ),
    # an architecture as a drawing, a report as a page
    "drawing": (
        "api.draw",
        "api.report",
        "api.reporting",
        "commands.draw",
        "commands.report",
        "measure.survey.anatomy",
        "render.picture",
        "render.report",
    ),
    # other ways in: assistants, and the browser's page
    "doors": ("commands.line.ask", "commands.mcp"),
}
"""What belongs to each wing, by the beginnings of its modules' names below archcli."""
NAMES = (CORE, *PARTS)
OWNERS = {f"archcli.{start}": wing for wing, starts in PARTS.items() for start in starts}


def part_of(module):
    """The part that a module belongs to, by its dotted name."""
    if module.startswith(f"{WINGS}."):
        return module.split(".")[2]
    steps = module.split(".")
    starts = (".".join(steps[:n]) for n in range(len(steps), 0, -1))
    return next((OWNERS[start] for start in starts if start in OWNERS), CORE)


class Crossing(NamedTuple):
    """An import of the core that names a module of a wing."""

    source: str
    line: int
    target: str
    wing: str


def imports_of_the_core(parsed):
    """The imports of archcli's modules that stand in the core's."""
    return [
        one
        for one in house.imports(parsed)
        if part_of(one.source) == CORE and one.target.split(".")[0] == "archcli"
    ]


def outwards(parsed):
    """The imports of the core that cross into a wing."""
    return [
        Crossing(one.source, one.line, one.target, part_of(one.target))
        for one in imports_of_the_core(parsed)
        if part_of(one.target) != CORE
    ]


def stale(parsed):
    """Beginnings of names in the table that no module has any more."""
    return [
        start for start in OWNERS if not any(name == start or name.startswith(f"{start}.") for name in parsed)
    ]
