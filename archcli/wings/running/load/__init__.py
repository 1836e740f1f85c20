"""Files of running: saved profiles, and the rates measured on this machine."""
