"""`eddyline generate auction|sensors|clique|orders|nexmark`: synthetic streams as parquet files.

Answer   Writes the files and prints the statements that read them, ready to paste into a job file.
State    None.
Limits   Files of an earlier call in the same folder are replaced.
"""

from __future__ import annotations

import argparse
import sys

from eddyline.cli.generate_options import KINDS
from eddyline.connectors.generators import generate
from eddyline.connectors.generators.draws import GeneratorShape


def run(args: argparse.Namespace) -> int:
    function = getattr(generate, args.kind)
    shape = GeneratorShape(
        args.rate, args.seconds, args.seed, args.skew, args.disorder, args.late, args.burst, args.files
    )
    done = function(args.out, shape, **{name: getattr(args, name) for name in KINDS[args.kind][1]})
    for name, count in done.rows.items():
        print(f"{name}: {count:,} rows in {done.paths[name]}", file=sys.stderr)
    print("\n".join(done.statements))
    return 0
