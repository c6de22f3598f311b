"""The command line: `main.py` is the table of verbs, one small file for each of them."""
