"""The scores that papers report, as the public evaluation counts them."""
