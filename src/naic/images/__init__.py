"""One guarded way to open any file or bytes as an upright RGB image.

`formats` tells from the bytes of a file what they are, `containers` takes the metadata that can do
harm out of it, `converting` makes RGB of every pixel layout, and `opening` puts the three together.
`sources` are the places that an image can come from.
"""
