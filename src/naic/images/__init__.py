"""One guarded way to open any file or bytes as an upright RGB image.

The rooms: `reading` gets bytes out of a path or a file object, `formats` tells from the bytes what
they are, `containers` takes the metadata that can do harm out of the file, `converting` makes RGB
of every pixel layout, and `opening` puts the four together.
"""

from naic.images.converting import square_pixels
from naic.images.formats import IMAGE_SUFFIXES, UNSUPPORTED_SUFFIXES
from naic.images.opening import MAX_PIXELS, open_image
from naic.images.reading import MAX_BYTES, ImageInput

__all__ = [
    "IMAGE_SUFFIXES",
    "MAX_BYTES",
    "MAX_PIXELS",
    "UNSUPPORTED_SUFFIXES",
    "ImageInput",
    "open_image",
    "square_pixels",
]
