"""What `archcli` has, for type checkers and editors; made with listing.json."""

from archcli.api.check import check as check
from archcli.api.compare import compare as compare
from archcli.api.design_rules import design_rules as design_rules
from archcli.api.families import families as families
from archcli.api.flops import count_flops as count_flops
from archcli.api.flops import count_flops as flops
from archcli.api.kvcache import count_kv_cache as count_kv_cache
from archcli.api.kvcache import count_kv_cache as kvcache
from archcli.api.params import count_params as count_params
from archcli.api.params import count_params as params
from archcli.api.presets import presets as presets
from archcli.api.schema import yaml_schema as yaml_schema
from archcli.api.show import show as show
from archcli.api.survey import survey as survey
from archcli.errors import ArchError as ArchError
from archcli.load import load as load
from archcli.measure.report import Report as Report
from archcli.modules import Model as Model
from archcli.modules.spec.kinds import register as register
from archcli.modules.spec.request import Request as Request
from archcli.wings.drawing.api.draw import draw as draw
from archcli.wings.drawing.api.report import report as report
from archcli.wings.running.api.build import build as build
from archcli.wings.running.api.own import rows as rows
from archcli.wings.running.api.own import summary as summary
from archcli.wings.running.api.plot import plot as plot
from archcli.wings.running.api.profile import profile as profile
from archcli.wings.running.api.verify import verify as verify
from archcli.wings.serving.api.bench import bench as bench
from archcli.wings.serving.api.choosing.choose import choose as choose
from archcli.wings.serving.api.devices import devices as devices
from archcli.wings.serving.api.fit import fit as fit
from archcli.wings.serving.api.memory import count_memory as count_memory
from archcli.wings.serving.api.memory import count_memory as memory
from archcli.wings.serving.api.predict import predict as predict
from archcli.wings.serving.api.programs.engines import engines as engines
from archcli.wings.serving.api.programs.trainers import trainers as trainers
from archcli.wings.shapes.api.explain import explain as explain
from archcli.wings.shapes.api.explain import formula as formula
from archcli.wings.shapes.api.export import export as export
from archcli.wings.shapes.api.scale import scale as scale
from archcli.wings.shapes.api.sweep import sweep as sweep
from archcli.wings.shapes.symbolic.formula import Formula as Formula
from archcli.wings.shapes.symbolic.sweep import Sweep as Sweep

__version__: str
__all__ = [
    "ArchError",
    "Formula",
    "Model",
    "Report",
    "Request",
    "Sweep",
    "bench",
    "build",
    "check",
    "choose",
    "compare",
    "count_flops",
    "count_kv_cache",
    "count_memory",
    "count_params",
    "design_rules",
    "devices",
    "draw",
    "engines",
    "explain",
    "export",
    "families",
    "fit",
    "flops",
    "formula",
    "kvcache",
    "load",
    "memory",
    "params",
    "plot",
    "predict",
    "presets",
    "profile",
    "register",
    "report",
    "rows",
    "scale",
    "show",
    "summary",
    "survey",
    "sweep",
    "trainers",
    "verify",
    "yaml_schema",
]
