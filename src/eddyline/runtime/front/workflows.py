"""Constraints from a workflow's file: read by `connectors/bpmn.py`, reasoned out by `plan/patterns/workflow.py`."""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.model.patterns.constraint import Rule


def workflow_rules(path: str, options: Mapping[str, str]) -> list[Rule]:
    """The rules that every complete run of the workflow keeps."""
    # Loaded where a job names a workflow: checking other jobs does without.
    from eddyline.connectors.bpmn import read_net
    from eddyline.plan.patterns.workflow import constraints_of

    return constraints_of(read_net(path, options))
