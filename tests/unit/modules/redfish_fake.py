"""A stand-in for a box's Redfish service over HTTPS: a tree written for these tests in the shape Swordfish describes.

Sessions, collections with pages, endpoints, volumes, connections or zones, and interfaces that take POST. What a
firmware lacks is left out of the tree (``offers``). Every request that changes something is remembered.
"""

from __future__ import annotations

import json
import ssl
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PASSWORD = "correct horse"
UUID = "2f8ad5a8-5a8e-4d4c-9a63-5a3c0c5a0001"
FABRIC = "/redfish/v1/Fabrics/NVMeoF"
INTERFACE = "/redfish/v1/Chassis/Box/NetworkAdapters/A/NetworkDeviceFunctions/1/EthernetInterfaces/1"


def link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


class Authority:
    """A certificate authority of the tests' own; ``ca`` is its certificate, ``server`` the server's with its key."""

    def __init__(self, directory: Path, name: str = "127.0.0.1") -> None:
        self.ca, self.server = directory / "ca.pem", directory / "server.pem"
        key, owner = ec.generate_private_key(ec.SECP256R1()), self._name("Test CA")
        signed = self._build(owner, owner, key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.ca.write_bytes(signed.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        own = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))])
        leaf = self._build(self._name("Box"), owner, own.public_key()).add_extension(names, critical=False)
        private = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificate = leaf.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        self.server.write_bytes(private + certificate)

    @staticmethod
    def _name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    @staticmethod
    def _build(subject: x509.Name, issuer: x509.Name, key: Any) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        )  # fmt: skip


class RedfishBox:
    """The service of one head. ``offers`` is "connections", "zones" or "" for firmware that only lets endpoints be
    read; ``refuses`` maps (method, path) to the status it answers instead."""

    def __init__(
        self, authority: Authority, nqns: list[str], uuids: list[str], offers: str = "connections", identity: str = UUID
    ) -> None:
        self.tokens: set[str] = set()
        self.logins = 0
        self.changed: list[tuple[str, str]] = []
        self.requests: list[tuple[str, str]] = []
        self.refuses: dict[tuple[str, str], int] = {}
        self.tree: dict[str, dict[str, Any]] = {}
        self._number = 0
        self._fill(nqns, uuids, offers, identity)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(authority.server)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> RedfishBox:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _fill(self, nqns: list[str], uuids: list[str], offers: str, identity: str) -> None:
        add = self.add
        add(
            "/redfish/v1",
            RedfishVersion="1.15.0",
            UUID=identity,
            Product="Test EBOF",
            Fabrics=link("/redfish/v1/Fabrics"),
        )
        self.collection("/redfish/v1/Fabrics", ["/redfish/v1/Fabrics/Ethernet", FABRIC])
        add("/redfish/v1/Fabrics/Ethernet", Switches=link("/redfish/v1/Fabrics/Ethernet/Switches"))
        extra = {
            "connections": {"Connections": link(f"{FABRIC}/Connections")},
            "zones": {"Zones": link(f"{FABRIC}/Zones")},
        }
        add(FABRIC, Endpoints=link(f"{FABRIC}/Endpoints"), EndpointGroups=link(f"{FABRIC}/EndpointGroups"),
            **extra.get(offers, {}))  # fmt: skip
        self.collection(f"{FABRIC}/EndpointGroups", [])
        self.collection(f"{FABRIC}/Connections", [])
        self.collection(f"{FABRIC}/Zones", [])
        members = []
        for number, (nqn, uuid) in enumerate(zip(nqns, uuids, strict=True)):
            storage = f"/redfish/v1/Storage/Drive{number}"
            add(storage, Volumes=link(f"{storage}/Volumes"))
            self.collection(f"{storage}/Volumes", [f"{storage}/Volumes/1"])
            add(f"{storage}/Volumes/1", CapacityBytes=2**40, NVMeNamespaceProperties={"NamespaceId": "0x001"},
                Identifiers=[{"DurableNameFormat": "UUID", "DurableName": uuid.upper()}])  # fmt: skip
            for head, address in (("A", "192.0.2.11"), ("B", "198.51.100.11")):
                path = f"{FABRIC}/Endpoints/D{number}-{head}"
                members.append(path)
                add(path, EndpointProtocol="NVMeOverFabrics",
                    ConnectedEntities=[{"EntityType": "StorageSubsystem", "EntityRole": "Target",
                                        "EntityLink": link(storage)}],
                    Identifiers=[{"DurableNameFormat": "NQN", "DurableName": nqn}],
                    IPTransportDetails=[{"TransportProtocol": "RoCEv2", "IPv4Address": {"Address": address},
                                         "Port": 4420}])  # fmt: skip
        self.collection(f"{FABRIC}/Endpoints", members)
        add(INTERFACE, DHCPv4={"DHCPEnabled": True}, IPv4StaticAddresses=[], MTUSize=1500)

    def add(self, path: str, **body: Any) -> None:
        self.tree[path] = {"@odata.id": path, **body}

    def collection(self, path: str, members: list[str]) -> None:
        self.tree[path] = {"@odata.id": path, "Members": [link(item) for item in members]}

    def host(self, nqn: str) -> str:
        """Register a host's endpoint."""
        return self.create(f"{FABRIC}/Endpoints", {
            "EndpointProtocol": "NVMeOverFabrics", "ConnectedEntities": [{"EntityRole": "Initiator"}],
            "Identifiers": [{"DurableNameFormat": "NQN", "DurableName": nqn}],
        })  # fmt: skip

    def create(self, collection: str, body: dict[str, Any]) -> str:
        self._number += 1
        path = f"{collection}/made{self._number}"
        self.tree[path] = {"@odata.id": path, **body}
        self.tree[collection]["Members"].append(link(path))
        return path

    def page(self, path: str) -> dict[str, Any] | None:
        """A resource; long collections come in pages of four."""
        base, _, skip = path.partition("?$skip=")
        found = self.tree.get(base)
        if found is None or "Members" not in found:
            return found
        start = int(skip or 0)
        rest = found["Members"][start:]
        body = {**found, "Members": rest[:4]}
        return {**body, "Members@odata.nextLink": f"{base}?$skip={start + 4}"} if len(rest) > 4 else body

    def answer(self, method: str, path: str, token: str, body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
        self.requests.append((method, path))
        if (method, path) in self.refuses:
            return self.refuses[method, path], {}, {"error": {"message": "not allowed here"}}
        if path == "/redfish/v1/SessionService/Sessions" and method == "POST":
            if body != {"UserName": "g35", "Password": PASSWORD}:
                return 401, {}, {"error": {"message": "bad credentials"}}
            self.logins += 1
            session = f"token{self.logins}"
            self.tokens.add(session)
            return 201, {"X-Auth-Token": session, "Location": f"{path}/{session}"}, {}
        if path != "/redfish/v1" and token not in self.tokens:
            return 401, {}, {"error": {"message": "no session"}}
        if method == "DELETE" and path.startswith("/redfish/v1/SessionService/Sessions/"):
            self.tokens.discard(path.rpartition("/")[2])
            return 204, {}, None
        found = self.page(path)
        if found is None:
            return 404, {}, {"error": {"@Message.ExtendedInfo": [{"Message": "The resource does not exist."}]}}
        if method == "GET":
            return 200, {}, found
        self.changed.append((method, path))
        if method == "DELETE":
            del self.tree[path]
            for item in self.tree.values():
                if "Members" in item:
                    item["Members"] = [one for one in item["Members"] if one["@odata.id"] != path]
            return 204, {}, None
        if "Members" in self.tree[path]:
            made = self.create(path, body)
            return 201, {"Location": made}, self.tree[made]
        self.tree[path].update(body)
        return 200, {}, self.tree[path]


def _handler(box: RedfishBox) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or b"{}")
            token = self.headers.get("X-Auth-Token", "")
            status, headers, answer = box.answer(self.command, self.path, token, body)
            raw = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(raw))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815 (names that http.server looks for)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
