"""Cases and references of the operations of all recurrent layers and of linear attention."""

from ops import delta_cases, diagonal_cases, linear_cases, mlstm_cases, pair_cases, recurrent_cases

FILES = (linear_cases, delta_cases, recurrent_cases, diagonal_cases, mlstm_cases, pair_cases)
CASES = {name: case for file in FILES for name, case in file.CASES.items()}
REFERENCES = {name: reference for file in FILES for name, reference in file.REFERENCES.items()}
UNTRAINED = {name: inputs for file in FILES for name, inputs in file.UNTRAINED.items()}
SHAPED = diagonal_cases.SHAPED
