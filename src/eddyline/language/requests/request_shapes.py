"""Requests that differ in the values of their equalities only: read once, filled in afterwards.

Answer   `RequestShapes.find(text)` gives the request that an earlier text of the same shape was bound to, with the
         values of this text; `RequestShapes.learn(text, request)` remembers a request. The shape of a text is the text
         without the literals that follow an `=`.
State    Requests by shape, the newest `MOST` of them.
Limits   Values are whole numbers of columns of whole numbers, within the range of the column's type, and texts of
         columns of text; each column is compared once. Texts with comments, quoted names or anything else that could
         hide a literal are not remembered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from eddyline.language.catalog import Catalog
from eddyline.model.datatypes import FIRST_ABOVE
from eddyline.model.template import Request, RequestCondition, Template

#: The most shapes that are remembered.
MOST = 256
#: An `=` that is no part of another sign, and a literal that ends the condition; and the name before it.
_EQUALITY = re.compile(r"(?<=[\w\s])=\s*([0-9]{1,18}|'[^'\\]*')(?=\s*(?:$|;|\s(?:AND|GROUP|AS)\s))", re.IGNORECASE)
_NAME = re.compile(r"\b([A-Za-z_]\w*)\s*$")
#: Comments, quoted names and escapes: a text with one of them is not remembered.
_STRANGE = re.compile(r"--|/\*|\"|`|''|\\")
_INSTANT = re.compile(r"AS\s+OF\s+TIMESTAMP\s+'[-0-9:. ]*'", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Shape:
    template: Template
    request: Request
    #: Per literal: the place of its condition among those of the request.
    places: tuple[int, ...]


class RequestShapes:
    def __init__(self) -> None:
        self._known: dict[str, _Shape] = {}

    def find(self, text: str, catalog: Catalog) -> Request | None:
        """The request of a text; None: no text of this shape was bound under the same template."""
        parts = _EQUALITY.split(text)
        shape = self._known.get("\0".join(parts[0::2]))
        if shape is None or catalog.templates.get(shape.request.template) is not shape.template:
            return None
        conditions = list(shape.request.conditions)
        for place, literal in zip(shape.places, parts[1::2], strict=True):
            key = conditions[place].key
            value = _value(shape.template, key, literal)
            if value is None:
                return None
            conditions[place] = RequestCondition(key, "in", (value,))
        return replace(shape.request, conditions=tuple(conditions), text=text)

    def learn(self, text: str, request: Request, catalog: Catalog) -> None:
        """Remember how a text was bound, if its literals are found again in the conditions."""
        template = catalog.templates.get(request.template)
        parts = _EQUALITY.split(text)
        # Outside of equalities only AS OF has a text in quotes, so that no equality is inside of a text.
        rest = _INSTANT.sub("", "".join(parts[0::2]))
        if template is None or _STRANGE.search(text) or "'" in rest or not parts[1:]:
            return
        keys = [condition.key for condition in request.conditions]
        places = []
        for before, literal in zip(parts[0::2], parts[1::2], strict=False):
            name = _NAME.search(before)
            key = None if name is None else template.key(name[1])
            if key is None or keys.count(key) != 1:
                return
            condition = request.conditions[keys.index(key)]
            if condition.kind != "in" or condition.values != (_value(template, key, literal),):
                return
            places.append(keys.index(key))
        if len(set(places)) < len(places):
            return
        if len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known["\0".join(parts[0::2])] = _Shape(template, request, tuple(places))


def _value(template: Template, key: int, literal: str) -> int | str | None:
    """The literal as a value of a grouping column; None: it has another type, or does not fit."""
    kind = template.keys[key].type.name
    if literal.startswith("'"):
        return literal[1:-1] if kind == "STRING" else None
    value = int(literal)
    return value if value < FIRST_ABOVE.get(kind, 0) else None
