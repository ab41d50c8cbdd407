"""A worker process of the demo: `holdfast worker` that also ends when its standard input does.

The demo holds the other end of that pipe, so that no worker outlives the demo, even if the demo itself is killed.
"""

from __future__ import annotations

import os
import sys
import threading

from holdfast.cli import main


def _end_with_standard_input() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_standard_input, name="demo-lifeline", daemon=True).start()
    main(["worker", *sys.argv[1:]])
