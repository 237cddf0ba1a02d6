"""The stand-in's board: TVM's RPC server with the device `ext_dev`."""

from __future__ import annotations

import argparse
import importlib
import threading

from tvm import rpc


def prepare() -> None:
    """In the server's process."""
    importlib.import_module("vta.testing.simulator")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("host", "tracker", "key"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("port", "port-end"):
        parser.add_argument(f"--{name}", required=True, type=int)
    asked = parser.parse_args()
    tracker, port = asked.tracker.rsplit(":", 1)
    server = rpc.Server(
        asked.host,
        asked.port,
        asked.port_end,
        key=asked.key,
        tracker_addr=(tracker, int(port)),
        server_init_callback=prepare,
    )
    threading.Event().wait()
