"""Wrappers: a config.json that holds the config of a language model beside towers for images or sound.

It is counted as the causal language model of its class: the text part and the head, without the towers.
"""
