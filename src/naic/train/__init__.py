"""Training: one loop, four stages, checkpoints that survive a kill."""
