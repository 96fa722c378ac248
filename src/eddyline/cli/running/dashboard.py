"""`eddyline dashboard --job DIR`: a page about a job that runs in another process, or that has ended.

Answer   DIR is the checkpoint folder of the job: the job writes its reports there. One line is printed: the address
         with its token.
State    None: pages read the files of the folder.
Limits   After a restart of the job on the same folder, pages show the new run when it has written its first report.
"""

from __future__ import annotations

import argparse
import signal
from types import FrameType

from eddyline.dashboard.server import check_installed, read_address, serve
from eddyline.runtime.control.control import ControlFolder
from eddyline.session import Session


def check_dashboard(args: argparse.Namespace) -> None:
    """Refuse an address that cannot be read, before a job runs."""
    if args.dashboard is not None:
        read_address(args.dashboard)
        check_installed()


def serve_dashboard(session: Session, args: argparse.Namespace) -> None:
    """Serve the page of a session if `--dashboard` is given."""
    if args.dashboard is not None:
        host, port = read_address(args.dashboard)
        options = {"token_file": args.dashboard_token_file, "readonly": args.dashboard_readonly}
        print(f"dashboard: {session.dashboard(port, host=host, **options)}", flush=True)


def run(args: argparse.Namespace) -> int:
    # Raises an error if the folder is not that of a job.
    ControlFolder(args.job).catalog()
    host, port = read_address(args.port or "0")
    server = serve(args.job, host, port, token_file=args.dashboard_token_file, readonly=args.dashboard_readonly)
    server.start()
    print(server.line, flush=True)

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        server.stop()
    return 0
