"""What a model learns from: rewards."""
