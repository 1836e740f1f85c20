"""The page around a drawing that lets one explore it."""
