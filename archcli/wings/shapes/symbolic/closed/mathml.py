"""MathML: the components of `archcli explain` as formulas of a page."""

from __future__ import annotations

from typing import Any

from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.wings.shapes.symbolic.explain.answer import answered
from archcli.wings.shapes.symbolic.explain.question import Question


def formulas(model: Model, batch_size: int, seq_len: int, context: int) -> list[dict[str, Any]]:
    """The components of each quantity: their names and closed forms."""
    questions = [
        ("Parameters", Question("params")),
        ("FLOPs of matrix products, forward", Question("flops", Request("forward", batch_size, seq_len))),
    ]
    if model.caches:
        request = Request("prefill", batch_size, context)
        questions.insert(1, ("Cached elements", Question("kvcache", request)))
    return [{"title": title, "components": _components(model, question)} for title, question in questions]


def _components(model: Model, question: Question) -> list[dict[str, Any]]:
    parts = answered(model, question).components
    printer = _printer()
    return [
        {
            "name": part.name,
            "mathml": f'<math display="inline">{printer.doprint(part.formula)}</math>',
            "length": len(str(part.formula)),
        }
        for part in parts
    ]


def _printer() -> Any:
    """sympy's printer of presentation MathML, with names of several letters as one identifier."""
    from sympy.printing.mathml import MathMLPresentationPrinter

    class NamePrinter(MathMLPresentationPrinter):  # type: ignore[misc]
        """d_model is a d with an index, kv_lora_rank one word."""

        def _print_Symbol(self, sym: Any, style: str = "plain") -> Any:  # noqa: N802
            first, _, rest = sym.name.partition("_")
            if len(first) > 1 or not rest:
                return self._word(sym.name)
            index = self.dom.createElement("msub")
            index.appendChild(self._word(first))
            index.appendChild(self._word(rest))
            return index

        def _word(self, text: str) -> Any:
            word = self.dom.createElement("mi")
            word.appendChild(self.dom.createTextNode(text))
            return word

    # names of several letters side by side would read as one
    return NamePrinter({"mul_symbol": "dot"})
