"""Arrays in, arrays out. Numba lives here and nowhere else; no kernel knows what a schema is."""

from eddyline.kernels.caches import prepare

prepare()
