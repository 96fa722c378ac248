"""`python -m eddyline …`: the command line, where the script is not on the path."""

import sys

from eddyline.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
