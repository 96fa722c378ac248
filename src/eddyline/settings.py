"""Settings: the options of SET and WITH, in one frozen record that is passed to functions, never a global.

Answer   `Settings` holds every option that SET or a query's WITH can change, with its default. `OPTIONS` has the purpose
         and the values of each option; the language reference is made from it.
         Options for experiments are written `experiment.NAME`. Without the prefix they still work, and `unprefixed`
         names them.
Limits   Both drivers accept every option; some options change nothing in one of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NoReturn

from eddyline.errors import SettingProblem
from eddyline.tuning import Tuning

Value = str | int | float

#: What the names of options for experiments begin with.
EXPERIMENT = "experiment."


@dataclass(frozen=True, slots=True)
class Settings:
    #: The most rows of all streams together in one embedded epoch.
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
    #: About how long a micro-batch over files takes on Spark, while more waits.
    batch_seconds: float = 2.0
    #: How many rows a micro-batch over files has on Spark; None: as many as its bytes have.
    max_rows_per_batch: int | None = None
    #: auto | scan | imp | hash(a, b) | imp(6, 5, 5).
    template_index: str = "auto"
    template_tuning: str = "on"
    template_batch: str = "on"
    heralds: str = "auto"
    #: Whether row groups of parquet that no query can use are skipped.
    row_groups: str = "on"
    constraints: str = "prune"
    on_violation: str = "dead-letter"
    unsatisfiable: str = "error"
    punctuations: str = "on"
    #: auto | eager | a number of punctuations.
    purge: str = "auto"
    #: off | on | a number of values | seconds of event time.
    propagate: str = "off"
    output_files: str = "auto"
    #: auto | merged | by-shard.
    output_order: str = "auto"
    #: Seconds after which a file of gathered results is closed.
    output_seconds: float = 2.0
    #: A warning names a query and the key of a row that makes more results than this.
    most_results: int = 1_000_000
    #: How many of the newest rows of results that no `take` has returned a session keeps; None: all.
    keep_results: int | None = None
    #: An event that completes more matches in one partition stops the job; None: it is warned of where they are very many.
    most_matches: int | None = None
    #: Seconds after which a query is dropped if no page requests it again; None: never. Such a query writes no files.
    lease: float | None = None
    #: Further join policies, each as module:function of a `PolicyFactory` that EDDYLINE_POLICIES of the process allows.
    policies: tuple[str, ...] = ()
    #: Thresholds; tests pass others.
    tuning: Tuning = field(default_factory=Tuning)
    #: Options for experiments that were set without their prefix; they change nothing else.
    unprefixed: frozenset[str] = field(default=frozenset(), compare=False)
    #: Processes; None: the job has not said it; 0: one per core. No answer and no plan depends on it.
    cores: int | None = field(default=None, compare=False)

    def with_option(self, name: str, value: Value) -> Settings:
        """These settings with the option `name` changed to `value`, which is checked.

        Raises:
            SettingProblem: There is no option of this name, or it does not take the value.

        >>> Settings().with_option("epoch_rows", 500).epoch_rows
        500
        """
        prefixed = name.lower().startswith(EXPERIMENT)
        plain = name.lower().removeprefix(EXPERIMENT)
        option = OPTIONS.get(plain)
        if option is None:
            experiments = {one: option.experiment for one, option in sorted(OPTIONS.items())}
            listed = [one for one, kind in experiments.items() if (kind if prefixed else kind is not True)]
            names = ", ".join(EXPERIMENT * prefixed + one for one in listed)
            others = "" if prefixed else f"; those for experiments begin with {EXPERIMENT}"
            raise SettingProblem(f"there is no setting {name}", hint=f"settings are {names}{others}")
        changed: dict[str, Any] = {plain: option.value(plain, value)}
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
    """One SET option: its purpose, and how its value is read."""

    help: str
    #: The values as the reference shows them.
    values: str
    #: The hint of the error for another value.
    hint: str
    #: From a text to the value; raises a ValueError for a text that is none.
    read: Callable[[str], object]
    #: Whether the option is for experiments, or those of its values that are.
    experiment: bool | tuple[str, ...] = False

    def value(self, name: str, given: Value) -> object:
        try:
            return self.read(str(given).strip())
        except ValueError:
            raise SettingProblem(f"SET {name} does not take {given!r}", hint=self.hint) from None


def _choice(help: str, *allowed: str, experiment: bool | tuple[str, ...] = False) -> SettingOption:
    """An option with these values; the reference does not show those for experiments."""

    def read(text: str) -> object:
        return allowed[allowed.index(text.lower())] if text.lower() in allowed else _refuse()

    hidden = experiment if isinstance(experiment, tuple) else ()
    shown = " | ".join(value for value in allowed if value not in hidden)
    return SettingOption(help, shown, f"one of {', '.join(allowed)}", read, experiment)


def _refuse() -> NoReturn:
    raise ValueError


def _whole(help: str, least: int, experiment: bool = False) -> SettingOption:
    def read(text: str) -> object:
        return int(text) if int(text) >= least else _refuse()

    return SettingOption(help, f"{least}, {least + 1}, …", f"a whole number, {least} or more", read, experiment)


def _seconds(text: str) -> object:
    return float(text) if 0 <= float(text) < 1e9 else _refuse()


def _tree(text: str) -> object:
    if text.lower() in ("auto", "mjoin", "bjtree"):
        return text.lower()
    return text if text.startswith("(") else _refuse()


def _cores(text: str) -> object:
    if text.lower() == "none":
        return None
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(cores?)?", text, re.IGNORECASE)
    return float(found[1]) if found and float(found[1]) > 0 else _refuse()


def _index(text: str) -> object:
    plain = re.sub(r"\s+", "", text)
    if plain.lower() in ("auto", "scan", "imp") or re.fullmatch(r"imp\([0-9]+(,[0-9]+)*\)", plain, re.IGNORECASE):
        return plain.lower()
    return "hash" + plain[4:] if re.fullmatch(r"hash\([^(),]+(,[^(),]+)*\)", plain, re.IGNORECASE) else _refuse()


def _purge(text: str) -> object:
    return text.lower() if text.lower() in ("auto", "eager") or (text.isdigit() and int(text) > 0) else _refuse()


_UNITS = {"second sec s": 1, "minute min": 60, "hour h": 3_600, "day d": 86_400, "week w": 604_800}
#: Microseconds of the units of time that spans are written in, in small letters.
MICROS = {"microsecond": 1, "us": 1, "millisecond": 10**3, "ms": 10**3} | {
    name: seconds * 10**6 for names, seconds in _UNITS.items() for name in names.split()
}


def unit_micros(word: str) -> int | None:
    """Microseconds of a unit of time in the singular or plural; None: there is no such unit."""
    lower = word.lower()
    return MICROS.get(lower) or MICROS.get(lower.removesuffix("s"))


def _propagate(text: str) -> object:
    lower = text.lower()
    if lower in ("off", "on") or (lower.isdigit() and int(lower) > 0):
        return lower
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([a-z]+)", lower)
    size = (unit_micros(found[2]) if found else None) or 0
    micros = Decimal(found[1]) * size if found else Decimal(0)
    if found is None or micros < 1 or micros != int(micros):
        raise ValueError
    # Seconds keep their text: a checkpoint may hold it.
    return f"{found[1] if size == 10**6 else f'{(micros / 10**6).normalize():f}'} seconds"


_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _bytes(text: str) -> object:
    if text.lower() == "none":
        return None
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([a-z]*)", text, re.IGNORECASE)
    if not found or found[2].upper() not in _BYTES or float(found[1]) <= 0:
        raise ValueError
    return int(float(found[1]) * _BYTES[found[2].upper()])


_SPAN = "a number of seconds, 0 or more"

#: Every option, in the order in which the reference shows them.
OPTIONS: dict[str, SettingOption] = {
    "epoch_rows": _whole("rows of all streams together that one embedded epoch takes", 1),
    "plan": SettingOption(
        "the join tree; a group of three or more is one mjoin node",
        "auto | mjoin | bjtree | '((a b) c)'",
        "auto, mjoin, bjtree or a tree such as '((a b) c)'",
        _tree,
    ),
    "probe": _choice("how join partners are found", "hash", "loop", experiment=True),
    "on_late": _choice("what a late row does", "dead-letter", "error"),
    "on_bad": _choice("what an unreadable row does", "dead-letter", "error"),
    "unbounded": _choice("what an UNBOUNDED reference that nothing purges does", "warn", "error"),
    "jit": _choice(
        "just-in-time joins: do not make what cannot be used",
        *("off", "bloom", "exact", "auto"),
        experiment=("bloom", "exact"),
    ),
    "jit_control": _choice("how demand is tested", "one-sided", "probes", "chain", "auto", experiment=True),
    "cpu_budget": SettingOption(
        "CPU seconds per second of event time that all queries may use",
        "'0.8 cores' | none",
        "for example '0.8 cores', or 'none'",
        _cores,
    ),
    "memory_budget": SettingOption(
        "state that all queries may hold", "'2 GB' | none", "for example '2 GB' or '512 MiB', or 'none'", _bytes
    ),
    "over_budget": _choice("what happens when no plan fits the budgets", "error", "warn", "spill"),
    "plan_search": _choice("how a join tree is looked for", "two-layer", "finder", "mjoin", "bjtree", experiment=True),
    "route": _choice("probe orders: the planner's, or the eddy's", "fixed", "lottery", experiment=True),
    "scheduler": _choice("whose window is served next in a shared join", "lwo", "swf", "mqt", experiment=True),
    "seed": _whole("seed of all random draws", 0, experiment=True),
    "share": _choice("whether queries with the same joins share one", "on", "off"),
    "replan": _choice("whether plans may change while running", "on", "off"),
    "shards": _whole("shards on Spark; 0 takes one per core. With `cores` the slices of a new checkpoint", 0),
    "cores": SettingOption(
        "processes of this machine that share the work of a job without Spark; auto: one per core",
        "1, 4, … | auto",
        "a whole number, 1 or more, or 'auto'",
        lambda text: 0 if text.lower() == "auto" else int(text) if int(text) >= 1 else _refuse(),
    ),
    "checkpoint_seconds": SettingOption(
        "time between embedded checkpoints; 0 takes one after every epoch", "0, 0.5, …", _SPAN, _seconds
    ),
    "batch_seconds": SettingOption(
        "about how long a micro-batch over files takes on Spark while more waits: it takes more or fewer bytes",
        "0.1, 2, …",
        _SPAN,
        _seconds,
    ),
    "max_rows_per_batch": SettingOption(
        "rows of all streams without `files_per_batch` together in a micro-batch over files on Spark, to a row group of "
        "parquet and about a tenth of text",
        "none | 1, 2, …",
        "a whole number, 1 or more, or 'none'",
        lambda text: None if text.lower() == "none" else int(text) if int(text) >= 1 else _refuse(),
    ),
    "template_index": SettingOption(
        "how requests to a template find their rows",
        "auto | scan | imp | 'hash(a, b)' | 'imp(6, 5, 5)'",
        "auto, scan, imp, 'hash(a, b)' or 'imp(6, 5, 5)'",
        _index,
    ),
    "template_tuning": _choice(
        "whether the index of a template follows what is asked for", "on", "off", experiment=True
    ),
    "template_batch": _choice(
        "whether requests of one epoch share a scan, or each finds its rows alone", "on", "off", experiment=True
    ),
    "heralds": _choice(
        "zones: skip or pass whole stretches of rows by their least and greatest values", "auto", "on", "off"
    ),
    "row_groups": _choice(
        "whether row groups of parquet that no query can use are skipped by their statistics",
        *("on", "off"),
        experiment=True,
    ),
    "constraints": _choice(
        "event patterns: use constraints to end matches early, only check them, neither", "prune", "check", "off"
    ),
    "on_violation": _choice(
        "what a row that breaks a promise, or an event that breaks a constraint, does", "dead-letter", "error"
    ),
    "unsatisfiable": _choice("what an event pattern that can never match does", "error", "warn"),
    "punctuations": _choice("whether rows that no row to come can need are forgotten early", "on", "off"),
    "purge": SettingOption(
        "when punctuations make a join look for rows to forget",
        "auto | eager | 100",
        "auto, eager, or a number of punctuations",
        _purge,
    ),
    "propagate": SettingOption(
        "when the finished values of output columns are announced",
        "off | on | 100 | '10 seconds' | '1 minute'",
        "off, on, a number of values, or a time such as '10 seconds', '1 minute', '500 milliseconds'",
        _propagate,
    ),
    "output_files": _choice(
        "result files: gathered until they are large or old, or one per query and epoch or micro-batch", "auto", "each"
    ),
    "output_order": _choice(
        "order of large results in files: one over all shards, or one per shard and file; auto: by-shard on Spark, else merged",
        *("auto", "merged", "by-shard"),
    ),
    "output_seconds": SettingOption("age at which a file of gathered results is closed", "0, 0.5, …", _SPAN, _seconds),
    "most_results": _whole(
        "results of one row beyond which a warning names the query and the row's key, once per query", 1
    ),
    "keep_results": SettingOption(
        "rows of results that a session in this process keeps of each query until they are taken: the newest",
        "none | 1, 2, …",
        "a whole number, 1 or more, or 'none': all are kept",
        lambda text: None if text.lower() == "none" else int(text) if int(text) >= 1 else _refuse(),
    ),
    "most_matches": SettingOption(
        "matches that one event may complete in one partition: the job stops at more. "
        "Without it a warning names query, partition and count where they are more than 1,000,000, once per query",
        "1, 2, … | none",
        "a whole number, 1 or more, or 'none'",
        lambda text: None if text.lower() == "none" else int(text) if int(text) >= 1 else _refuse(),
    ),
    "lease": SettingOption(
        "seconds after which a tried query goes that no page asks for; it writes no files, its newest rows are in the report",
        "30 | none",
        _SPAN,
        lambda text: None if text.lower() == "none" else _seconds(text),
    ),
}
