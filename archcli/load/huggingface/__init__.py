"""config.json of Hugging Face as YAML would say it; and what many families share.

`from archcli.load import huggingface as hf`, then `hf.rmsnorm(config)`: the config, pieces of the mapping
from its keys to our fields, names of weights. A name is imported at its first use: listing.json says which
file has it, and __init__.pyi says so to type checkers and editors.
"""

from archcli.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
