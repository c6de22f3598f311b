"""`naic reproduce --study`: variants of one training run, from one start, side by side."""
