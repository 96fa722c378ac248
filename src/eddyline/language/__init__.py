"""From a text to bound queries: parsing, names, types."""

from eddyline.language.binding.bind import bind_query, bind_settings, bind_sink, bind_stream, bind_table
from eddyline.language.catalog import Catalog, DeclaredSink
from eddyline.language.job import Dropped, ExplainRequest, Job, bind_script
from eddyline.language.parse import parse_body, parse_expression, parse_script, parse_select
from eddyline.language.render import render, render_expression
from eddyline.language.text.windows import parse_span

__all__ = [
    "Catalog",
    "Dropped",
    "ExplainRequest",
    "Job",
    "DeclaredSink",
    "bind_query",
    "bind_script",
    "bind_settings",
    "bind_sink",
    "bind_stream",
    "bind_table",
    "parse_body",
    "parse_expression",
    "parse_script",
    "parse_select",
    "parse_span",
    "render",
    "render_expression",
]
