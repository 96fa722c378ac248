"""Groups of arrays without counts of references: for kernels that read thousands of fields per row.

Answer   `borrowed` gives a named tuple of arrays as the same tuple whose arrays own nothing. Taking an array out of a
         tuple counts a reference up and down again, atomically; without an owner there is nothing to count.
Limits   The caller keeps the arrays alive as long as the borrowed ones are used: the arguments of a kernel live until
         it returns.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def borrowed(typing_context: Any, group: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (whole,) = arguments
        for at, kind in enumerate(signature.args[0].types):
            if isinstance(kind, types.Array):
                array = context.make_array(kind)(context, builder, value=builder.extract_value(whole, at))
                array.meminfo = cgutils.get_null_value(array.meminfo.type)
                array.parent = cgutils.get_null_value(array.parent.type)
                whole = builder.insert_value(whole, array._getvalue(), at)
        return whole

    return group(group), generate
