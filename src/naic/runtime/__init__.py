"""Runtime: a trained model put to use, from images to captions."""
