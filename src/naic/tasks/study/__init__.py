"""`naic reproduce --study`: variants of one training run, or several systems, side by side."""
