"""From scores to words: at once, word by word, by chance, or by beam search."""
