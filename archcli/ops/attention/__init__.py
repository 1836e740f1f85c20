"""Operations of attention: scores, masks, positions, and attention by a kernel."""
