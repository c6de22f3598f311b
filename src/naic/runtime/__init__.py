"""Runtime: a trained model put to use, from pictures to captions."""
