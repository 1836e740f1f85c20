"""Operations that do not state what their backward keeps, or not rightly yet. To be emptied."""

PENDING: set[str] = {
    "AllReduce",
    "DeltaScan",
    "DiagonalScan",
    "DisentangledBias",
    "Einsum",
    "Fourier",
    "GateKeys",
    "IndexTopK",
    "LinearAttend",
    "MLSTMScan",
    "QueryTemperature",
    "RelativeBias",
    "RelativeKeys",
    "RelativeProfiles",
    "SelectiveScan",
    "WKV",
    "WeightedDifference",
}
