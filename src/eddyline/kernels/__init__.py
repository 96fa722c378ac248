"""Arrays in, arrays out. Numba lives here and nowhere else; no kernel knows what a schema is."""

from eddyline.kernels.caches import prepare
from eddyline.kernels.compiling import listen

prepare()
listen()
