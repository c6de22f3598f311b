"""`naic reproduce`: the paper's ladder and tables on any data, from one call."""
