"""Six variations of each family's config.json are exact or refused by name; `mutate.py` makes sixty."""

import pytest

from mappings.mutate import is_of_images, known_classes, verdicts
from mappings.on_purpose import ON_PURPOSE

CLASSES = known_classes()
N = 6


@pytest.mark.sample(0)
@pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend
@pytest.mark.parametrize("name", CLASSES)
def test_a_variation_is_exact_or_refused(name):
    found = [
        (changed, answer)
        for changed, answer in verdicts(
            CLASSES[name]["config"], f"ci {name}", N, of_images=is_of_images(name)
        )
        if answer.verdict not in ("exact", "refused")
        and not ON_PURPOSE.get(name, {}).keys() & {key for _, key in changed}
    ]
    assert found == []
