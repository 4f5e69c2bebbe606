"""Short names for the arrays that columns are made of."""

import numpy as np
from numpy.typing import NDArray

Truths = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Rows = NDArray[np.intp]
"""Numbers of rows, to take values out of columns with."""
