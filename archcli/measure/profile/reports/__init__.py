"""Reports: what is shown of a recording; one file per form."""
