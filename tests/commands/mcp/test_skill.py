"""What tells an assistant to ask: the skill file, the server's instructions, and llms.txt."""

import json
import re

import yaml

from archcli.wings.doors.commands.mcp.server import INSTRUCTIONS
from archcli.wings.doors.commands.mcp.tools import TOOLS
from assistant import ROOT, answer
from docs_site import ASK_IT, llms, sections

SKILL = (ROOT / "docs" / "skill" / "archcli" / "SKILL.md").read_text()


def test_the_skill_has_a_name_and_a_description_in_its_head():
    _, head, body = SKILL.split("---\n", 2)
    stated = yaml.safe_load(head)
    assert stated["name"] == "archcli"
    assert 100 < len(stated["description"]) <= 1024
    assert body.strip().startswith("# archcli")


def test_each_tells_of_every_tool():
    for text in (SKILL, INSTRUCTIONS, ASK_IT):
        assert [name for name in TOOLS if not re.search(rf"\b{name}\b", text)] == []
        assert "from memory" in text
        assert "multiply-add" in text


def test_llms_txt_tells_it_before_the_pages():
    docs = ROOT / "docs"
    text = llms(docs, sections((ROOT / "mkdocs.yml").read_text()), "")
    assert text.split("\n\n")[2] == ASK_IT
    assert "(skill/archcli/SKILL.md)" in text
    assert "(assistants.md)" in text


def test_the_worked_questions_of_the_skill_are_answered_so():
    asked = re.findall(r"`(\w+)` with `(\{.*?\})`: (.*?)\n\n", SKILL + "\n\n", re.DOTALL)
    assert [name for name, _, _ in asked] == ["kvcache", "memory", "params"]
    cache, memory, params = (answer(name, **json.loads(given)) for name, given, _ in asked)
    assert f"{cache['totals']['bytes']:,}" in asked[0][2]
    assert cache["totals"]["bytes"] == 80 * 2 * 8 * 128 * 2 * 128_000
    assert memory["totals"]["fits"] is False
    assert f"{memory['totals']['peak_bytes']:,}" in asked[1][2]
    assert memory["totals"]["change"]["change"] == "--optimizer adamw-fused"
    assert "`optimizer=adamw-fused` would fit" in asked[1][2]
    assert answer("memory", **json.loads(asked[1][1]), optimizer="adamw-fused")["totals"]["fits"] is True
    assert f"{params['totals']['params']:,}" in asked[2][2]
    assert params["totals"]["params"] == 124_439_808 + 12 * (12 * 768**2 + 13 * 768)
