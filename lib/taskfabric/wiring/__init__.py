"""Putting the fabric together, once, by calling constructors: this file is the whole of it.

ground = open_cluster(home, settings)            # a migrated database: the embedded one, or yours
house = build(settings, ground.dsn, home=home)
token = first_human(house, "alice")              # None when there was a human before
...
house.close()
"""

from __future__ import annotations

from taskfabric.db.backup import Restored
from taskfabric.db.embedded import Cluster, ClusterStatus
from taskfabric.wiring.ground import (
    Ground,
    backup,
    cluster_at,
    cluster_of,
    open_cluster,
    restore,
)
from taskfabric.wiring.house import (
    House,
    build,
)
from taskfabric.wiring.people import (
    SYSTEM,
    WORKER_TOKEN,
    app_token,
    check_guarded,
    ensure_queues,
    first_administrator,
    first_human,
    local_token,
    service_token,
    sign_in_link,
    sync_cards,
    worker_token,
)
from taskfabric.wiring.ports import (
    board_rules,
    fleet,
    foreign,
    inbox,
    kanboard,
    pushing,
    routes_text,
    rules,
    schedules_text,
    upkeep,
)

__all__ = [
    "SYSTEM",
    "WORKER_TOKEN",
    "Cluster",
    "ClusterStatus",
    "Ground",
    "House",
    "Restored",
    "app_token",
    "backup",
    "board_rules",
    "build",
    "check_guarded",
    "cluster_at",
    "cluster_of",
    "ensure_queues",
    "first_administrator",
    "first_human",
    "fleet",
    "foreign",
    "inbox",
    "kanboard",
    "local_token",
    "open_cluster",
    "pushing",
    "restore",
    "routes_text",
    "rules",
    "schedules_text",
    "service_token",
    "sign_in_link",
    "sync_cards",
    "upkeep",
    "worker_token",
]
