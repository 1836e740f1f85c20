"""What questions share: their records, options, plans, the model and the device that they are about."""
