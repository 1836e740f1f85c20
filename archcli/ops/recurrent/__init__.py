"""Operations of recurrent layers, whose state has one size whatever the number of tokens."""
