"""Words: the tokeniser of the public evaluation, and the vocabulary made from its tokens."""

from naic.text.tokeniser import tokenise
from naic.text.vocabulary import BOS, MAX_IDS, PAD, PERIOD, UNK, Vocabulary

__all__ = ["BOS", "MAX_IDS", "PAD", "PERIOD", "UNK", "Vocabulary", "tokenise"]
