"""Settings: one frozen object, read once at start, every value checked, every unknown name refused.

Order, later wins: ``config/default.toml`` (complete, so nothing here has a default of its own),
``$FABRIC_HOME/config.toml``, the file named by ``--config`` or ``FABRIC_CONFIG``, the environment, the command line.
"""

from __future__ import annotations

from taskfabric.home import fabric_home
from taskfabric.settings.reading import TYPES, VARIABLES, load
from taskfabric.settings.shape import A2A, Settings, Webhook

__all__ = ["A2A", "TYPES", "VARIABLES", "Settings", "Webhook", "fabric_home", "load"]
