"""Whole models of the kinds that many families are of: Llama, GPT, BERT, BART, T5 and Granite."""
