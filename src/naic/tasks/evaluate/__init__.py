"""`naic evaluate`: the paper's metrics of a results file, with intervals."""
