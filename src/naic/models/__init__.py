"""The captioner: a Transformer that writes word by word, or says all words at once."""
