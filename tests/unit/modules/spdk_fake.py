"""A stand-in for an SPDK target: its JSON-RPC over a Unix socket, written from the RPC documentation.

It refuses what SPDK refuses: unknown methods and parameters, missing ones, names that do not exist, hosts and
namespaces that are there already. Every call that changes something is remembered in ``changed``.
"""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

INVALID = -32602
NO_METHOD = -32601

# method -> (required, optional) parameters, as the documentation lists them
PARAMETERS: dict[str, tuple[set[str], set[str]]] = {
    "bdev_get_bdevs": (set(), {"name", "timeout"}),
    "nvmf_get_transports": (set(), {"trtype", "tgt_name"}),
    "nvmf_get_subsystems": (set(), {"nqn", "tgt_name"}),
    "nvmf_subsystem_get_controllers": ({"nqn"}, {"tgt_name"}),
    "nvmf_create_transport": ({"trtype"}, {"tgt_name", "max_queue_depth", "max_io_qpairs_per_ctrlr"}),
    "nvmf_create_subsystem": (
        {"nqn"},
        {"tgt_name", "serial_number", "model_number", "max_namespaces", "allow_any_host", "ana_reporting",
         "min_cntlid", "max_cntlid"},
    ),
    "nvmf_delete_subsystem": ({"nqn"}, {"tgt_name"}),
    "nvmf_subsystem_add_listener": ({"nqn", "listen_address"}, {"tgt_name", "secure_channel", "ana_state"}),
    "nvmf_subsystem_remove_listener": ({"nqn", "listen_address"}, {"tgt_name"}),
    "nvmf_subsystem_add_ns": ({"nqn", "namespace"}, {"tgt_name"}),
    "nvmf_subsystem_remove_ns": ({"nqn", "nsid"}, {"tgt_name"}),
    "nvmf_subsystem_add_host": ({"nqn", "host"}, {"tgt_name", "psk", "dhchap_key", "dhchap_ctrlr_key"}),
    "nvmf_subsystem_remove_host": ({"nqn", "host"}, {"tgt_name", "timeout_ms"}),
    "nvmf_subsystem_set_keys": ({"nqn", "host"}, {"tgt_name", "dhchap_key", "dhchap_ctrlr_key"}),
    "nvmf_subsystem_allow_any_host": ({"nqn", "allow_any_host"}, {"tgt_name"}),
}  # fmt: skip
READS = {"bdev_get_bdevs", "nvmf_get_transports", "nvmf_get_subsystems", "nvmf_subsystem_get_controllers"}


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class SpdkTarget:
    """The target's state and its server. Use as a context manager; ``socket`` is where it listens."""

    def __init__(self, directory: Path, bdevs: int = 8) -> None:
        self.socket = str(directory / "spdk.sock")
        self.bdevs = [
            {"name": f"Nvme{number}n1", "aliases": [f"alias-{number}"], "block_size": 512, "num_blocks": 2**21}
            for number in range(bdevs)
        ]
        self.transports: list[dict[str, Any]] = []
        self.subsystems: dict[str, dict[str, Any]] = {}
        self.controllers: dict[str, list[str]] = {}
        self.changed: list[str] = []
        self.dropped: list[tuple[str, str]] = []
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> SpdkTarget:
        self._server.bind(self.socket)
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(stream,), daemon=True).start()

    def _serve(self, stream: socket.socket) -> None:
        buffer = ""
        with stream:
            while data := stream.recv(65536):
                buffer += data.decode()
                try:
                    request, end = json.JSONDecoder().raw_decode(buffer.lstrip())
                except ValueError:
                    continue
                buffer = buffer.lstrip()[end:]
                stream.sendall(json.dumps(self.answer(request)).encode())

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        told = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            return {**told, "result": self.call(request["method"], request.get("params", {}))}
        except Refused as error:
            return {**told, "error": {"code": error.code, "message": str(error)}}

    def call(self, method: str, parameters: dict[str, Any]) -> Any:
        if method not in PARAMETERS:
            raise Refused(NO_METHOD, "Method not found")
        required, optional = PARAMETERS[method]
        if required - set(parameters) or set(parameters) - required - optional:
            raise Refused(INVALID, "Invalid parameters")
        if method not in READS:
            self.changed.append(method)
        return getattr(self, f"_{method}")(**parameters)

    def _of(self, nqn: str) -> dict[str, Any]:
        if nqn not in self.subsystems:
            raise Refused(INVALID, f"Unable to find subsystem {nqn}")
        return self.subsystems[nqn]

    def _bdev_get_bdevs(self) -> Any:
        used = {item["bdev_name"] for sub in self.subsystems.values() for item in sub["namespaces"]}
        return [{**item, "claimed": item["name"] in used} for item in self.bdevs]

    def _nvmf_get_transports(self) -> Any:
        return self.transports

    def _nvmf_get_subsystems(self, nqn: str = "") -> Any:
        discovery = {"nqn": "nqn.2014-08.org.nvmexpress.discovery", "subtype": "Discovery", "listen_addresses": [],
                     "allow_any_host": True, "hosts": []}  # fmt: skip
        return [self._of(nqn)] if nqn else [discovery, *self.subsystems.values()]

    def _nvmf_subsystem_get_controllers(self, nqn: str) -> Any:
        return [
            {"cntlid": number, "hostnqn": name, "hostid": "", "num_io_qpairs": 8}
            for number, name in enumerate(self.controllers.get(nqn, []), 1)
        ]

    def _nvmf_create_transport(self, trtype: str, **options: Any) -> bool:
        if trtype not in ("RDMA", "TCP"):
            raise Refused(INVALID, "Invalid transport type")
        if any(item["trtype"] == trtype for item in self.transports):
            raise Refused(INVALID, f"Transport type '{trtype}' already exists")
        self.transports.append({"trtype": trtype, **options})
        return True

    def _nvmf_create_subsystem(
        self, nqn: str, serial_number: str = "0" * 20, model_number: str = "SPDK bdev Controller",
        allow_any_host: bool = False, ana_reporting: bool = False, min_cntlid: int = 1, max_cntlid: int = 65519,
    ) -> bool:  # fmt: skip
        if nqn in self.subsystems or len(serial_number) > 20 or len(model_number) > 40 or min_cntlid > max_cntlid:
            raise Refused(INVALID, "Invalid parameters")
        self.subsystems[nqn] = {
            "nqn": nqn, "subtype": "NVMe", "listen_addresses": [], "allow_any_host": allow_any_host, "hosts": [],
            "serial_number": serial_number, "model_number": model_number, "max_namespaces": 32,
            "min_cntlid": min_cntlid, "max_cntlid": max_cntlid, "namespaces": [],
        }  # fmt: skip
        return True

    def _nvmf_delete_subsystem(self, nqn: str) -> bool:
        self._of(nqn)
        self._drop(nqn, set(self.controllers.get(nqn, [])))
        del self.subsystems[nqn]
        return True

    def _drop(self, nqn: str, hosts: set[str]) -> None:
        self.dropped += [(nqn, name) for name in self.controllers.get(nqn, []) if name in hosts]
        self.controllers[nqn] = [name for name in self.controllers.get(nqn, []) if name not in hosts]

    def _nvmf_subsystem_add_listener(self, nqn: str, listen_address: dict[str, str]) -> bool:
        sub = self._of(nqn)
        if set(listen_address) != {"trtype", "adrfam", "traddr", "trsvcid"}:
            raise Refused(INVALID, "Invalid parameters")
        if not any(item["trtype"] == listen_address["trtype"] for item in self.transports):
            raise Refused(INVALID, "Invalid parameters")
        if not isinstance(listen_address["trsvcid"], str) or listen_address in sub["listen_addresses"]:
            raise Refused(INVALID, "Invalid parameters")
        sub["listen_addresses"].append(listen_address)
        return True

    def _nvmf_subsystem_remove_listener(self, nqn: str, listen_address: dict[str, str]) -> bool:
        sub = self._of(nqn)
        if listen_address not in sub["listen_addresses"]:
            raise Refused(INVALID, "Invalid parameters")
        sub["listen_addresses"].remove(listen_address)
        return True

    def _nvmf_subsystem_add_ns(self, nqn: str, namespace: dict[str, Any]) -> int:
        sub = self._of(nqn)
        if set(namespace) - {"bdev_name", "nsid", "nguid", "eui64", "uuid", "anagrpid", "ptpl_file"}:
            raise Refused(INVALID, "Invalid parameters")
        known = {item["name"]: item for item in self.bdevs}
        aliases = {alias: item["name"] for item in self.bdevs for alias in item["aliases"]}
        namespace = {**namespace, "bdev_name": aliases.get(namespace["bdev_name"], namespace["bdev_name"])}
        nsids = {item["nsid"] for item in sub["namespaces"]}
        used = {item["bdev_name"] for one in self.subsystems.values() for item in one["namespaces"]}
        if namespace["bdev_name"] not in known or namespace["bdev_name"] in used or namespace["nsid"] in nsids:
            raise Refused(INVALID, "Invalid parameters")
        sub["namespaces"].append({"name": namespace["bdev_name"], **namespace})
        return int(namespace["nsid"])

    def _nvmf_subsystem_remove_ns(self, nqn: str, nsid: int) -> bool:
        sub = self._of(nqn)
        kept = [item for item in sub["namespaces"] if item["nsid"] != nsid]
        if len(kept) == len(sub["namespaces"]):
            raise Refused(INVALID, "Invalid parameters")
        sub["namespaces"] = kept
        return True

    def _host(self, nqn: str, host: str) -> dict[str, Any] | None:
        return next((item for item in self._of(nqn)["hosts"] if item["nqn"] == host), None)

    def _nvmf_subsystem_add_host(self, nqn: str, host: str, **keys: str) -> bool:
        if self._host(nqn, host) is not None or ("dhchap_ctrlr_key" in keys and "dhchap_key" not in keys):
            raise Refused(INVALID, "Invalid parameters")
        self._of(nqn)["hosts"].append({"nqn": host, **keys})
        return True

    def _nvmf_subsystem_remove_host(self, nqn: str, host: str) -> bool:
        found = self._host(nqn, host)
        if found is None:
            raise Refused(INVALID, "Invalid parameters")
        self._of(nqn)["hosts"].remove(found)
        self._drop(nqn, {host})
        return True

    def _nvmf_subsystem_set_keys(self, nqn: str, host: str, **keys: str) -> bool:
        found = self._host(nqn, host)
        if found is None:
            raise Refused(INVALID, "Invalid parameters")
        found.update(keys)
        return True

    def _nvmf_subsystem_allow_any_host(self, nqn: str, allow_any_host: bool) -> bool:
        self._of(nqn)["allow_any_host"] = allow_any_host
        if not allow_any_host:
            listed = {item["nqn"] for item in self._of(nqn)["hosts"]}
            self._drop(nqn, set(self.controllers.get(nqn, [])) - listed)
        return True
