"""The process from which Spark forks its Python workers, with the engine already loaded.

Answer   Loading NumPy, Arrow and the engine takes a process most of a second; done once before forking, every worker
         starts with them, also the one that replaces a worker which was killed. Spark finds it by
         `spark.python.daemon.module`.
Limits   Nothing here may start a thread of ours or write to standard output: forks would inherit half of it, and Spark
         reads the output. The one thread that Arrow's allocator starts is made anew in a fork.
"""

from __future__ import annotations

import gc
import os
import warnings

from pyspark.daemon import manager

warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")

if __name__ == "__main__":
    # Workers do one thing at a time; pools of threads in each would only fight for the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from eddyline.runtime.figures.memory import keep_freed_memory

    # The workers are this engine's own processes.
    keep_freed_memory()
    from eddyline.runtime.sharded.workers.serving import SUBREAPER, tell_system

    # Processes with engines outlive the workers that fork them: they stay below this one, where their memory is counted.
    tell_system(SUBREAPER, 1)

    # What is loaded now stays: the collector of a fork need not write into pages that all share.
    gc.freeze()
    manager()
