"""Files of other programs: params.json, adapters, Modelfiles, and what is told apart and refused."""
