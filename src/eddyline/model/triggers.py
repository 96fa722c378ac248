"""Triggers: which events make joins forget rows, announce values, and tidy stores.

Answer   `triggers_of` gives, per component, the triggers of the settings of a query. A component runs when one of its
         triggers is due, by the counts of `SinceLastRun`.

             component    what it does                                         runs
             purge        a join searches for rows that no later row needs     by `purge`; at a bounded end; without input
             index        new promises are merged into the remembered ones     when they are an eighth of these
             propagate    finished values are announced                        by `propagate`
             spill        payload goes to disk                                 over the memory budget
             compact      a store closes its gaps                              when half of its rows are gone

State    None.
Reading  docs/punctuations.md
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eddyline.errors import UserError
from eddyline.settings import Settings

COMPONENTS = ("purge", "index", "propagate", "spill", "compact")
#: Components whose triggers `eddyline query set` changes.
CHANGEABLE = ("purge", "propagate")


@dataclass(frozen=True, slots=True)
class SinceLastRun:
    """Counts of what happened since a component last ran."""

    punctuations: int = 0
    #: New rows, promises or values, and those that were there before.
    new: int = 0
    kept: int = 0
    #: Microseconds of event time; None: it never ran.
    span: int | None = None
    #: Bytes over the budget.
    excess: int = 0
    #: Whether a bounded run ends, at which every component runs.
    asked: bool = False
    #: Whether there is no input.
    idle: bool = False


#: Event -> whether it has happened, given a number.
EVENTS: Mapping[str, Callable[[SinceLastRun, int], bool]] = {
    "punctuations": lambda seen, number: seen.punctuations >= number,
    "half as many rows": lambda seen, number: 2 * seen.new >= max(number, seen.kept),
    "an eighth of promises": lambda seen, number: seen.new > max(number, seen.kept // 8),
    "epoch": lambda seen, _: True,
    "values": lambda seen, number: seen.new >= number,
    "span": lambda seen, number: seen.span is None or seen.span >= number,
    "over budget": lambda seen, _: seen.excess > 0,
    "half gone": lambda seen, number: 2 * seen.new >= seen.kept and seen.new >= max(number, 1),
    "asked": lambda seen, _: seen.asked,
    "no input": lambda seen, _: seen.idle,
}

_TEXTS = {
    "punctuations": "after {} punctuations",
    "half as many rows": "when half as many rows have come as were kept",
    "an eighth of promises": "when an eighth of the promises is new",
    "epoch": "after every epoch",
    "values": "when {} values are finished",
    "span": "after {} s of event time",
    "over budget": "over the memory budget",
    "half gone": "when half of the rows are gone",
    "asked": "when asked",
    "no input": "when nothing comes in",
}


@dataclass(frozen=True, slots=True)
class Trigger:
    event: str
    number: int = 0

    def is_due(self, seen: SinceLastRun) -> bool:
        return EVENTS[self.event](seen, self.number)

    def __str__(self) -> str:
        if self.event == "punctuations" and self.number == 1:
            return "after every punctuation"
        return _TEXTS[self.event].format(f"{self.number / 1e6:g}" if self.event == "span" else self.number)


def purge_triggers(purge: str, least: int = 0) -> tuple[Trigger, ...]:
    """When a join searches for rows to forget: `auto` from `least` new rows on, `off` never."""
    if purge == "off":
        return ()
    first = Trigger("half as many rows", least)
    if purge != "auto":
        first = Trigger("punctuations", 1 if purge == "eager" else int(purge))
    return first, Trigger("asked"), Trigger("no input")


def propagate_triggers(propagate: str) -> tuple[Trigger, ...]:
    """When finished values are announced."""
    if propagate == "off":
        return ()
    if propagate.endswith(" seconds"):
        return (Trigger("span", round(float(propagate.removesuffix(" seconds")) * 1_000_000)),)
    return (Trigger("epoch"),) if propagate == "on" else (Trigger("values", int(propagate)),)


INDEX = Trigger("an eighth of promises", 256)
SPILL = Trigger("over budget")
COMPACT = Trigger("half gone")


def triggers_of(purge: str, propagate: str, spills: bool) -> dict[str, tuple[Trigger, ...]]:
    """All triggers of a query, by component; one without triggers never runs."""
    spill = (SPILL,) if spills else ()
    found = (purge_triggers(purge), (INDEX,), propagate_triggers(propagate), spill, (COMPACT,))
    return dict(zip(COMPONENTS, found, strict=True))


def is_due(triggers: tuple[Trigger, ...], seen: SinceLastRun) -> bool:
    return any(trigger.is_due(seen) for trigger in triggers)


def trigger_line(purge: str, propagate: str, spills: bool) -> str:
    """The line of EXPLAIN."""
    found = triggers_of(purge, propagate, spills).items()
    return "; ".join(f"{component} {', '.join(map(str, triggers))}" for component, triggers in found if triggers)


def checked(query: str, given: Mapping[str, str]) -> dict[str, str]:
    """Settings of a query that may change while it runs, in their canonical form."""
    for name in given:
        if name.lower() not in CHANGEABLE:
            hint = f"{' and '.join(CHANGEABLE)} can"
            raise UserError(f"{name} of query {query} cannot change while it runs", hint=hint)
    if not given:
        raise UserError(f"nothing is said about query {query}", hint="name = value, such as purge=100")
    settings = {name.lower(): Settings().with_option(name, value) for name, value in given.items()}
    return {name: str(getattr(changed, name)) for name, changed in settings.items()}
