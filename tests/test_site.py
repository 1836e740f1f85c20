"""The site of docs/: it builds without a warning, and nothing of it is loaded from elsewhere.

Skipped where the `docs` extra is not installed; .ci/run installs it.
"""

import gzip
import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from time import sleep

import pytest
import yaml

import archcli
import gallery
from archcli.load.presets import presets
from archcli.rules import all_rules
from browsing import LEAST_CONTRAST, channels, luminance
from docs_site import ASK_IT
from model_pages import company_of, forebear
from pages import DOCS, ROOT
from site_links import broken, page, target
from site_search import found_pages, open_search, until
from site_words import WORDS
from table import every_row, sampled_rows
from trying import BROWSER, DRIVER, chromium
from trying import site as site_at

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(find_spec("zensical") is None, reason="the docs extra is not installed"),
]
LOADED = re.compile(r"""<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)=["']?([^"' >]+)""")
STYLED = re.compile(r"""(?:@import\s*|url\()["']?([^"')]+)""")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(what the build printed, the folder of the site)."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(DOCS, folder / "docs")
    command = [sys.executable, str(ROOT / "release" / "docs_site.py"), str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    return done, folder / "site"


def test_it_builds_without_a_warning(built):
    done, site = built
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    pages |= {f"rules/{code.lower()}" for code in all_rules()}
    pages |= {"gallery/compare", *(f"gallery/{name}" for name in presets())}
    shown = {page.parent.relative_to(site).as_posix() for page in site.rglob("index.html")}
    tried = {"try"} if shutil.which("npm") else set()
    named = {page.removesuffix("index").rstrip("/") or "." for page in pages} | tried
    assert {page for page in shown if not page.startswith("keys/")} == named


def html(site):
    """Every page of the site but Try it, which has no links."""
    return [page for page in sorted(site.rglob("*.html")) if page.parent.name != "try" and page.stem != "404"]


def test_no_link_is_broken(built):
    _, site = built
    assert sum(len(page(at).links) for at in html(site)) > 20_000
    assert list(broken(site.resolve(), [at.resolve() for at in html(site)])) == []


@every_row("name", ["rules", "keys"])
def test_old_anchors_of_a_page_in_parts_lead_to_the_part(built, name):
    _, site = built
    index = (site / name / "index.html").resolve()
    fenced = re.sub(r"^```.*?^```$", "", (DOCS / f"{name}.md").read_text(), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{2,3} (.+)$", fenced, flags=re.MULTILINE)
    assert len(headings) > 50
    text = index.read_text()
    for heading in headings:
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        tag = re.search(rf'<a [^>]*\bid="{re.escape(anchor)}"[^>]*>', text)
        assert tag, heading
        file, within = target(re.search(r'href="([^"]+)"', tag[0])[1], index, site)
        plain = re.sub(r"<[^>]+>", "", file.read_text())
        assert heading.partition(": ")[2] in plain.replace("&lt;", "<").replace("&#39;", "'"), heading
        assert not within or within in page(file).anchors


def test_a_part_is_no_page_of_hundreds_of_screens(built):
    """An index says what kinds there are; a kind's keys are on its own page."""
    _, site = built
    keys = list((site / "keys").rglob("index.html"))
    assert len(keys) > 100
    assert max(len(page(at).codes) for at in keys) < 200


def test_options_show_no_backslash(built):
    _, site = built
    codes = [code for at in html(site) for code in page(at).codes]
    assert "--format <table|json|csv|md|plain|svg>" in codes
    assert [code for code in codes if "\\|" in code] == []


def test_the_start_page_answers_installs_and_leads_to_try_it(built):
    _, site = built
    home = (site / "index.html").read_text()
    first = home[: home.index('<img alt="archcli draw')]
    plain = re.sub(r"<[^>]+>", "", first)
    assert "fits 2 x rtx-3090 as" in plain
    assert "pip install" in plain
    assert re.search(r'<a href="try/(index.html)?">Try it', first)
    loaded = {site / link for link in LOADED.findall(home) if not link.endswith(".svg")}
    files = {site / "index.html", site / "search.json", *(file for file in loaded if file.is_file())}
    assert any(file.suffix == ".js" for file in files)
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) <= 300_000
    drawn = re.findall(r'<img alt="[^"]*" src="([^"]+)"', home)
    assert len(drawn) == 3


@sampled_rows("name", presets(), 12)
def test_a_preset_has_a_page_with_its_drawing_figures_and_source(built, name):
    _, site = built
    text = (site / "gallery" / name / "index.html").read_text()
    plain = re.sub(r"<[^>]+>", "", text)
    stated = yaml.safe_load((ROOT / "presets" / f"{name}.yaml").read_text())
    assert f"{archcli.count_params(name).totals['params']:,}" in plain
    assert str(stated["released"]) in plain
    assert f"by {company_of({'name': name})}, released" in plain
    assert str(stated["source"]) in plain.replace("&amp;", "&")
    assert f"{name}.svg" in {Path(link).name for link in page(site / "gallery" / name / "index.html").links}
    assert (site / "gallery" / f"{name}.svg").read_text().startswith("<svg")
    assert f"try/index.html#model={name}&amp;tab=fit" in text or f"try/#model={name}&amp;tab=fit" in text
    for row in archcli.check(name).rows:
        assert f"/rules/{row['code'].lower()}/" in text


@every_row("name", ["llama-3.1-8b", "qwen3-8b", "deepseek-v3", "gemma-3-27b"])
def test_a_forebear_is_an_earlier_model_of_the_series(name):
    records = gallery.records()
    record = next(one for one in records if one["name"] == name)
    earlier = forebear(record, records)
    assert earlier["series"] == record["series"]
    assert str(earlier["released"]) < str(record["released"])


def test_companies_are_those_that_stand_on_the_models_papers():
    stated = {"gpt-neo-1.3b": "EleutherAI", "gpt2": "OpenAI", "mistral-nemo-12b": "Mistral AI"}
    stated |= {"t5gemma-2b-2b": "Google", "deepseek-r1-distill-qwen-7b": "DeepSeek", "qwq-32b": "Alibaba"}
    assert {name: company_of({"name": name}) for name in stated} == stated
    assert all(company_of({"name": name}) for name in presets())


def test_a_series_of_one_model_has_no_forebear():
    records = gallery.records()
    alone = [one for one in records if sum(other["series"] == one["series"] for other in records) == 1]
    assert alone
    assert [one["name"] for one in alone if forebear(one, records)] == []


def test_nothing_is_loaded_from_elsewhere(built):
    _, site = built
    loaded = [url for page in site.rglob("*.html") for url in LOADED.findall(page.read_text())]
    styled = [url for style in site.rglob("*.css") for url in STYLED.findall(style.read_text())]
    assert loaded
    assert [url for url in [*loaded, *styled] if re.match(r"(https?:)?//", url)] == []


def test_sentences_of_outputs_wrap_and_tables_do_not(built):
    _, site = built
    page = (site / "commands" / "predict" / "index.html").read_text()
    assert re.search(r'<script src="[./]*wrap\.js', page)
    assert '<span class="go">' in page  # what wrap.js looks for: a line of an output
    styles = dict(
        re.findall(
            r"^\.highlight (\.go\S*) \{ white-space: ([\w-]+)", (site / "style.css").read_text(), re.MULTILINE
        )
    )
    assert styles == {".go": "pre", ".go.sentence": "pre-wrap"}


def test_it_can_be_searched_and_read_in_the_dark(built):
    _, site = built
    assert "kvcache" in (site / "search.json").read_text()
    assert 'data-md-color-scheme="slate"' in (site / "index.html").read_text()


def test_programs_find_every_page(built):
    """llms.txt as llmstxt.org has it: a heading, a quotation, sections of links; each leads to a file."""
    _, site = built
    heading, quotation, asking, *parts = (site / "llms.txt").read_text().strip().split("\n\n")
    assert (heading, quotation[:2], asking) == ("# archcli", "> ", ASK_IT)
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)(?:: .+)?$", "\n".join(parts), flags=re.MULTILINE)
    lines = [line for line in "\n".join(parts).splitlines() if line and not line.startswith("## ")]
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert (len(lines), {*links}) == (len(links), pages)
    assert all((site / link).read_text() == (DOCS / link).read_text() for link in links)
    whole = (site / "llms-full.txt").read_text()
    assert all((DOCS / page).read_text().split("\n", 1)[0] in whole.splitlines() for page in pages)
    assert json.loads((site / "schema.json").read_text())["title"] == "archcli architecture"


# --- as a browser shows it


@pytest.fixture(scope="module")
def seen(built, tmp_path_factory):
    """(a browser, the address of the site)."""
    if not (BROWSER and DRIVER):
        pytest.skip("no chromium (apt: chromium chromium-driver)")
    with site_at(built[1]) as served, chromium(tmp_path_factory.mktemp("data"), served.proxy) as browser:
        yield browser, served.address.removesuffix("try/")


def screen(browser, width):
    """Make the screen so wide."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def test_words_of_users_find_the_right_page_among_the_first_three(seen):
    browser, address = seen
    screen(browser, 1400)
    open_search(browser, address)
    assert len(WORDS) >= 30
    first = {words: found_pages(browser, words)[:3] for words in WORDS}
    assert {words: pages for words, pages in first.items() if not {*pages} & WORDS[words]} == {}


def test_no_page_overflows_on_a_phone(seen):
    browser, address = seen
    screen(browser, 400)
    pages = [path.relative_to(DOCS).with_suffix("").as_posix() for path in sorted(DOCS.rglob("*.md"))]
    pages += [f"gallery/{name}" for name in presets()[::30]]
    pages += ["gallery/compare", "rules/att001", "keys/attention/gqa"]
    wide = {}
    for path in pages:
        folder = re.sub("(^|/)index$", "", path)
        browser.get(f"{address}{folder}/" if folder else address)
        wide[path] = browser.execute_script("return document.documentElement.scrollWidth")
    assert {path: width for path, width in wide.items() if width > 400} == {}


def test_code_of_100_columns_needs_no_sideways_scroll(seen):
    browser, address = seen
    screen(browser, 1400)
    browser.get(f"{address}commands/fit/")
    widths = """const code = document.querySelector("pre > code");
      const line = Object.assign(document.createElement("span"), {textContent: "x".repeat(arguments[0])});
      line.style.whiteSpace = "pre";
      code.replaceChildren(line);
      return [code.scrollWidth, code.clientWidth];"""
    needed, there = browser.execute_script(widths, 100)
    assert needed <= there
    needed, there = browser.execute_script(widths, 200)
    assert needed > there, "the measure sees a line that is too long"


@every_row("scheme", ["default", "slate"])
def test_the_active_entry_of_the_navigation_has_contrast(seen, scheme):
    browser, address = seen
    screen(browser, 1400)
    browser.get(f"{address}commands/fit/")
    browser.execute_script("document.body.dataset.mdColorScheme = arguments[0]", scheme)
    sleep(0.5)  # colours fade
    ink, tint, paper = browser.execute_script(
        """const style = (e) => getComputedStyle(e);
        const entry = document.querySelector(".md-nav--primary a.md-nav__link--active");
        return [style(entry).color, style(entry).backgroundColor, style(document.body).backgroundColor];"""
    )
    share = float(tint.rstrip(")").split(",")[3]) if tint.count(",") == 3 else 1.0
    mixed = [
        round(share * over + (1 - share) * under)
        for over, under in zip(channels(tint), channels(paper), strict=True)
    ]
    ground = f"rgb({', '.join(map(str, mixed))})"
    light, dark = sorted((luminance(ink), luminance(ground)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= LEAST_CONTRAST


def test_copying_an_example_copies_the_command_alone(seen):
    browser, address = seen
    browser.get(f"{address}commands/fit/")
    copied = until(
        lambda: browser.execute_script(
            """const button = document.querySelector("[data-clipboard-target]"); button?.click();
            return button?.dataset.clipboardText;"""
        ),
        10,
    )
    assert copied == "archcli fit llama-3.1-70b 2xrtx-3090"


def test_the_gallery_is_filtered_and_two_are_compared(seen):
    browser, address = seen
    screen(browser, 1400)
    browser.get(f"{address}gallery/")
    records = gallery.records()
    choose = """const select = [...document.querySelectorAll("#filters select")][arguments[0]];
      select.value = arguments[1]; select.dispatchEvent(new Event("change"));
      return [...document.querySelectorAll(".models > li:not([hidden])")].map((card) => card.dataset.name);"""
    assert len(browser.execute_script(choose, 0, "any kind")) == len(records)
    shown = browser.execute_script(choose, 0, "Latent attention")
    latent = {record["name"] for record in records if gallery.section_of(record) == "Latent attention"}
    assert {*shown} == latent
    newest = browser.execute_script(choose, 4, "newest first")
    days = {record["name"]: str(record["released"]) for record in records}
    assert [days[name] for name in newest] == sorted((days[name] for name in latent), reverse=True)
    link = browser.execute_script(
        """for (const card of [...document.querySelectorAll(".models > li:not([hidden])")].slice(0, 2))
        card.querySelector("input").click();
        return document.querySelector("#filters .both").href;"""
    )
    assert link == f"{address}gallery/compare/#{newest[0]},{newest[1]}"
    browser.get(link)
    drawn = until(
        lambda: browser.execute_script(
            """const images = [...document.querySelectorAll("#two img")];
            return images.every((image) => image.naturalWidth) && images.map((image) => image.src);"""
        ),
        10,
    )
    assert drawn == [f"{address}gallery/{name}.svg" for name in newest[:2]]
