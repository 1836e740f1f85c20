"""Calibration: constants of this machine, fitted to profiles of it."""
