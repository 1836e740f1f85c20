"""CONTRIBUTING shows a real family: its example is the code as it stands."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHOWN = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL | re.MULTILINE
)


def test_the_family_shown_is_the_family_shipped():
    importer, record = SHOWN
    assert importer == (ROOT / "archcli" / "load" / "huggingface" / "families" / "starcoder2.py").read_text()
    assert record in (ROOT / "tests" / "parity" / "families" / "gpt.py").read_text()
    assert record.lstrip().startswith('"starcoder2": Family(')
