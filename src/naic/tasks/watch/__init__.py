"""`naic watch`: captions for photos as they arrive in a folder."""
