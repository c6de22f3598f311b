"""Many shards of images, on many machines: captions, features, or a teacher's captions of each."""
