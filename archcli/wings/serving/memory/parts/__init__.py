"""Parts of a model that run apart from the layers on a device: those in RAM, and towers."""
