"""Constraints from a workflow's file: read by `connectors/bpmn.py`, reasoned out by `plan/workflow.py`."""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.connectors.bpmn import read_net
from eddyline.model.constraint import Rule
from eddyline.plan.workflow import constraints_of


def workflow_rules(path: str, options: Mapping[str, str]) -> list[Rule]:
    """The rules that every complete run of the workflow keeps."""
    return constraints_of(read_net(path, options))
