"""State dict: name and shape of every tensor that a built model has, from the rows of a count."""

from __future__ import annotations

from archcli.arith import Shape
from archcli.measure.passes import shape_pass
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex


def tensors(model: Model) -> tuple[dict[str, Shape], dict[str, Shape]]:
    """(weights, buffers) of the whole model: the keys of a built model's state_dict, experts stacked."""
    weights: dict[str, Shape] = {}
    buffers: dict[str, Shape] = {}
    layers = LayerIndex(model)
    for row in shape_pass(model).rows:
        stacked = () if row.experts is None else (row.experts.n_experts,)
        for path in layers.stored_paths(row):
            weights |= {f"{path}.{name}": (*stacked, *shape) for name, shape in row.weights.items()}
            buffers |= {
                f"{path}.{name}": (*stacked, *shape) for name, shape in row.op.buffers(*row.inputs).items()
            }
    return weights, buffers
