"""CIDEr-D as a reward: references and df, on the host (numba) or on a device (torch)."""
