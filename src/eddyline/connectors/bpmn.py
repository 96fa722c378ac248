"""Workflows from files: BPMN 2.0 XML, or a JSON tree.

Answer   `read_net` gives the net of a process. Sequence flows are places. A task takes a token from one of its incoming
         flows and puts one on each outgoing flow. Gateways split and join. A sub-process has a scope of its own and ends
         when the scope has no token.
State    None.
Limits   Tasks, start, end and terminate events, exclusive, event-based and parallel gateways, sub-processes, loop and
         multi-instance markers. All other elements are refused with their id and line. XML with a document type is
         refused, so that no entity is expanded and no file is included.
"""

from __future__ import annotations

import codecs
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn
from xml.parsers import expat

from eddyline.errors import Unsupported, UserError
from eddyline.model.patterns.workflow import Net

_TASKS = {"task", "userTask", "serviceTask", "scriptTask", "manualTask", "sendTask", "receiveTask", "businessRuleTask"}
_CHOICES = {"exclusiveGateway", "eventBasedGateway"}
_NODES = _TASKS | _CHOICES | {"startEvent", "endEvent", "parallelGateway", "subProcess"}
#: Elements of a process that do not change the order of its tasks.
_SILENT = {
    "documentation", "extensionElements", "textAnnotation", "association", "dataObject", "dataObjectReference", "dataStoreReference",
    "laneSet", "ioSpecification", "property", "incoming", "outgoing", "dataInputAssociation", "dataOutputAssociation", "resourceRole",
    "potentialOwner", "performer", "humanPerformer", "auditing", "monitoring", "script", "group", "category",
}  # fmt: skip
_LOOPS = {"standardLoopCharacteristics", "multiInstanceLoopCharacteristics"}
#: Triggers that do not change what a start or an end does.
_TRIGGERS = {"messageEventDefinition", "timerEventDefinition", "signalEventDefinition", "conditionalEventDefinition"}
#: Elements inside of events that are read, beside silent ones.
_CHILDREN = {
    "startEvent": _TRIGGERS,
    "endEvent": {"messageEventDefinition", "signalEventDefinition", "terminateEventDefinition"},
}
#: How deeply sub-processes may be nested.
_DEEPEST = 50


@dataclass
class _Element:
    tag: str
    attributes: Mapping[str, str]
    line: int
    children: list[_Element] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.attributes.get("id", "")

    def __str__(self) -> str:
        return f"{self.tag} {self.id or '(without id)'} in line {self.line}"


def read_net(path: str, options: Mapping[str, str] | None = None) -> Net:
    """The net of the workflow in a file; options are `process` and `types` ('name' or 'id')."""
    options = options or {}
    types = options.get("types", "name")
    if types not in ("name", "id"):
        raise UserError(f"types does not take {types!r}", hint="'name' or 'id'")
    try:
        with open(path, "rb") as file:
            data = file.read().removeprefix(codecs.BOM_UTF8)
    except OSError as problem:
        raise UserError(f"{path} cannot be read", detail=problem.strerror or str(problem)) from problem
    if data.lstrip()[:1] in (b"{", b"[", b'"'):
        return _tree_net(path, data)
    root = _parsed(path, data)
    processes = [e for e in root.children if e.tag == "process"]
    wish = options.get("process")
    if wish is not None:
        processes = [e for e in processes if wish in (e.id, e.attributes.get("name"))]
    if len(processes) != 1:
        names = ", ".join(e.id for e in root.children if e.tag == "process")
        what = "has no process" if not processes else "has several processes"
        message = f"{path} {what}{f' {wish}' if wish else ''}"
        raise UserError(message, detail=f"it has {names or 'none'}", hint="WITH (process = '…')")
    net = Net()
    net.start = _Process(net, types, path).add(processes[0], 0, 0)
    return net


# -- XML


def _parsed(path: str, data: bytes) -> _Element:
    """The elements of a document; names are without prefixes."""
    parser = expat.ParserCreate()
    root = _Element("", {}, 0)
    stack = [root]

    def begin(tag: str, attributes: dict[str, str]) -> None:
        element = _Element(tag.rpartition(":")[2], attributes, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def refuse(*_: object) -> NoReturn:
        detail, hint = f"line {parser.CurrentLineNumber}", "workflows are read without entities"
        raise UserError(f"{path} declares a document type", detail=detail, hint=hint)

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda tag: stack.pop()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as problem:
        raise UserError(f"{path} is neither BPMN nor JSON", detail=str(problem)) from problem
    found = root.children[0]
    if found.tag != "definitions":
        detail, hint = f"its first element is {found.tag}", "it begins with <definitions>"
        raise UserError(f"{path} is not BPMN", detail=detail, hint=hint)
    return found


class _Process:
    """Converts the elements of one file to steps of a net."""

    def __init__(self, net: Net, types: str, path: str) -> None:
        self.net, self.types, self.path = net, types, path

    def add(self, process: _Element, scope: int, depth: int) -> tuple[int, ...]:
        """Add a process or sub-process to a scope; returns the places that hold tokens at its beginning."""
        if depth > _DEEPEST:
            raise UserError(f"{self.path} nests sub-processes too deeply", detail=str(process))
        net = self.net
        nodes: dict[str, _Element] = {}
        # The places of the flows that lead to a node, and from it.
        incoming, outgoing = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        flows = []
        for child in process.children:
            if child.tag == "sequenceFlow":
                flows.append(child)
            elif child.tag in _NODES:
                if child.id in nodes:
                    message = f"{self.path}: {child} has the id of {nodes[child.id]}"
                    raise UserError(message, hint="every element has an id of its own")
                nodes[child.id] = child
            elif child.tag not in _SILENT and child.tag not in _LOOPS:
                self._refuse(child)
        for flow in flows:
            source, target = flow.attributes.get("sourceRef", ""), flow.attributes.get("targetRef", "")
            for end in (source, target):
                if end not in nodes:
                    raise UserError(f"{self.path}: {flow} leads to or from {end or 'nothing'}, which is not there")
            if any(c.tag == "conditionExpression" for c in flow.children) and nodes[source].tag not in _CHOICES:
                self._refuse(flow, "a condition on a flow that does not leave an exclusive gateway")
            place = net.place(scope)
            outgoing[source].append(place)
            incoming[target].append(place)
        starts: list[int] = []
        for node in nodes.values():
            entries = incoming[node.id]
            if not entries:
                place = net.place(scope)
                entries = [place]
                starts.append(place)
            self._node(node, entries, outgoing[node.id], scope, depth)
        if not starts:
            raise UserError(f"{self.path}: {process} does not begin anywhere")
        events = [e for e in nodes.values() if e.tag == "startEvent"]
        if len(events) > 1:
            raise Unsupported(f"{self.path}: {events[1]} is a second start", hint="one start event per process")
        return tuple(starts)

    def _node(self, node: _Element, entries: list[int], exits: list[int], scope: int, depth: int) -> None:
        net = self.net
        self._check(node)
        if node.tag == "parallelGateway":
            net.step(None, entries, exits)
        elif node.tag in _CHOICES and exits:
            for entry in entries:
                for out in exits:
                    net.step(None, (entry,), (out,))
        elif node.tag == "endEvent" and any(c.tag == "terminateEventDefinition" for c in node.children):
            for entry in entries:
                net.step(None, (entry,), (), clears=scope)
        elif node.tag in _TASKS or node.tag == "subProcess":
            place = net.place(scope)
            for entry in entries:
                net.step(None, (entry,), (place,))
            self._activity(node, place, exits, scope, depth)
        else:
            for entry in entries:
                net.step(None, (entry,), exits)

    def _activity(self, node: _Element, begin: int, exits: list[int], scope: int, depth: int) -> None:
        net = self.net
        loop = next((c for c in node.children if c.tag in _LOOPS), None)
        is_multiple = loop is not None and loop.tag.startswith("multi")
        at_once = is_multiple and loop is not None and loop.attributes.get("isSequential", "false") != "true"
        done = net.place(scope)
        if node.tag == "subProcess":
            begins = [begin]
            if at_once:
                # With two instances at a time every order is possible that events of several instances can have.
                begins = [net.place(scope), net.place(scope)]
                ends = [net.place(scope), net.place(scope)]
                net.step(None, (begin,), begins)
                net.step(None, ends, (done,))
            else:
                ends = [done]
            for first, last in zip(begins, ends, strict=True):
                inner = net.scope(scope)
                running = net.place(scope)
                starts = self.add(node, inner, depth + 1)
                net.step(None, (first,), (running, *starts))
                net.step(None, (running,), (last,), waits_for=inner)
                if loop is not None:
                    net.step(None, (last,), (first,))
        else:
            net.step(self._label(node), (begin,), (done,))
        if loop is not None:
            net.step(None, (done,), (begin,))
            # A collection may be empty: then there is no instance.
            if is_multiple or loop.attributes.get("testBefore", "false") == "true":
                net.step(None, (begin,), (done,))
        net.step(None, (done,), exits)

    def _label(self, node: _Element) -> str:
        name = " ".join(node.attributes.get("name", "").split())
        return node.id if self.types == "id" or not name else name

    def _check(self, node: _Element) -> None:
        known = _SILENT | _CHILDREN.get(node.tag, _LOOPS if node.tag in _TASKS else set())
        for child in node.children:
            # `add` checks the children of a sub-process.
            if child.tag not in known and node.tag != "subProcess":
                self._refuse(child, f"{child.tag} of {node}")
        if node.attributes.get("triggeredByEvent") == "true":
            self._refuse(node, "a sub-process that an event triggers")

    def _refuse(self, element: _Element, what: str = "") -> NoReturn:
        raise Unsupported(
            f"{self.path}: {what or element} is not supported",
            detail=str(element) if what else "",
            hint="tasks, start, end and terminate events, exclusive, event-based and parallel gateways, sub-processes, loops",
        )


# -- JSON


def _tree_net(path: str, data: bytes) -> Net:
    try:
        tree = json.loads(data)
        net = Net()
        begin, end = net.place(0), net.place(0)
        _branch(net, tree, begin, end, path)
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path} is not a JSON workflow", detail=str(problem)) from problem
    net.step(None, (end,), ())
    net.start = (begin,)
    return net


def _branch(net: Net, tree: Any, begin: int, end: int, path: str) -> None:
    if tree is None or isinstance(tree, str):
        net.step(tree, (begin,), (end,))
        return
    if not isinstance(tree, dict) or len(tree) != 1:
        message = f"{path}: a part of the workflow is {json.dumps(tree)[:80]}"
        raise UserError(message, hint="a name, null, sequence, choice, parallel or loop")
    ((kind, body),) = tree.items()
    if kind == "loop":
        first, last = net.place(0), net.place(0)
        net.step(None, (begin,), (first,))
        net.step(None, (last,), (first,))
        net.step(None, (last,), (end,))
        _branch(net, body, first, last, path)
        return
    if kind not in ("sequence", "choice", "parallel") or not isinstance(body, list) or not body:
        hint = '{"sequence": ["A", {"choice": […]}, {"parallel": […]}, {"loop": …}]}'
        raise UserError(f"{path}: {kind} is no part of a workflow", hint=hint)
    if kind == "sequence":
        for part in body[:-1]:
            middle = net.place(0)
            _branch(net, part, begin, middle, path)
            begin = middle
        _branch(net, body[-1], begin, end, path)
    elif kind == "choice":
        for part in body:
            first, last = net.place(0), net.place(0)
            net.step(None, (begin,), (first,))
            net.step(None, (last,), (end,))
            _branch(net, part, first, last, path)
    else:
        firsts, lasts = [net.place(0) for _ in body], [net.place(0) for _ in body]
        net.step(None, (begin,), firsts)
        net.step(None, lasts, (end,))
        for part, first, last in zip(body, firsts, lasts, strict=True):
            _branch(net, part, first, last, path)
