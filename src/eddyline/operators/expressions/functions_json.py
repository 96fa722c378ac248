"""Which functions look into JSON texts.

Answer   `MAKERS` gives their kernels, which are in `json_columns.py`.
Limits   That file is loaded when a query has such a function: planning loads no compiled kernels.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.model.expressions.expression import Call
from eddyline.operators.expressions.vectors import Kernel


def _loaded(call: Call) -> Kernel:
    from eddyline.operators.expressions.json_columns import MAKERS as makers  # see above

    return makers[call.function](call)


MAKERS: dict[str, Callable[[Call], Kernel]] = dict.fromkeys(
    ("json_extract", "json_extract_string", "json_array_length", "json_valid"), _loaded
)
