"""The report of `archcli predict`: times, rates and what limits them, costs, curves and the best plan."""
