"""Fused kernels as groups: whose a kernel is, what a trace says of it, where costs stand.

Nothing is compiled here.
"""

import pytest
from torch import fx
from torch.ops import aten

from archcli.measure.passes import checked_pass
from archcli.modules.models.layers import LayerIndex
from archcli.ops import Add, Linear, Normalize
from archcli.wings.running.profile.charges import occurrences
from archcli.wings.running.recording.events import Event
from archcli.wings.running.recording.kernels import CompiledGraph, GraphOp, Launch, join_kernels
from archcli.wings.running.recording.walk import CALL, launched, matched, walk_compiled, with_groups
from archcli.wings.running.runtime.model.op_log import op_log
from archcli.wings.running.runtime.profile.provenance import PIECES, ROW, Provenance
from archcli.wings.running.runtime.profile.work import prepare
from archcli.wings.serving.recorded.classes import FUSED_KERNELS
from archcli.wings.serving.recorded.operations import CallTime, OpInstance, OpKey
from archcli.wings.serving.recorded.operators import members, operator_name
from recordings import MODELS, RUNS, question
from table import every_row

LABELS = {
    "one operator": ("layers.3.ffn_norm", "layers.*.ffn_norm"),
    "of one layer": ("layers.3.residual + layers.3.ffn_norm", "layers.*.{residual, ffn_norm}"),
    "of two layers alike": ("layers.3.ffn_norm + layers.4.ffn_norm", "layers.*.ffn_norm"),
    "deep": ("layers.0.ffn.up + layers.0.ffn.gate + layers.0.norm", "layers.*.{ffn.{up, gate}, norm}"),
    "far apart": ("embedding.tokens + layers.0.norm", "{embedding.tokens, layers.*.norm}"),
    "outside of all": ("", ""),
}


@every_row(("path", "name"), LABELS.values(), ids=LABELS)
def test_a_group_is_named_after_what_it_holds(path, name):
    assert operator_name(path) == name


def test_a_group_is_folded_as_its_operators_are():
    assert operator_name("layers.0.ffn.up + layers.0.norm", 2) == "layers.*"
    assert members("layers.0.ffn.up + layers.1.ffn.up + layers.0.norm", 3) == [
        "layers.*.ffn",
        "layers.*.norm",
    ]


MATCHES = {
    "all": (["a", "b"], ["a", "b"], [0, 1]),
    "more between": (["a", "empty", "b"], ["a", "b"], [0, None, 1]),
    "one is missing": (["a", "c"], ["a", "b", "c"], [0, 2]),
    "one that is none": (["a", "mm", "mm"], ["a", "mm"], [0, 1, None]),
    "nothing": ([], ["a"], []),
}


@pytest.mark.parametrize(("seen", "expected", "places"), MATCHES.values(), ids=MATCHES)
def test_kernels_are_found_in_their_order(seen, expected, places):
    assert matched(seen, expected) == places


NORM, RESIDUAL, PROJECTION = "layers.0.norm", "layers.0.residual", "layers.0.proj"
X = (2, 4, 8)
RAN = {
    RESIDUAL: OpInstance(RESIDUAL, Add("residual"), (X, X)),
    NORM: OpInstance(NORM, Normalize("norm", eps=1e-5), (X,)),
    PROJECTION: OpInstance(PROJECTION, Linear("proj", 8), (X,)),
}
ADDED, SQUARED, MULTIPLIED = GraphOp(RESIDUAL, "add"), GraphOp(NORM, "pow"), GraphOp(PROJECTION, "mm")
FORWARD = CompiledGraph(
    False,
    [
        Launch("graph_0_cpp_0", (ADDED, SQUARED), False),
        Launch("mm", (MULTIPLIED,), True),
        Launch("graph_0_cpp_1", (GraphOp(NORM, "mul"),), False),
    ],
)
BACKWARD = CompiledGraph(
    True, [Launch("mm", (MULTIPLIED,), True), Launch("graph_0_cpp_2", (GraphOp("", "add"),), False)]
)
MADE = join_kernels([BACKWARD, FORWARD], RAN)


def test_a_kernel_belongs_to_all_it_holds():
    group, product, norm = MADE.graphs[0]
    assert (group.key.path, group.op_class) == (f"{RESIDUAL} + {NORM}", FUSED_KERNELS)
    assert (product.key, product.op_class) == (OpKey(PROJECTION, "forward", "mm"), "contraction")
    assert (norm.key.path, norm.op_class) == (NORM, "normalization")


def test_the_backward_comes_last_and_sums_of_gradients_are_of_no_operation():
    product, sums = MADE.graphs[1]
    assert product.key == OpKey(PROJECTION, "backward", "mm")
    assert (sums.key, sums.op_class) == (OpKey("", "sums", "graph_0_cpp_2"), "elementwise")


def test_what_an_operation_costs_stands_with_its_first_kernel():
    assert MADE.charged_group(NORM, "forward", "normalization") == (f"{RESIDUAL} + {NORM}", FUSED_KERNELS)
    # the bias is added by the product's kernel
    assert MADE.charged_group(PROJECTION, "forward", "elementwise") == (PROJECTION, "contraction")
    assert MADE.charged_group(NORM, "backward", "normalization") is None


def test_what_no_kernel_holds_is_told():
    assert MADE.missing == MADE.shared == ()
    other = {**RAN, "layers.1.norm": OpInstance("layers.1.norm", Normalize("norm", eps=1e-5), (X,))}
    wider = {**RAN, "layers.1.norm": OpInstance("layers.1.norm", Normalize("norm", eps=1e-5), ((2, 4, 9),))}
    assert join_kernels([FORWARD], other).shared == ("layers.1.norm",)
    assert join_kernels([FORWARD], wider).missing == ("layers.1.norm",)


def test_a_library_product_that_adds_something_stays_a_product():
    made = join_kernels([CompiledGraph(False, [Launch("addmm", (MULTIPLIED, ADDED), True)])], RAN)
    assert made.graphs[0][0].op_class == "contraction"
    assert made.graphs[0][0].key.path == f"{RESIDUAL} + {PROJECTION}"


def event(name, start, end, **more):
    return Event(name, start, end, thread=1, **more)


TRACE = [
    event("Torch-CompiledModel Region: 0/0", 0, 100),
    event(f"{CALL} x ##", 10, 90),
    event("graph_0_cpp_0", 10, 20),
    event("aten::mm", 20, 50),
    event("aten::empty", 25, 30),
    event("graph_0_cpp_1", 50, 55),
    event("aten::roll", 60, 70),
    event("aten::mm", 92, 95),
    event(f"{CALL} y ##", 100, 120),
    event("aten::mm", 101, 111),
    event("graph_0_cpp_2", 112, 113),
]


def test_a_kernel_takes_its_whole_time():
    assert walk_compiled(TRACE, MADE.graphs) == {
        OpKey(f"{RESIDUAL} + {NORM}", "forward", "graph_0_cpp_0"): CallTime(10, 1),
        OpKey(PROJECTION, "forward", "mm"): CallTime(30, 1),
        OpKey(NORM, "forward", "graph_0_cpp_1"): CallTime(5, 1),
        OpKey("", "forward", "roll"): CallTime(10, 1),
        OpKey(PROJECTION, "backward", "mm"): CallTime(10, 1),
        OpKey("", "sums", "graph_0_cpp_2"): CallTime(1, 1),
    }


def test_a_graph_too_many_is_of_no_operation():
    found = list(launched(TRACE, MADE.graphs[:1]))
    assert [kernel is None for _, kernel in found] == [False, False, False, True, True, True]


def test_a_trace_has_a_range_around_each_kernel():
    around = with_groups(TRACE, MADE.graphs, "x:")[len(TRACE) :]
    assert around[0] == event(f"x:{RESIDUAL} + {NORM}", 10, 20, id=-1)
    assert len(around) == 5


def graph(*calls):
    """A graph of calls (name, function, inputs, path), each input an earlier name or a new placeholder."""
    made, nodes = fx.Graph(), {}
    for name, function, inputs, path in calls:
        for each in inputs:
            if each not in nodes:
                nodes[each] = made.placeholder(each)
        nodes[name] = made.create_node(
            "call_function", function, tuple(nodes[each] for each in inputs), name=name
        )
        nodes[name].meta["custom"] = {ROW: path}
    return made


def test_a_view_is_no_piece():
    made = graph(("p", aten.permute.default, ["w"], "proj"), ("m", aten.mm.default, ["x", "p"], "proj"))
    assert [Provenance().pieces_of(node) for node in made.nodes] == [(), (), (), (GraphOp("proj", "mm"),)]


def test_a_node_that_replaces_others_takes_over_whose_they_were():
    found = Provenance()
    found.remember(
        graph(
            ("m", aten.mm.default, ["x", "w"], "proj"),
            ("n", aten.mm.default, ["x", "v"], "other"),
            ("a", aten.add.Tensor, ["m", "r"], "residual"),
        )
    )
    after = graph(
        ("n", aten.mm.default, ["x", "v"], "other"),
        ("fused", aten.addmm.default, ["r", "x", "w"], "residual"),
    )
    found.inherit_pieces(after)
    nodes = {node.name: node for node in after.nodes}
    assert nodes["fused"].meta[PIECES] == (GraphOp("proj", "mm"), GraphOp("residual", "add"))
    assert PIECES not in nodes["n"].meta


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "phase"), RUNS, ids=map("-".join, RUNS))
def test_every_occurrence_of_a_row_is_found_where_it_ran(name, phase):
    counted = checked_pass(MODELS[name], question(phase, past=5))
    work = prepare(MODELS[name], counted.request)
    with op_log(work.model) as log:
        work.step()
    found = list(occurrences(LayerIndex(MODELS[name]), counted, log.ran.values()))
    costing = [(path, row, times) for path, row, times in found if row.parts]
    assert all(times == 1 and path in log.ran for path, _, times in costing)
    assert all(row.inputs == log.ran[path].inputs for path, row, _ in costing)
    assert {path for path, _, _ in found} >= log.ran.keys()
    times = [(row.path, sum(often for _, other, often in found if other is row)) for row in counted.rows]
    assert times == [(row.path, row.times) for row in counted.rows]
