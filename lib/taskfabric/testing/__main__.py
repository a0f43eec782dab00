"""``python -m taskfabric.testing FOLDER``: wait for the end of the folder's owner, then remove its server."""

from __future__ import annotations

import sys
from pathlib import Path

from taskfabric.testing.ownership import reap

if __name__ == "__main__":
    reap(Path(sys.argv[1]))
