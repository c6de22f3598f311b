"""Tables for more images than have references, or for fewer of these."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from naic.learn.cider.references import References


def judged_only(references: References, judged: npt.NDArray[np.bool_]) -> References:
    """The tables of `len(judged)` images, these or more; those not `judged` lose references.

    Document frequencies stay as they are: what is still scored, is scored as before.
    """
    images, width = references.lengths.shape
    own = judged[:images]  # (I,)
    grams = np.diff(references.starts)  # (I,)
    sizes, amounts = np.zeros((2, len(judged)), np.int64)
    lengths = np.zeros((len(judged), width), np.int64)
    inverse = np.zeros((len(judged), *references.inverse_norms.shape[1:]))
    sizes[:images] = grams * own
    amounts[:images] = references.amounts * own
    lengths[:images] = references.lengths * own[:, None]
    inverse[:images] = references.inverse_norms * own[:, None, None]
    kept = np.repeat(own, grams)  # (G,)
    return replace(
        references,
        starts=np.concatenate([[0], np.cumsum(sizes)]),
        keys=references.keys[kept],
        documents=references.documents[kept],
        counts=references.counts[kept],
        inverse_norms=inverse,
        lengths=lengths,
        amounts=amounts,
    )
