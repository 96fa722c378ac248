"""A workflow as a net: places that hold tokens, and steps that move them.

Answer   `Net` is what BPMN files and JSON trees become and what `plan/patterns/workflow.py` plays. A step takes one
         token from each of its places and gives one to each of others; a step with a label is a task, which is an event
         of its type. Places lie in scopes, one per running sub-process: a step may wait until a scope is empty, and may
         clear one.
Limits   Plain data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class WorkflowStep:
    label: str | None
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    #: The scope that must have no token; -1: none.
    waits_for: int = -1
    #: The scope whose tokens go; -1: none.
    clears: int = -1


@dataclass
class Net:
    """`scope_of[place]` is a place's scope, `parent[scope]` the scope around it; scope 0 is the whole process."""

    steps: list[WorkflowStep] = field(default_factory=list)
    scope_of: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=lambda: [-1])
    start: tuple[int, ...] = ()

    def place(self, scope: int) -> int:
        self.scope_of.append(scope)
        return len(self.scope_of) - 1

    def scope(self, parent: int) -> int:
        self.parent.append(parent)
        return len(self.parent) - 1

    def step(
        self, label: str | None, takes: Sequence[int], gives: Sequence[int], waits_for: int = -1, clears: int = -1
    ) -> None:
        self.steps.append(WorkflowStep(label, tuple(takes), tuple(gives), waits_for, clears))

    def within(self, scope: int) -> frozenset[int]:
        """The places of a scope and of those inside it."""
        scopes = {scope}
        for number, parent in enumerate(self.parent):
            if parent in scopes:
                scopes.add(number)
        return frozenset(place for place, at in enumerate(self.scope_of) if at in scopes)
