"""`naic show`: where training runs stand, and their curves; nothing in them is changed."""
