"""A report in Python: printed, drawn in a notebook, as a DataFrame, copied."""

import copy
import pickle
import re
import subprocess
import sys
from base64 import b64decode
from html.parser import HTMLParser
from threading import Thread

import pytest

import archcli
from archcli.measure.report import Column, Table
from archcli.render.grid import grid

KINDS = {
    "params": lambda: archcli.count_params("gpt2"),
    "flops": lambda: archcli.count_flops("mixtral-8x7b", phase="train", seq_len=64),
    "kvcache": lambda: archcli.count_kv_cache("gemma-2-9b", 9000, memory="80GiB"),
    "compare": lambda: archcli.compare("gpt2", "gpt2", seq_len=64),
    "survey": lambda: archcli.survey("gpt2", "gemma-2b"),
    "survey by year": lambda: archcli.survey("gpt2", "gemma-2b", by="year"),
}
HOSTILE = "<script>alert(1)</script>&\"'\x1b[31m"


@pytest.fixture(params=KINDS)
def report(request):
    return KINDS[request.param]()


class Cells(HTMLParser):
    """The text of every cell; unclosed or unknown tags are errors."""

    def __init__(self):
        super().__init__()
        self.open, self.cells, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        assert all(name == "style" for name, _ in attrs)
        self.cells += [""] if tag in {"td", "th"} else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in {"td", "th"}:
            self.cells[-1] += data


def read(html):
    cells = Cells()
    cells.feed(html)
    assert cells.open == []
    return cells


def cells_of(table):
    drawn = grid(table)
    lines = [
        *([drawn.heads] if any(drawn.heads) else []),
        *drawn.rows,
        *([drawn.footer] if drawn.footer else []),
    ]
    return [cell for line in lines for cell in line]


@pytest.mark.sample(1, whole=True)
def test_a_notebook_shows_every_figure_in_its_own_colours(report):
    html = report._repr_html_()
    assert read(html).cells == [cell for table in report.tables for cell in cells_of(table)]
    assert "color" not in html
    assert "background" not in html


def test_nothing_of_a_model_is_markup():
    table = Table(HOSTILE, (Column("a", HOSTILE),), [{"a": HOSTILE}], {"a": HOSTILE})
    named = {"name": HOSTILE, "source": ""}
    report = archcli.Report("x", named, {"set": [HOSTILE]}, HOSTILE, {}, [], (table,), (HOSTILE,))
    shown = read(report._repr_html_())
    assert "script" not in shown.tags
    assert set(shown.cells) == {"<script>alert(1)</script>&\"'\\x1b[31m"}
    assert "\x1b" not in str(report)


@pytest.mark.sample(1, whole=True)
def test_a_report_is_copied_and_pickled_whole(report):
    assert pickle.loads(pickle.dumps(report)) == copy.deepcopy(report) == report  # noqa: S301


def test_a_format_that_there_is_not_is_refused():
    report = archcli.count_params("gpt2")
    assert f"{report:table}".startswith("gpt2: 124M parameters")
    assert f"{report:csv}".startswith("path,params")
    for form in ("xml", "sarif", "10"):
        with pytest.raises(
            archcli.ArchError, match=f"a report has no format '{form}'; it has plain, table, md"
        ):
            format(report, form)


@pytest.mark.long
def test_printing_imports_no_rich():
    program = (
        "import sys, archcli; print(archcli.count_params('gpt2'));"
        "print({'rich', 'torch', 'numpy', 'sympy', 'pandas', 'typer'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.long
def test_threads_count_the_same():
    answers, names = {}, ["gpt2", "deepseek-v3", "t5-base", "mixtral-8x7b"]

    def count(i):
        answers[i] = archcli.count_flops(names[i % 4], seq_len=32).totals

    threads = [Thread(target=count, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[i] for i in range(12)] == [
        archcli.count_flops(names[i % 4], seq_len=32).totals for i in range(12)
    ]


def test_pandas_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(archcli.ArchError, match=r"to_pandas needs pandas.*pip install pandas$"):
        archcli.count_params("gpt2").to_pandas()


@pytest.mark.sample(1, whole=True)
def test_a_frame_holds_every_value_as_it_is(report):
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = report.to_pandas()
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    assert records == [{key: row.get(key) for key in frame.columns} for row in report.rows]


def test_whole_numbers_in_a_frame_are_never_rounded():
    pytest.importorskip("pandas", reason="pandas is not installed")
    rows = [{"missing": 2**53 + 1, "large": 1, "mixed": 2**60 + 1}, {"large": 10**30, "mixed": 0.5}]
    frame = archcli.Report("x", {}, {}, "", {}, rows).to_pandas()
    assert (frame.missing[0], frame.large[1], frame.mixed[0]) == (2**53 + 1, 10**30, 2**60 + 1)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "deepseek-v3", "mamba-130m", "whisper-large-v3"])
def test_a_model_is_five_lines_of_its_own_figures(name):
    model = archcli.load(name)
    shown = re.sub(r"<[^>]+>", "", model._repr_html_())
    assert len(shown.strip().splitlines()) <= 5
    assert f"{archcli.params(model).totals['params']:,} parameters" in shown
    assert f"d_model {model.d_model:,}" in shown
    per_token = archcli.kvcache(model).totals["bytes_per_token"]
    assert (f"{per_token:,} bytes of cache a token" in shown) == bool(per_token)


def test_a_model_of_a_hostile_name_is_no_markup():
    shown = archcli.load("gpt2").replace(name=HOSTILE)._repr_html_()
    assert "<script>" not in shown
    assert "\x1b" not in shown


def test_nothing_found_is_said():
    html = archcli.check("llama-3.1-8b")._repr_html_()
    assert "<p>nothing found</p>" in html
    assert "<thead>" not in html


def test_formulas_are_typeset_where_they_are_asked_for_in_latex():
    plain, typeset = archcli.explain("gpt2"), archcli.explain("gpt2", latex=True)
    assert plain._repr_latex_() is None
    assert plain._repr_html_()
    assert typeset._repr_html_() is None  # of both a notebook would draw the tables
    text = typeset._repr_latex_()
    assert "%" not in text
    assert text.strip().startswith(r"\begin{align*}")
    assert text.strip().endswith(r"\end{align*}")
    assert archcli.params("gpt2")._repr_latex_() is None


def test_every_table_is_a_frame(report):
    pytest.importorskip("pandas")
    for place, table in enumerate(report.tables):
        assert len(report.to_pandas(place)) == len(table.records)
    with pytest.raises(archcli.ArchError, match="no table"):
        report.to_pandas(99)


def test_a_drawing_is_an_image_that_fits():
    drawing = archcli.draw("gpt2")
    html = drawing._repr_html_()
    address = re.search(r'src="data:image/svg\+xml;base64,([^"]*)" alt="Drawing of gpt2">', html)
    assert b64decode(address[1]).decode() == drawing.svg()
    assert "max-width: 100%" in html
