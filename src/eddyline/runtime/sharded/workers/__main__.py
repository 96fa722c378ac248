"""The process from which a program's engine processes are forked, with the engine loaded once.

Answer   It writes the folder of their sockets to its output. For each number on its input it starts the process with
         that number, unless it answers, and writes an empty line.
Limits   It imports nothing of the program that started it. When its input ends it ends, and all that it has forked.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from eddyline.runtime.figures.memory import keep_freed_memory
from eddyline.runtime.sharded.workers.processes import folder_of, start
from eddyline.runtime.sharded.workers.serving import SUBREAPER, tell_system
from eddyline.state.whole_file import leave_unsynced


def _main() -> None:
    keep_freed_memory()
    for fleeting in sys.argv[1:]:
        leave_unsynced(fleeting)
    # What is loaded now stays: the collector of a fork need not write into pages that all share.
    gc.freeze()
    # The processes end below this one, and nobody waits for them.
    tell_system(SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    out = os.dup(1)
    os.dup2(2, 1)
    folder = folder_of(os.getpid())
    os.write(out, os.fsencode(folder) + b"\n")
    for line in sys.stdin.buffer:
        start(folder, int(line), os.getpid())
        os.write(out, b"\n")
    # Now: the processes wait for it.
    os._exit(0)


if __name__ == "__main__":
    # Each computes one shard at a time; pools of threads in each would only fight for the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _main()
