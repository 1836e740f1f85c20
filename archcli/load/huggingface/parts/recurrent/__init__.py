"""Keys of models with recurrent layers: the mixers, and which layer has which."""
