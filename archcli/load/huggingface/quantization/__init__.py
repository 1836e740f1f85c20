"""A config.json's quantization_config as archcli's `quantization`: bytes as the files hold them."""
