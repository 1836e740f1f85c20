"""Closed forms with which a page recomputes a model's figures for other sizes, in JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import Any, NamedTuple

from archcli.modules import Model
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.closed.addresses import (
    CACHE_DTYPES,
    DECODE,
    Address,
    Forms,
    RowPaths,
    form_at,
)
from archcli.wings.shapes.symbolic.closed.conditions import Reload, SizeCondition, conditions, settable
from archcli.wings.shapes.symbolic.closed.forms import closed_forms
from archcli.wings.shapes.symbolic.closed.fractions import quotient
from archcli.wings.shapes.symbolic.closed.free import FreeModel, FreeSize, free_model
from archcli.wings.shapes.symbolic.closed.javascript import condition, script
from archcli.wings.shapes.symbolic.explain.question import MEANINGS

MEANT = {"==": "must be", "!=": "must not be", "<": "must be below", "<=": "must be at most"}
MEANT |= {">": "must be above", ">=": "must be at least"}


class Calculator(NamedTuple):
    """The closed forms of a model by address, and the conditions on its sizes."""

    free: FreeModel
    sizes: tuple[FreeSize, ...]
    needed: tuple[SizeCondition, ...]
    forms: Forms

    def record(self, drawn: Iterable[Address] = ()) -> dict[str, Any]:
        """The calculator as JSON: sizes, and for each figure of the page the index of its form.

        `drawn` are addresses of a drawing, in the order of its values; -1 for one without a closed form.
        """
        places: dict[Any, int] = {}
        rows = RowPaths(self.forms)

        def place(address: Address) -> int:
            form = form_at(self.forms, address, rows)
            # BigInts compute forms: a form with a float stays as it is drawn
            form = None if form is not None and form.has(required("sympy").Float) else form
            if form is not None and address.key.endswith("_share"):
                # a share is a quotient of two integers, which `ratio` divides as floats
                form = required("sympy").Function("ratio")(*quotient(form))
            return -1 if form is None else places.setdefault(form, len(places))

        record = {
            "values": {name: str(value) for name, value in self.free.values.items()},
            "needs": [_need(needed) for needed in self.needed],
            "figures": {name: place(address) for name, address in self._headline().items()},
            "groups": [
                {"name": name, **{key: place(at) for key, at in addresses.items()}}
                for name, addresses in self._groups().items()
            ],
            "components": [
                {"name": name, "flops": place(Address("flops", "", f"by_component.{name}"))}
                for name in self._ends("flops", "by_component.")
            ],
            "kinds": [
                {"name": name, **{dtype: place(_kind(name, dtype)) for dtype in CACHE_DTYPES}}
                for name in self._kinds()
            ],
            "drawn": [place(address) for address in drawn],
        }
        used = {str(name) for form in places for name in form.free_symbols}
        used |= {name for needed in self.needed for name in needed.names}
        sizes = [_size(size) for size in self.sizes if size.name in used]
        return {**record, "sizes": sizes, "places": list(places)}

    def _headline(self) -> Mapping[str, Address]:
        """The key figures of the page."""
        figures = {
            "params": Address("params", "", "params"),
            "active": Address("params", "", "active_params"),
            "bytes": Address("params", "", "bytes"),
            "flops": Address("flops", "", "matmul_flops"),
            "decode": Address(DECODE, "", "matmul_flops"),
            "elements": Address("kvcache", "", "elements"),
        }
        caches = {f"cache {dtype}": Address("kvcache", "", _of(dtype, "bytes")) for dtype in CACHE_DTYPES}
        return {name: at for name, at in {**figures, **caches}.items() if at in self.forms}

    def _groups(self) -> Mapping[str, Mapping[str, Address]]:
        """Stored parameters, and those read for a token, of each group."""
        return {
            name: {
                "stored": Address("params", "", f"by_group.{name}"),
                "read": Address("params", "", f"active_by_group.{name}"),
            }
            for name in self._ends("params", "by_group.")
            if name
        }

    def _kinds(self) -> Sequence[str]:
        """Other kinds of attention for which the cache is computed."""
        ends = (end.removesuffix(".bytes") for end in self._ends("kvcache", "as_kind."))
        return [*dict.fromkeys(end for end in ends if "." not in end)]

    def _ends(self, command: str, lead: str) -> Sequence[str]:
        """The rest of the keys that begin with `lead` in a command's totals."""
        keys = (at.key for at in self.forms if at.command == command and not at.path)
        return [key.removeprefix(lead) for key in keys if key.startswith(lead)]


def _kind(name: str, dtype: str) -> Address:
    return Address("kvcache", "", _of(dtype, f"as_kind.{name}.bytes"))


def _of(dtype: str, key: str) -> str:
    """The key of a number of bytes in a dtype: that of the JSON in bf16, the usual one."""
    return key if dtype == "bf16" else f"{key}@{dtype}"


def calculator(model: Model, reload: Reload) -> Calculator:
    """The calculator of a model; `reload` loads it again with texts of --set."""
    free = free_model(model)
    return Calculator(free, settable(free, reload), tuple(conditions(free, reload)), closed_forms(free))


def _size(size: FreeSize) -> dict[str, Any]:
    name = size.paths[0].rpartition(".")[2]
    return {
        "name": size.name,
        "value": str(size.value),
        "least": str(size.least),
        "keys": size.keys,
        "about": MEANINGS.get(name, ""),
    }


def _need(needed: SizeCondition) -> dict[str, Any]:
    """A condition in words; of one size that divides another, both names too: n_heads, n_kv_heads."""
    mod = required("sympy").Mod
    sizes = needed.left.args if needed.left.func is mod and needed.sign == "==" else ()
    divides = [str(size) for size in sizes] if all(size.is_Symbol for size in sizes) else []
    return {"text": _in_words(needed), "names": sorted(needed.names), "divides": divides or None}


def _in_words(needed: SizeCondition) -> str:
    """A condition in words."""
    left = str(needed.left).replace("Mod(", "remainder(")
    return f"{left} {MEANT[needed.sign]} {needed.right}"


SIZE = re.compile(r"\bs\.([a-zA-Z]\w*)")
"""A size in printed code; the values of steps begin with _."""


def scripts(known: Calculator, record: Mapping[str, Any]) -> str:
    """The code of the forms of a record and of the conditions, as `stepped` of bigint.js takes it."""
    needs = ",".join(f"s=>{condition(needed)}" for needed in known.needed)
    code = f"...{script(record['places']).code},needs:[{needs}]"
    # short names make the page smaller: forms repeat each name many times
    short = {name: _letters(i) for i, name in enumerate(sorted(set(SIZE.findall(code))))}
    names = ",".join(f"{name}:'{letters}'" for name, letters in short.items())
    return f"{{names:{{{names}}},{SIZE.sub(lambda size: f's.{short[size[1]]}', code)}}}"


def _letters(number: int) -> str:
    """The letters a, b, … z, ba, bb, … of a number."""
    more, last = divmod(number, len(ascii_lowercase))
    return (_letters(more) if more else "") + ascii_lowercase[last]
