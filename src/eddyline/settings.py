"""One frozen record of settings, passed in, never read from a global.

Answer   `Settings` holds every option that SET or a query's WITH can change, with its default. `OPTIONS` says of each
         what it is for and which values it takes; the language reference is made from it.
Limits   Both engines accept every option; one that a driver has no use for changes nothing there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from eddyline.errors import SettingProblem
from eddyline.tuning import Tuning

Value = str | int | float


@dataclass(frozen=True, slots=True)
class Settings:
    #: Rows of all streams together that one embedded epoch takes.
    epoch_rows: int = 20_000
    #: auto | mjoin | bjtree | a tree such as ((a b) c).
    plan: str = "auto"
    probe: str = "hash"
    on_late: str = "dead-letter"
    on_bad: str = "dead-letter"
    unbounded: str = "warn"
    jit: str = "auto"
    jit_control: str = "auto"
    cpu_budget: float | None = None
    memory_budget: int | None = None
    over_budget: str = "error"
    plan_search: str = "two-layer"
    route: str = "fixed"
    scheduler: str = "mqt"
    seed: int = 0
    share: str = "on"
    replan: str = "on"
    #: 0: as many shards as cores.
    shards: int = 0
    #: Seconds between two embedded checkpoints; 0 takes one after every epoch.
    checkpoint_seconds: float = 5.0
    #: auto | scan | imp | hash(a, b) | imp(6, 5, 5).
    template_index: str = "auto"
    template_tuning: str = "on"
    template_batch: str = "on"
    heralds: str = "auto"
    constraints: str = "prune"
    on_violation: str = "dead-letter"
    unsatisfiable: str = "error"
    punctuations: str = "on"
    #: auto | eager | a number of punctuations.
    purge: str = "auto"
    #: off | on | a number of values | seconds of event time.
    propagate: str = "off"
    output_files: str = "auto"
    #: Seconds after which a file of gathered results is closed.
    output_seconds: float = 2.0
    #: Seconds for which a query stands without being asked for again; None: for ever. Such a query writes no files.
    lease: float | None = None
    #: Further join policies, each as module:function of a `PolicyFactory` that EDDYLINE_POLICIES of the process allows.
    policies: tuple[str, ...] = ()
    #: Thresholds; tests give others.
    tuning: Tuning = field(default_factory=Tuning)

    def with_option(self, name: str, value: Value) -> Settings:
        """These settings with one option changed, its value checked.

        >>> Settings().with_option("epoch_rows", 500).epoch_rows
        500
        """
        option = OPTIONS.get(name.lower())
        if option is None:
            raise SettingProblem(f"there is no setting {name}", hint=f"settings are {', '.join(sorted(OPTIONS))}")
        changed: dict[str, Any] = {name.lower(): option.read(name.lower(), value)}
        return replace(self, **changed)

    def changed(self) -> dict[str, object]:
        """The options that differ from their defaults: what EXPLAIN shows."""
        plain = Settings()
        return {name: getattr(self, name) for name in OPTIONS if getattr(self, name) != getattr(plain, name)}


@dataclass(frozen=True, slots=True)
class Option:
    """One SET option: how its value is read, and what it is for."""

    read: Callable[[str, Value], object]
    values: str
    help: str


def _word(*allowed: str) -> Callable[[str, Value], object]:
    def read(name: str, value: Value) -> object:
        word = str(value).strip().lower()
        if word not in allowed:
            raise SettingProblem(f"SET {name} does not take {value!r}", hint=f"one of {', '.join(allowed)}")
        return word

    return read


def _whole(least: int) -> Callable[[str, Value], object]:
    def read(name: str, value: Value) -> object:
        try:
            number = int(str(value))
        except ValueError:
            number = least - 1
        if number < least:
            raise SettingProblem(f"SET {name} does not take {value!r}", hint=f"a whole number, {least} or more")
        return number

    return read


def _seconds(name: str, value: Value) -> object:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e9:
        raise SettingProblem(f"SET {name} does not take {value!r}", hint="a number of seconds, 0 or more")
    return number


def _lease(name: str, value: Value) -> object:
    return None if str(value).strip().lower() == "none" else _seconds(name, value)


def _tree(name: str, value: Value) -> object:
    text = str(value).strip()
    if text.lower() in ("auto", "mjoin", "bjtree"):
        return text.lower()
    if text.startswith("("):
        return text
    raise SettingProblem(f"SET {name} does not take {value!r}", hint="auto, mjoin, bjtree or a tree such as '((a b) c)'")


def _cores(name: str, value: Value) -> object:
    if str(value).strip().lower() == "none":
        return None
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(cores?)?\s*", str(value), re.IGNORECASE)
    if not found or float(found[1]) <= 0:
        raise SettingProblem(f"SET {name} does not take {value!r}", hint="for example '0.8 cores', or 'none'")
    return float(found[1])


def _index(name: str, value: Value) -> object:
    text = re.sub(r"\s+", "", str(value))
    if text.lower() in ("auto", "scan", "imp") or re.fullmatch(r"imp\([0-9]+(,[0-9]+)*\)", text, re.IGNORECASE):
        return text.lower()
    if re.fullmatch(r"hash\([^(),]+(,[^(),]+)*\)", text, re.IGNORECASE):
        return "hash" + text[4:]
    raise SettingProblem(f"SET {name} does not take {value!r}", hint="auto, scan, imp, 'hash(a, b)' or 'imp(6, 5, 5)'")


def _purge(name: str, value: Value) -> object:
    text = str(value).strip().lower()
    if text in ("auto", "eager") or (text.isdigit() and int(text) > 0):
        return text
    raise SettingProblem(f"SET {name} does not take {value!r}", hint="auto, eager, or a number of punctuations")


def _propagate(name: str, value: Value) -> object:
    text = str(value).strip().lower()
    if text in ("off", "on") or (text.isdigit() and int(text) > 0):
        return text
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*seconds?", text)
    if found is not None and float(found[1]) > 0:
        return f"{found[1]} seconds"
    raise SettingProblem(f"SET {name} does not take {value!r}", hint="off, on, a number of values, or a time such as '10 seconds'")


_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _bytes(name: str, value: Value) -> object:
    if str(value).strip().lower() == "none":
        return None
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", str(value), re.IGNORECASE)
    if not found or found[2].upper() not in _BYTES or float(found[1]) <= 0:
        raise SettingProblem(f"SET {name} does not take {value!r}", hint="for example '2 GB' or '512 MiB', or 'none'")
    return int(float(found[1]) * _BYTES[found[2].upper()])


#: Every option, in the order in which the reference shows them.
OPTIONS: dict[str, Option] = {
    "epoch_rows": Option(_whole(1), "1, 2, …", "rows of all streams together that one embedded epoch takes"),
    "plan": Option(_tree, "auto | mjoin | bjtree | '((a b) c)'", "the join tree; a group of three or more is one mjoin node"),
    "probe": Option(_word("hash", "loop"), "hash | loop", "how join partners are found"),
    "on_late": Option(_word("dead-letter", "error"), "dead-letter | error", "what a late row does"),
    "on_bad": Option(_word("dead-letter", "error"), "dead-letter | error", "what an unreadable row does"),
    "unbounded": Option(_word("warn", "error"), "warn | error", "what an UNBOUNDED reference that nothing purges does"),
    "jit": Option(
        _word("off", "bloom", "exact", "auto"), "off | bloom | exact | auto", "just-in-time joins: do not make what cannot be used"
    ),
    "jit_control": Option(_word("one-sided", "probes", "chain", "auto"), "one-sided | probes | chain | auto", "how demand is tested"),
    "cpu_budget": Option(_cores, "'0.8 cores' | none", "CPU seconds per second of event time that all queries may use"),
    "memory_budget": Option(_bytes, "'2 GB' | none", "state that all queries may hold"),
    "over_budget": Option(_word("error", "warn", "spill"), "error | warn | spill", "what happens when no plan fits the budgets"),
    "plan_search": Option(
        _word("two-layer", "finder", "mjoin", "bjtree"), "two-layer | finder | mjoin | bjtree", "how a join tree is looked for"
    ),
    "route": Option(_word("fixed", "lottery"), "fixed | lottery", "probe orders: the planner's, or the eddy's"),
    "scheduler": Option(_word("lwo", "swf", "mqt"), "lwo | swf | mqt", "whose window is served next in a shared join"),
    "seed": Option(_whole(0), "0, 1, …", "seed of everything that draws lots"),
    "share": Option(_word("on", "off"), "on | off", "whether queries with the same joins share one"),
    "replan": Option(_word("on", "off"), "on | off", "whether plans may change while running"),
    "shards": Option(_whole(0), "0, 1, …", "shards on Spark; 0 takes one per core"),
    "checkpoint_seconds": Option(_seconds, "0, 0.5, …", "time between embedded checkpoints; 0 takes one after every epoch"),
    "template_index": Option(_index, "auto | scan | imp | 'hash(a, b)' | 'imp(6, 5, 5)'", "how requests to a template find their rows"),
    "template_tuning": Option(_word("on", "off"), "on | off", "whether the index of a template follows what is asked for"),
    "template_batch": Option(_word("on", "off"), "on | off", "whether requests of one epoch share a scan, or each finds its rows alone"),
    "heralds": Option(
        _word("auto", "on", "off"), "auto | on | off", "zones: skip or pass whole stretches of rows by their least and greatest values"
    ),
    "constraints": Option(
        _word("prune", "check", "off"),
        "prune | check | off",
        "event patterns: use constraints to end matches early, only check them, neither",
    ),
    "on_violation": Option(
        _word("dead-letter", "error"), "dead-letter | error", "what a row that breaks a promise, or an event that breaks a constraint, does"
    ),
    "unsatisfiable": Option(_word("error", "warn"), "error | warn", "what an event pattern that can never match does"),
    "punctuations": Option(_word("on", "off"), "on | off", "whether rows that no row to come can need are forgotten early"),
    "purge": Option(_purge, "auto | eager | 100", "when punctuations make a join look for rows to forget"),
    "propagate": Option(_propagate, "off | on | 100 | '10 seconds'", "when the finished values of output columns are announced"),
    "output_files": Option(
        _word("auto", "each"),
        "auto | each",
        "result files: gathered until they are large or old, or one per query and epoch or micro-batch",
    ),
    "output_seconds": Option(_seconds, "0, 0.5, …", "age at which a file of gathered results is closed"),
    "lease": Option(
        _lease,
        "30 | none",
        "seconds after which a tried query goes that no page asks for; it writes no files, its newest rows are in the report",
    ),
}
