"""BPMN files: what is understood, what is refused with its id and line, and what is never opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from eddyline.connectors.bpmn import read_net
from eddyline.errors import PlanProblem, Unsupported, UserError
from eddyline.plan.patterns.workflow import constraints_of

HEAD = '<?xml version="1.0"?>\n<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL">\n'


def document(tmp_path: Path, body: str, more: str = "") -> str:
    path = tmp_path / "order.bpmn"
    path.write_text(f'{HEAD}<bpmn:process id="p" name="Orders">\n{body}\n</bpmn:process>{more}</bpmn:definitions>')
    return str(path)


def node(tag: str, name: str, inside: str = "") -> str:
    return f'<bpmn:{tag} id="{name}" name="{name}">{inside}</bpmn:{tag}>'


def flows(*pairs: str) -> str:
    found = [pair.split(">") for pair in pairs]
    return "\n".join(
        f'<bpmn:sequenceFlow id="f{n}" sourceRef="{a}" targetRef="{b}"/>' for n, (a, b) in enumerate(found)
    )


def rules(path: str, **options: str) -> set[str]:
    return {str(rule) for rule in constraints_of(read_net(path, options))}


def test_choice_and_parallel_branches(tmp_path: Path) -> None:
    nodes = "".join(
        [
            node("startEvent", "s"),
            node("userTask", "A"),
            node("exclusiveGateway", "x"),
            node("task", "B"),
            node("task", "C"),
            node("exclusiveGateway", "y"),
            node("parallelGateway", "p1"),
            node("task", "D"),
            node("task", "E"),
            node("parallelGateway", "p2"),
            node("endEvent", "e"),
        ]
    )
    links = flows("s>A", "A>x", "x>B", "x>C", "B>y", "C>y", "y>p1", "p1>D", "p1>E", "D>p2", "E>p2", "p2>e")
    found = rules(document(tmp_path, nodes + links))
    assert {"BEGIN(A)", "EXCLUSIVE(B, C)", "PRIOR(B, D)", "REQUIRE(D, E)", "ONCE(D)"} <= found
    assert not {"PRIOR(D, E)", "PRIOR(E, D)"} & found


def test_a_loop_marker_repeats_a_task_and_a_sub_process_has_its_own_end(tmp_path: Path) -> None:
    inner = (
        node("startEvent", "s2")
        + node("task", "B", "<bpmn:standardLoopCharacteristics/>")
        + node("endEvent", "e2")
        + flows("s2>B", "B>e2")
    )
    body = (
        node("startEvent", "s")
        + node("subProcess", "sub", inner)
        + node("task", "C")
        + node("endEvent", "e")
        + flows("s>sub", "sub>C", "C>e")
    )
    found = rules(document(tmp_path, body))
    assert {"END(C)", "REQUIRE(C, B)"} <= found and "ONCE(B)" not in found


def test_instances_at_once_interleave(tmp_path: Path) -> None:
    several = '<bpmn:multiInstanceLoopCharacteristics isSequential="false"/>'
    inner = (
        several
        + node("startEvent", "s2")
        + node("task", "A")
        + node("task", "B")
        + node("endEvent", "e2")
        + flows("s2>A", "A>B", "B>e2")
    )
    body = node("startEvent", "s") + node("subProcess", "sub", inner) + node("endEvent", "e") + flows("s>sub", "sub>e")
    found = rules(document(tmp_path, body))
    assert "REQUIRE(A, B)" in found and not {"PRIOR(A, B)", "ONCE(A)"} & found


@pytest.mark.parametrize("sequential", ["true", "false"])
def test_several_instances_may_be_none(tmp_path: Path, sequential: str) -> None:
    marker = f'<bpmn:multiInstanceLoopCharacteristics isSequential="{sequential}"/>'
    inner = marker + node("startEvent", "s2") + node("task", "B") + node("endEvent", "e2") + flows("s2>B", "B>e2")
    for several in (node("task", "B", marker), node("subProcess", "sub", inner)):
        name = "B" if several.startswith("<bpmn:task") else "sub"
        body = node("startEvent", "s") + node("task", "A") + several + node("task", "C") + node("endEvent", "e")
        found = rules(document(tmp_path, body + flows("s>A", f"A>{name}", f"{name}>C", "C>e")))
        assert {"REQUIRE(B, A)", "REQUIRE(B, C)", "REQUIRE(A, C)", "PRIOR(A, B)"} <= found
        assert not {"REQUIRE(A, B)", "REQUIRE(C, B)", "ONCE(B)"} & found


def test_an_event_based_gateway_is_a_choice(tmp_path: Path) -> None:
    body = (
        node("startEvent", "s") + node("eventBasedGateway", "x") + node("receiveTask", "A") + node("receiveTask", "B")
    )
    body += node("task", "C") + node("endEvent", "e") + flows("s>x", "x>A", "x>B", "A>C", "B>C", "C>e")
    assert {"EXCLUSIVE(A, B)", "BEGIN(A, B)", "END(C)"} <= rules(document(tmp_path, body))


def test_cycles_and_tasks_that_are_never_reached(tmp_path: Path) -> None:
    body = (
        node("startEvent", "s")
        + node("exclusiveGateway", "x")
        + node("task", "A")
        + node("exclusiveGateway", "y")
        + node("task", "B")
    )
    body += node("endEvent", "e") + node("task", "U") + node("task", "V")
    found = rules(document(tmp_path, body + flows("s>x", "x>A", "A>y", "y>x", "y>B", "B>e", "U>V", "V>U")))
    assert found == {"END(B)", "REQUIRE(A, B)", "REQUIRE(B, A)"}


def test_a_loop_that_makes_tokens_is_refused(tmp_path: Path) -> None:
    body = (
        node("startEvent", "s")
        + node("exclusiveGateway", "x")
        + node("parallelGateway", "g")
        + node("parallelGateway", "j")
    )
    body += node("task", "U") + node("endEvent", "e") + flows("s>x", "x>g", "g>x", "g>j", "U>U", "U>j", "x>e")
    with pytest.raises(PlanProblem, match="too many states"):
        rules(document(tmp_path, body))


def test_terminate_ends_all_branches(tmp_path: Path) -> None:
    body = (
        node("startEvent", "s")
        + node("parallelGateway", "p1")
        + node("task", "A")
        + node("task", "B")
        + node("endEvent", "e")
    )
    body += node("endEvent", "t", "<bpmn:terminateEventDefinition/>") + flows("s>p1", "p1>A", "p1>B", "A>t", "B>e")
    assert "REQUIRE(A, B)" not in rules(document(tmp_path, body))


def test_types_are_names_or_ids_and_processes_are_chosen(tmp_path: Path) -> None:
    body = '<bpmn:startEvent id="s"/><bpmn:task id="t1" name="Send  quote"/><bpmn:endEvent id="e"/>' + flows(
        "s>t1", "t1>e"
    )
    path = document(tmp_path, body, '<bpmn:process id="q"/>')
    assert "ONCE('Send quote')" not in rules(path, process="Orders") and "BEGIN('Send quote')" in rules(
        path, process="Orders"
    )
    assert "BEGIN(t1)" in rules(path, process="p", types="id")
    with pytest.raises(UserError, match="several processes"):
        read_net(path)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (node("inclusiveGateway", "g7"), "inclusiveGateway g7 in line 4"),
        (node("task", "A") + node("boundaryEvent", "b1"), "boundaryEvent b1 in line 4"),
        (node("endEvent", "e", '<bpmn:errorEventDefinition id="x"/>'), "errorEventDefinition"),
        (node("callActivity", "c"), "callActivity c in line 4"),
    ],
)
def test_other_elements_are_refused_by_id_and_line(tmp_path: Path, body: str, words: str) -> None:
    with pytest.raises(Unsupported) as problem:
        read_net(document(tmp_path, body))
    assert words in str(problem.value)


def test_no_entity_is_expanded_and_no_file_is_included(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden")
    laughs = '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
    for doctype in (
        laughs,
        f'<!DOCTYPE d [<!ENTITY x SYSTEM "file://{secret}">]>',
        '<!DOCTYPE d SYSTEM "http://example.org/x.dtd">',
    ):
        path = tmp_path / "bad.bpmn"
        path.write_text(
            f'<?xml version="1.0"?>{doctype}<definitions><process id="p"><task id="t" name="&b;"/></process></definitions>'
        )
        with pytest.raises(UserError, match="document type") as problem:
            read_net(str(path))
        assert "hidden" not in str(problem.value)


def test_two_elements_with_one_id_are_refused(tmp_path: Path) -> None:
    body = node("startEvent", "s") + node("task", "A") + node("task", "A")
    with pytest.raises(UserError, match="task A in line 4 has the id of task A in line 4"):
        read_net(document(tmp_path, body))


def test_a_mark_of_the_byte_order_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "tree.json"
    path.write_bytes(b'\xef\xbb\xbf{"sequence": ["A", "B"]}')
    assert "BEGIN(A)" in rules(str(path))


@pytest.mark.parametrize(
    "text",
    ["", "<definitions>", "<html/>", '{"sequence": 3}', '{"sequence": ["A", {"other": []}]}', "{", "[" * 100_000],
)
def test_what_is_no_workflow_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(UserError):
        read_net(str(path))
