"""Whole models of kinds that several files of `families/` have: Llama, GPT, BERT, BART, Mamba, delta nets."""
