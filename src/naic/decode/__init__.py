"""From scores to words: at once, greedily, by chance, or by beam search."""
