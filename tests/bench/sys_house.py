"""Our fabric as its callers have it: through the services in process, and over HTTP to a server process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from taskfabric.domain.errors import FabricError
from taskfabric.domain.task import Claimed
from taskfabric.ports.fabric import Fabric as Access
from taskfabric.remote.fabric import RemoteFabric
from taskfabric.services import verbs
from taskfabric.services.args import FenceArg
from tests.bench.ground import free_port
from tests.bench.ruler import Slot, tree_cpu
from tests.bench.sys_fabric import NOTE, Fabric, Woken

ROOT = Path(__file__).parents[2]


class Services(Fabric):
    """The hallway in the worker's own process: policy and rules on top of the port."""

    def __init__(self, batch: int = 1) -> None:
        super().__init__(batch)
        self.name = "services" if batch == 1 else "services_tens"

    def work(self, slot: Slot) -> None:
        house = self.house()
        fabric = house.hallway.for_caller(self._caller(house, self.agent_token))
        woken = Woken(house.signal)
        slot.ready()
        while not slot.stopping:
            woken.before_look()
            if not _one_round(fabric, slot, self.batch):
                woken.wait()


class Http(Fabric):
    """A server process of the product, and workers that have a URL and a token."""

    first_wait = 30.0

    def __init__(self, batch: int = 1) -> None:
        super().__init__(batch)
        self.name = "http" if batch == 1 else "http_tens"
        self.server: subprocess.Popen[bytes] | None = None

    def setup(self) -> None:
        super().setup()
        self.serve()

    def serve(self) -> None:
        """The server answers under ``url``."""
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        env = {name: value for name, value in os.environ.items() if not name.startswith("FABRIC_")}
        env |= {
            "FABRIC_HOME": self.home.name,
            "FABRIC_BOARD": self.dsn_url,
            "FABRIC_SERVER_PORT": str(port),
            "PYTHONPATH": os.pathsep.join((str(ROOT / "lib"), str(ROOT))),
        }
        argv = [sys.executable, "-m", "taskfabric.surfaces.app"]
        with Path(self.home.name, "server.log").open("ab") as log:
            self.server = subprocess.Popen(argv, env=env, stdout=log, stderr=log, cwd=self.home.name)
        end = time.monotonic() + 30
        while True:
            try:
                urllib.request.urlopen(self.url + "/healthz", timeout=2).close()
            except OSError:
                if time.monotonic() > end or self.server.poll() is not None:
                    raise RuntimeError(Path(self.home.name, "server.log").read_text()[-2000:]) from None
                time.sleep(0.05)
            else:
                return

    @property
    def dsn_url(self) -> str:
        from tests.bench.databases import url

        return url(self.dsn)

    def beside(self) -> float:
        return tree_cpu(self.server.pid) if self.server else 0.0

    def close(self) -> None:
        if self.server is not None:
            self.server.terminate()
            self.server.wait(10)
            self.server = None

    def open_client(self) -> None:
        super().open_client()
        if self.server is not None:
            self.remote = RemoteFabric(self.url, self.human_token)

    def submit(self, submitted: float) -> None:
        self.remote.call(verbs.Submit(title="a task", reference=repr(submitted)))

    def work(self, slot: Slot) -> None:
        fabric = RemoteFabric(self.url, self.agent_token, instance=f"bench-{os.getpid()}")
        slot.ready()
        while not slot.stopping:
            if not _one_round(fabric, slot, self.batch):
                fabric.call(verbs.Wait(timeout=1.0))


class HttpPairs(Http):
    """As ``Http``, but a worker finishes one task and claims the next in one request, a batch of two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "http_pairs"

    def work(self, slot: Slot) -> None:
        fabric = RemoteFabric(self.url, self.agent_token, instance=f"bench-{os.getpid()}")
        slot.ready()
        got: list[Claimed] = fabric.call(verbs.Claim())
        while not slot.stopping:
            if not got:
                fabric.call(verbs.Wait(timeout=1.0))
                got = fabric.call(verbs.Claim())
                continue
            slot.taken(got[0].task.reference)
            end = verbs.Done(fence=FenceArg.of(got[0].fence), note=NOTE)
            finished, claimed = fabric.call_many((end, verbs.Claim()))
            if isinstance(finished, FabricError):
                raise finished
            if isinstance(claimed, FabricError):
                raise claimed
            got = claimed
            slot.done()


def _one_round(fabric: Access, slot: Slot, batch: int) -> bool:
    """Claim and finish once; whether there was anything."""
    got = fabric.call(verbs.Claim(limit=batch))
    if not got:
        return False
    slot.taken(got[0].task.reference)
    if batch == 1:
        fabric.call(verbs.Done(fence=FenceArg.of(got[0].fence), note=NOTE))
    else:
        ends = tuple(verbs.End(fence=FenceArg.of(claimed.fence), note=NOTE) for claimed in got)
        for answer in fabric.call(verbs.DoneMany(ends=ends)):
            if isinstance(answer, FabricError):
                raise answer
    slot.done(len(got))
    return True
