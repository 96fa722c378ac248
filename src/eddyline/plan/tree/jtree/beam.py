"""The last part of the second layer: the finder's dynamic programming over a bounded family of sets.

Answer   Qualified trees whose stores all belong to the family. It has sets that hold few rows, and every store of a tree
         that the search has priced before, so that parts of two trees can be combined.
State    Per set of the family a front of sub-plans, of bounded size.
Limits   Polynomial: the family has at most `per_size` sets of each size (and what was seen), a front at most `front`
         sub-plans. Sets of up to `exhaustive` inputs are partitioned in every way; larger ones are put together from
         two members of the family, each kept as a store or absorbed into the node. With few inputs the bounds do not
         bind and nothing is left out; from about nine inputs on trees can be missed.
Reading  docs/design/0002-cost-model.md#searching
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from eddyline.plan.tree.join_graph import members
from eddyline.plan.tree.jtree.candidates import Candidate, Candidates
from eddyline.plan.tree.jtree.subplans import Option, SubPlans


@dataclass(frozen=True, slots=True)
class Effort:
    """The bounds that make the beam polynomial."""

    #: Sets of each size that may become stores.
    per_size: int
    #: Sets of each size from which the next size is grown.
    pool: int
    #: Up to this many inputs a set is partitioned in every way.
    exhaustive: int
    #: Sub-plans kept per set.
    front: int
    #: Of those, how many may be absorbed into a larger node.
    absorbed: int
    #: How many stores one larger node may have among its children.
    stores: int
    #: Collections of stores that are extended by one more, and those that are then priced.
    extended: int
    priced: int


#: (up to how many inputs, effort): the more inputs, the narrower, so that a search stays within fractions of a second.
EFFORTS = (
    (8, Effort(per_size=70, pool=70, exhaustive=8, front=200, absorbed=4, stores=4, extended=12, priced=60)),
    (10, Effort(per_size=36, pool=60, exhaustive=6, front=24, absorbed=4, stores=4, extended=12, priced=60)),
    (13, Effort(per_size=10, pool=30, exhaustive=5, front=12, absorbed=3, stores=4, extended=6, priced=20)),
    (15, Effort(per_size=7, pool=20, exhaustive=5, front=10, absorbed=2, stores=3, extended=3, priced=10)),
)
NARROWEST = Effort(per_size=4, pool=14, exhaustive=5, front=8, absorbed=2, stores=3, extended=3, priced=8)


def effort_for(inputs: int) -> Effort:
    """The largest effort that keeps a search within fractions of a second."""
    return next((effort for most, effort in EFFORTS if inputs <= most), NARROWEST)


def beam(candidates: Candidates, effort: Effort) -> list[Candidate]:
    """Qualified trees, by increasing CPU; empty if the family holds none."""
    model = candidates.model
    # Where memory does not count, neither does any sub-plan but the one with the least CPU.
    plans = SubPlans(model, candidates.budgets, effort.front if candidates.budgets.memory is not None else 1)
    family = _family(candidates, plans, effort)
    for mask in (*family, model.everything):
        if mask.bit_count() <= effort.exhaustive:
            plans.plan_exhaustively(mask)
        else:
            _plan_by_parts(plans, family, mask, effort)
    return [found for found in map(candidates.add, plans.shapes()) if candidates.fits(found)]


def _family(candidates: Candidates, plans: SubPlans, effort: Effort) -> list[int]:
    """The sets that may become stores, small sets first."""
    model = candidates.model
    kept = {
        mask
        for candidate in candidates.seen.values()
        for mask in candidate.shape
        if mask != model.everything and plans.storable(mask)
    }
    level = [1 << place for place in range(model.count)]
    for _ in range(2, model.count):
        grown = {mask | 1 << place for mask in level for place in range(model.count) if not mask >> place & 1}
        # A set too large to store may still grow into one that is not, so the pool is wider than the family.
        level = _fewest_rows(candidates, grown, effort.pool)
        kept.update(_fewest_rows(candidates, [mask for mask in level if plans.storable(mask)], effort.per_size))
    return sorted(kept, key=lambda mask: (mask.bit_count(), mask))


def _fewest_rows(candidates: Candidates, masks: set[int] | list[int], most: int) -> list[int]:
    """The sets with the least state, chosen so that no input is left out: a set's rank is the best of its places among
    the sets with each of its inputs."""
    if len(masks) <= most:
        return sorted(masks)
    ordered = sorted(masks, key=lambda mask: (candidates.model.memory(mask), mask))
    seen_with = [0] * candidates.model.count
    ranks = []
    for place, mask in enumerate(ordered):
        inside = members(mask)
        ranks.append((min(seen_with[member] for member in inside), place, mask))
        for member in inside:
            seen_with[member] += 1
    return [mask for _, _, mask in sorted(ranks)[:most]]


def _plan_by_parts(plans: SubPlans, family: list[int], mask: int, effort: Effort) -> None:
    """Options for a large set: pairs of parts that make it up, and collections of disjoint stores among single
    inputs."""
    if mask != plans.model.everything and not plans.storable(mask):
        return
    stores = [part for part in family if part & mask == part and part != mask and part in plans.fronts]
    options = _priced(plans, mask, _pairs(plans, stores, mask, effort))
    options += _collections(plans, stores, mask, effort)
    plans.keep(mask, options)


def _pairs(plans: SubPlans, stores: list[int], mask: int, effort: Effort) -> set[tuple[int, ...]]:
    """Two parts, each as one child or as the children of its own sub-plans."""
    parts = [1 << place for place in members(mask)] + stores
    known = set(parts)
    nodes: set[tuple[int, ...]] = set()
    for part in parts:
        other = mask ^ part
        if other in known and part < other:
            for left in _forms(plans, part, effort):
                for right in _forms(plans, other, effort):
                    nodes.add(tuple(sorted(left + right)))
    return nodes


def _collections(plans: SubPlans, stores: list[int], mask: int, effort: Effort) -> list[Option]:
    """From the flat mjoin of a set, add one disjoint store after another, keeping the most promising collections.

    What a store would gain is known from adding it to the flat node alone; the sum of gains says which collections are
    priced at all.
    """
    flat = tuple(1 << place for place in members(mask))
    found = _priced(plans, mask, {flat}, within=False)
    base = found[0]
    nodes = {_with_store(flat, store) for store in stores}
    single = {option[3]: option for option in _priced(plans, mask, nodes, within=False)}
    alone = [(store, single[_with_store(flat, store)]) for store in stores]
    gains = [(store, base[0] - option[0], option[1] - base[1]) for store, option in alone]
    found += single.values()
    level = [(option, place) for place, (_, option) in enumerate(alone)]
    _, memory_room = plans.rooms(mask)
    for _ in range(effort.stores - 1):
        promised = [
            (option[0] - gain, option[1] + memory, _with_store(option[3], store), place)
            for option, last in _most_promising(plans, mask, level, effort)
            for place, (store, gain, memory) in enumerate(gains[last + 1 :], last + 1)
            if _is_free(option[3], store) and option[1] + memory <= memory_room
        ]
        if not promised:
            break
        chosen = {node: place for _, _, node, place in sorted(promised)[: effort.priced]}
        # Half by CPU alone, half by what the saving costs in memory.
        by_memory = sorted(
            promised, key=lambda entry: (base[0] - entry[0]) / max(entry[1] - base[1], 1e-30), reverse=True
        )
        chosen.update({node: place for _, _, node, place in by_memory[: effort.priced]})
        priced = _priced(plans, mask, set(chosen), within=False)
        found += priced
        level = [(option, chosen[option[3]]) for option in priced]
    cpu_room, memory_room = plans.rooms(mask)
    return [option for option in found if option[0] <= cpu_room and option[1] <= memory_room]


def _most_promising(
    plans: SubPlans, mask: int, level: list[tuple[Option, int]], effort: Effort
) -> list[tuple[Option, int]]:
    """Collections to extend: those within memory with the least CPU, and those that come nearest to both budgets."""
    cpu_room, memory_room = plans.rooms(mask)
    fitting = [entry for entry in level if entry[0][1] <= memory_room]
    by_cpu = sorted(fitting, key=lambda entry: entry[0][:2])[: effort.extended]
    scale = memory_room if isfinite(memory_room) and memory_room > 0 else 1.0
    room = cpu_room if isfinite(cpu_room) and cpu_room > 0 else 1.0
    by_both = sorted(fitting, key=lambda entry: entry[0][0] / room + entry[0][1] / scale)[: effort.extended]
    return list({entry[1:] + (entry[0][3],): entry for entry in by_cpu + by_both}.values())


def _with_store(children: tuple[int, ...], store: int) -> tuple[int, ...]:
    return tuple(sorted((*(child for child in children if not child & store), store)))


def _is_free(children: tuple[int, ...], store: int) -> bool:
    """Whether all inputs of a store are still single children."""
    single = sum(child for child in children if not child & (child - 1))
    return store & single == store


def _forms(plans: SubPlans, mask: int, effort: Effort) -> list[tuple[int, ...]]:
    """A set as one child of a node, or as the children of its own sub-plans."""
    front = plans.fronts[mask]
    if mask.bit_count() == 1:
        return [(mask,)]
    step = max(1, len(front) // effort.absorbed)
    forms = [(mask,), *(plan[2] for plan in front[::step][: effort.absorbed])]
    return list(dict.fromkeys(forms))


def _priced(plans: SubPlans, mask: int, nodes: set[tuple[int, ...]], within: bool = True) -> list[Option]:
    """Options with their least CPU and memory, the nodes of equal arity priced together; `within`: only those that
    fit."""
    fixed_cpu, fixed_memory = plans.fixed(mask)
    cpu_room, memory_room = plans.rooms(mask)
    making = plans.model.costs.join * plans.model.rate(mask)
    by_arity: dict[int, list[tuple[int, ...]]] = {}
    for node in sorted(nodes):
        by_arity.setdefault(len(node), []).append(node)
    options = []
    for same in by_arity.values():
        for node, work in zip(same, plans.model.node_works(same).tolist(), strict=True):
            partial = work - making
            cpu = fixed_cpu + partial + sum(plans.fronts[child][0][0] for child in node)
            memory = fixed_memory + sum(plans.fronts[child][-1][1] for child in node)
            if not within or (cpu <= cpu_room and memory <= memory_room):
                options.append((cpu, memory, partial, node))
    return options
