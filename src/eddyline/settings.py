"""One frozen record of settings, passed in, never read from a global.

Answer   `Settings` holds every option that SET or a query's WITH can change, with its default. `OPTIONS` says of each
         what it is for and which values it takes; the language reference is made from it.
         Options for experiments are written `experiment.NAME`. Without the prefix they still work, and `unprefixed`
         names them.
Limits   Both engines accept every option; one that a driver has no use for changes nothing there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from eddyline.errors import SettingProblem
from eddyline.tuning import Tuning

Value = str | int | float

#: What the names of options for experiments begin with.
EXPERIMENT = "experiment."


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
    #: A row that makes more results than this is warned of.
    most_results: int = 1_000_000
    #: Seconds for which a query stands without being asked for again; None: for ever. Such a query writes no files.
    lease: float | None = None
    #: Further join policies, each as module:function of a `PolicyFactory` that EDDYLINE_POLICIES of the process allows.
    policies: tuple[str, ...] = ()
    #: Thresholds; tests give others.
    tuning: Tuning = field(default_factory=Tuning)
    #: Options for experiments that were set without their prefix; they change nothing else.
    unprefixed: frozenset[str] = field(default=frozenset(), compare=False)

    def with_option(self, name: str, value: Value) -> Settings:
        """These settings with one option changed, its value checked.

        >>> Settings().with_option("epoch_rows", 500).epoch_rows
        500
        """
        prefixed = name.lower().startswith(EXPERIMENT)
        plain = name.lower().removeprefix(EXPERIMENT)
        option = OPTIONS.get(plain)
        if option is None:
            listed = [
                EXPERIMENT * prefixed + one
                for one in sorted(OPTIONS)
                if (OPTIONS[one].experiment if prefixed else OPTIONS[one].experiment is not True)
            ]
            others = "" if prefixed else f"; those for experiments begin with {EXPERIMENT}"
            raise SettingProblem(f"there is no setting {name}", hint=f"settings are {', '.join(listed)}{others}")
        changed: dict[str, Any] = {plain: option.read(plain, value)}
        experiment = option.experiment if isinstance(option.experiment, bool) else changed[plain] in option.experiment
        if prefixed and not experiment:
            raise SettingProblem(f"{plain} = {value} is no experiment", hint=f"SET {plain} = {value}")
        if experiment and not prefixed:
            changed["unprefixed"] = self.unprefixed | {plain}
        return replace(self, **changed)

    def changed(self) -> dict[str, object]:
        """The options that differ from their defaults: what EXPLAIN shows."""
        plain = Settings()
        return {name: getattr(self, name) for name in OPTIONS if getattr(self, name) != getattr(plain, name)}


@dataclass(frozen=True, slots=True)
class SettingOption:
    """One SET option: how its value is read, and what it is for."""

    read: Callable[[str, Value], object]
    values: str
    help: str
    #: Whether the option is for experiments, or the values that are.
    experiment: bool | tuple[str, ...] = False


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
    raise SettingProblem(
        f"SET {name} does not take {value!r}", hint="auto, mjoin, bjtree or a tree such as '((a b) c)'"
    )


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


#: Microseconds of the units of time that spans are written in, in small letters.
MICROS = {"microsecond": 1, "us": 1, "millisecond": 10**3, "ms": 10**3} | {
    name: seconds * 10**6
    for names, seconds in (
        ("second sec s", 1),
        ("minute min", 60),
        ("hour h", 3_600),
        ("day d", 86_400),
        ("week w", 604_800),
    )
    for name in names.split()
}


def unit_micros(word: str) -> int | None:
    """Microseconds of a unit of time in the singular or plural; None: there is no such unit."""
    lower = word.lower()
    return MICROS.get(lower) or MICROS.get(lower.removesuffix("s"))


def _propagate(name: str, value: Value) -> object:
    text = str(value).strip().lower()
    if text in ("off", "on") or (text.isdigit() and int(text) > 0):
        return text
    if found := re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([a-z]+)", text):
        size = unit_micros(found[2]) or 0
        micros = Decimal(found[1]) * size
        if micros >= 1 and micros == int(micros):
            # Seconds stay as they are written: a checkpoint may hold the text.
            return f"{found[1] if size == 10**6 else f'{(micros / 10**6).normalize():f}'} seconds"
    hint = "off, on, a number of values, or a time such as '10 seconds', '1 minute', '500 milliseconds'"
    raise SettingProblem(f"SET {name} does not take {value!r}", hint=hint)


_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _bytes(name: str, value: Value) -> object:
    if str(value).strip().lower() == "none":
        return None
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", str(value), re.IGNORECASE)
    if not found or found[2].upper() not in _BYTES or float(found[1]) <= 0:
        raise SettingProblem(f"SET {name} does not take {value!r}", hint="for example '2 GB' or '512 MiB', or 'none'")
    return int(float(found[1]) * _BYTES[found[2].upper()])


#: Every option, in the order in which the reference shows them.
OPTIONS: dict[str, SettingOption] = {
    "epoch_rows": SettingOption(_whole(1), "1, 2, …", "rows of all streams together that one embedded epoch takes"),
    "plan": SettingOption(
        _tree, "auto | mjoin | bjtree | '((a b) c)'", "the join tree; a group of three or more is one mjoin node"
    ),
    "probe": SettingOption(_word("hash", "loop"), "hash | loop", "how join partners are found", experiment=True),
    "on_late": SettingOption(_word("dead-letter", "error"), "dead-letter | error", "what a late row does"),
    "on_bad": SettingOption(_word("dead-letter", "error"), "dead-letter | error", "what an unreadable row does"),
    "unbounded": SettingOption(
        _word("warn", "error"), "warn | error", "what an UNBOUNDED reference that nothing purges does"
    ),
    "jit": SettingOption(
        _word("off", "bloom", "exact", "auto"),
        "off | auto",
        "just-in-time joins: do not make what cannot be used",
        experiment=("bloom", "exact"),
    ),
    "jit_control": SettingOption(
        _word("one-sided", "probes", "chain", "auto"),
        "one-sided | probes | chain | auto",
        "how demand is tested",
        experiment=True,
    ),
    "cpu_budget": SettingOption(
        _cores, "'0.8 cores' | none", "CPU seconds per second of event time that all queries may use"
    ),
    "memory_budget": SettingOption(_bytes, "'2 GB' | none", "state that all queries may hold"),
    "over_budget": SettingOption(
        _word("error", "warn", "spill"), "error | warn | spill", "what happens when no plan fits the budgets"
    ),
    "plan_search": SettingOption(
        _word("two-layer", "finder", "mjoin", "bjtree"),
        "two-layer | finder | mjoin | bjtree",
        "how a join tree is looked for",
        experiment=True,
    ),
    "route": SettingOption(
        _word("fixed", "lottery"), "fixed | lottery", "probe orders: the planner's, or the eddy's", experiment=True
    ),
    "scheduler": SettingOption(
        _word("lwo", "swf", "mqt"), "lwo | swf | mqt", "whose window is served next in a shared join", experiment=True
    ),
    "seed": SettingOption(_whole(0), "0, 1, …", "seed of all random draws", experiment=True),
    "share": SettingOption(_word("on", "off"), "on | off", "whether queries with the same joins share one"),
    "replan": SettingOption(_word("on", "off"), "on | off", "whether plans may change while running"),
    "shards": SettingOption(_whole(0), "0, 1, …", "shards on Spark; 0 takes one per core"),
    "checkpoint_seconds": SettingOption(
        _seconds, "0, 0.5, …", "time between embedded checkpoints; 0 takes one after every epoch"
    ),
    "template_index": SettingOption(
        _index, "auto | scan | imp | 'hash(a, b)' | 'imp(6, 5, 5)'", "how requests to a template find their rows"
    ),
    "template_tuning": SettingOption(
        _word("on", "off"), "on | off", "whether the index of a template follows what is asked for", experiment=True
    ),
    "template_batch": SettingOption(
        _word("on", "off"),
        "on | off",
        "whether requests of one epoch share a scan, or each finds its rows alone",
        experiment=True,
    ),
    "heralds": SettingOption(
        _word("auto", "on", "off"),
        "auto | on | off",
        "zones: skip or pass whole stretches of rows by their least and greatest values",
    ),
    "constraints": SettingOption(
        _word("prune", "check", "off"),
        "prune | check | off",
        "event patterns: use constraints to end matches early, only check them, neither",
    ),
    "on_violation": SettingOption(
        _word("dead-letter", "error"),
        "dead-letter | error",
        "what a row that breaks a promise, or an event that breaks a constraint, does",
    ),
    "unsatisfiable": SettingOption(
        _word("error", "warn"), "error | warn", "what an event pattern that can never match does"
    ),
    "punctuations": SettingOption(
        _word("on", "off"), "on | off", "whether rows that no row to come can need are forgotten early"
    ),
    "purge": SettingOption(_purge, "auto | eager | 100", "when punctuations make a join look for rows to forget"),
    "propagate": SettingOption(
        _propagate,
        "off | on | 100 | '10 seconds' | '1 minute'",
        "when the finished values of output columns are announced",
    ),
    "output_files": SettingOption(
        _word("auto", "each"),
        "auto | each",
        "result files: gathered until they are large or old, or one per query and epoch or micro-batch",
    ),
    "output_seconds": SettingOption(_seconds, "0, 0.5, …", "age at which a file of gathered results is closed"),
    "most_results": SettingOption(
        _whole(1),
        "1, 2, …",
        "results of one row beyond which a warning names the query and the row's key, once per query",
    ),
    "lease": SettingOption(
        _lease,
        "30 | none",
        "seconds after which a tried query goes that no page asks for; it writes no files, its newest rows are in the report",
    ),
}
