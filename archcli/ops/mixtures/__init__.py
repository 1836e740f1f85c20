"""Operations of mixtures of experts: routing, dispatch, and what comes back."""
