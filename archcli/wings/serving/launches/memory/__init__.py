"""Memory of operations, read off their `run`: kept tensors, storages of outputs, live bytes.

What a backward keeps, views, number types and strides are read off every operation: no class states them.
The bytes alive while an operation runs are read off those that say `follows_run`, and attention. Others
state them by hand in `space` or `workspace`, or state nothing and count as 0:

- Scans (DeltaScan, StateScan, SelectiveScan, MLSTMScan, WKV, LinearAttend, DiagonalScan, GatedDecay): by
  hand one chunk's tensors, and not what the backward keeps, which the ledger of a pass counts afterwards.
- Training of operations in fp32 steps (Normalize, L2Normalize, LogDecay, StepSize, Route, ActivateXIELU): by
  hand without what is kept until the backward.
- Small ones that state nothing: broadcasts, losses, tables of positions, experts that compute nothing.

Read off their runs these bytes are more, and so would be peaks of presets that have such operations: to read
them is a change of answers of its own.
What a backward takes while it runs (`Workspace.backward`) is stated of attention, norms on a CPU and scans:
it depends on the order in which torch releases what it kept, which no kernel's reads tell.
`tests/measure/memory/test_alive_read.py` has the kinds that differ, and holds all others to their runs.
"""
