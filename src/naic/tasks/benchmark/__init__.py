"""`naic benchmark`: how fast captioners are, in the same runtime and precision."""
