"""The process from which Spark forks its Python workers, with the engine already loaded.

Answer   Loading NumPy, Arrow and the compiled kernels takes a worker seconds; done once before forking, every worker
         starts with them. Spark finds it by `spark.python.daemon.module`.
Limits   Nothing here may start a thread or write to standard output: forks would inherit half of it, and Spark reads
         the output.
"""

from __future__ import annotations

import gc
import os
import warnings

from pyspark.daemon import manager

warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")

from eddyline.runtime.figures.memory import keep_freed_memory  # noqa: E402

if __name__ == "__main__":
    # Workers do one thing at a time; pools of threads in each would only fight for the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # The workers are this engine's own processes.
    keep_freed_memory()
    # What is loaded now stays: the collector of a fork need not write into pages that all share.
    gc.freeze()
    manager()
