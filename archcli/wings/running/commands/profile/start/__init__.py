"""A folder for PYTHONPATH: what Python imports before a program that `archcli profile --` starts."""
