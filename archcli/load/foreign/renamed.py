"""The keys of a config.json, made of another file's, each with the place of the key it comes from."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigJson, ConfigValue, KeyPlaces, bare
from archcli.load.yaml.nodes import Place


class Renamed(dict[str, Any]):
    """The keys of a config.json; `longest` is max_seq_len, None where the other file does not state it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.start = config.places.start
        self.source = config.places.source
        self.longest: ConfigValue[int] | None = None

    def put(self, model_type: str, **keys: Any) -> None:
        """Set the family, and keys of it."""
        self.update(keys, model_type=model_type)

    def as_json(self) -> ConfigJson:
        """The config.json of a causal language model, with the places of the other file's keys."""
        places: dict[str, Place] = {
            key: value.place
            for key, value in self.items()
            if isinstance(value, ConfigValue) and value.place != self.start
        }
        data = {key: bare(value) for key, value in self.items()}
        return ConfigJson({"architectures": ["ForCausalLM"], **data}, KeyPlaces(self.source, places))
