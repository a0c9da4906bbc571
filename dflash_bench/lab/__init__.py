"""The small models that we train and ship, so that everything runs offline."""
