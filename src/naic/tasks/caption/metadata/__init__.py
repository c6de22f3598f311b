"""Captions in the fields that other programs read: in an XMP file beside a photo, or inside it."""
