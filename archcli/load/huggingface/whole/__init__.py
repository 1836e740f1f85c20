"""Whole models that several files of `families/` share: Llama, GPT, BERT, BART, DeepSeek, Mamba."""
