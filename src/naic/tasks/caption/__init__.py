"""`naic caption`: captions for images, folders and lists of them."""
