"""One guarded way to open any file or bytes as an upright RGB image.

`formats` tells from the bytes of a file what they are, `containers` takes the metadata that can do
harm out of it, `converting` makes RGB of every pixel layout, and `opening` puts the three together.
`sources` are the places that an image can come from.
"""

from naic.images.converting import square_pixels
from naic.images.formats import IMAGE_SUFFIXES, UNSUPPORTED_SUFFIXES
from naic.images.opening import MAX_BYTES, MAX_PIXELS, ImageInput, open_image

__all__ = [
    "IMAGE_SUFFIXES",
    "MAX_BYTES",
    "MAX_PIXELS",
    "UNSUPPORTED_SUFFIXES",
    "ImageInput",
    "open_image",
    "square_pixels",
]
