"""What an engine takes memory for by its own rules: pools of pages, scores, logits, graphs."""
