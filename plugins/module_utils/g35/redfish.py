"""A small Redfish client: one session per management address, always over TLS with the certificate verified."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from .box import BoxError

ROOT = "/redfish/v1"
SESSIONS = ROOT + "/SessionService/Sessions"
_MOST_PAGES = 64
#: answers of firmware that does not offer what was asked for
NOT_OFFERED = (400, 404, 405, 501)
_LARGEST = 8 * 1024 * 1024


class RedfishRefused(BoxError):
    """The service answered with an error; ``status`` is the HTTP status."""

    def __init__(self, what: str, status: int, remedy: str = "") -> None:
        super().__init__(what, remedy)
        self.status = status


def split_address(text: str) -> Tuple[str, int]:
    """``address``, ``address:port`` or ``[IPv6]:port`` as address and port; port 443 when none is given."""
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        return name, int(rest[1:]) if rest.startswith(":") else 443
    if text.count(":") == 1:
        name, _, port = text.partition(":")
        return name, int(port)
    return text, 443


class RedfishClient:
    """Speaks to one management processor. Raises BoxError when it cannot be reached, RedfishRefused when it refuses.

    The password goes into the body of the login and nowhere else. ``seconds`` bounds each request.
    """

    def __init__(self, address: str, username: str, password: str, ca_file: str = "", seconds: float = 15.0) -> None:
        self.address = address
        self._name, self._port = split_address(address)
        self._username = username
        self._password = password
        self._seconds = seconds
        self._token = ""
        self._session = ""
        self._connection: Optional[http.client.HTTPSConnection] = None
        try:
            self._context = ssl.create_default_context(cafile=ca_file or None)
        except OSError as error:
            raise BoxError("%s: %s" % (ca_file, error.strerror or error), "correct g35_ebof.redfish.ca_file") from error

    def login(self) -> None:
        """Open a session; its token stands for the password from then on."""
        body = {"UserName": self._username, "Password": self._password}
        try:
            status, headers, answer = self._exchange("POST", SESSIONS, body)
        except RedfishRefused as error:
            if error.status in (401, 403):
                raise RedfishRefused(
                    "%s: account %s is refused" % (self.address, self._username), error.status,
                    "correct g35_ebof.redfish.username and password",
                ) from error  # fmt: skip
            raise
        self._token = headers.get("x-auth-token", "")
        self._session = headers.get("location", "") or str(answer.get("@odata.id", ""))
        if not self._token:
            raise BoxError(
                "%s: login gave HTTP %d without X-Auth-Token" % (self.address, status), "update the firmware"
            )

    def logout(self) -> None:
        """End the session; management processors have only a few. Failing to is not worth an error."""
        path = self._session
        if path.startswith("https://"):
            path = "/" + path.split("/", 3)[-1]
        try:
            if self._token and path:
                self._exchange("DELETE", path)
        except BoxError:
            pass
        finally:
            self._token = ""
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def get(self, path: str) -> Dict[str, Any]:
        """A resource."""
        return self._exchange("GET", path)[2]

    def find(self, path: str) -> Optional[Dict[str, Any]]:
        """A resource, or None where the firmware does not have it."""
        try:
            return self.get(path)
        except RedfishRefused as error:
            if error.status in NOT_OFFERED:
                return None
            raise

    def post(self, path: str, body: Mapping[str, Any]) -> Tuple[str, Dict[str, Any]]:
        """Create a resource in a collection (or act on one): its path, and the answer."""
        _, headers, answer = self._exchange("POST", path, body)
        return headers.get("location", "") or str(answer.get("@odata.id", "")), answer

    def delete(self, path: str) -> None:
        """Remove a resource."""
        self._exchange("DELETE", path)

    def members(self, path: str) -> Iterator[Dict[str, Any]]:
        """Every member of a collection, whether expanded or linked, over all its pages."""
        following = path
        for _ in range(_MOST_PAGES):
            page = self.get(following)
            for item in _listed(page.get("Members")):
                link = str(item.get("@odata.id", ""))
                # A member that is only a link has nothing but its address (and maybe annotations).
                bare = all(key.startswith("@") for key in item)
                yield self.get(link) if bare and link else item
            following = str(page.get("Members@odata.nextLink", ""))
            if not following:
                return
        raise BoxError("%s: %s does not end after %d pages" % (self.address, path, _MOST_PAGES), "update the firmware")

    def _exchange(
        self, method: str, path: str, body: Optional[Mapping[str, Any]] = None
    ) -> Tuple[int, Dict[str, str], Dict[str, Any]]:
        headers = {"Accept": "application/json", "OData-Version": "4.0"}
        if self._token:
            headers["X-Auth-Token"] = self._token
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = "application/json"
        where = "%s: %s %s" % (self.address, method, path)
        try:
            answer = self._send(method, path, data, headers)
            raw = answer.read(_LARGEST)
        except ssl.SSLCertVerificationError as error:
            raise BoxError(
                "%s: its certificate is not trusted: %s" % (self.address, error.verify_message),
                "put the CA's certificate into g35_ebof.redfish.ca_file; use the name that the certificate carries",
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self._connection = None
            why = str(error) or type(error).__name__
            raise BoxError("%s: %s" % (where, why), "check the address and the management network") from error
        told = {name.lower(): value for name, value in answer.getheaders()}
        if answer.status >= 300:
            raise RedfishRefused("%s: HTTP %d: %s" % (where, answer.status, _reason(raw, answer.reason)), answer.status)
        return answer.status, told, self._document(where, raw)

    def _send(self, method: str, path: str, data: Optional[str], headers: Dict[str, str]) -> http.client.HTTPResponse:
        """Send over the kept connection; one that the other side closed in between is opened again, once."""
        for fresh in (False, True):
            if self._connection is None or fresh:
                self._connection = http.client.HTTPSConnection(
                    self._name, self._port, timeout=self._seconds, context=self._context
                )
            try:
                self._connection.request(method, path, data, headers)
                return self._connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # Whether a POST that got no answer was carried out is unknown: it is not sent twice.
                if fresh or method == "POST":
                    self._connection = None
                    raise
        raise AssertionError("unreachable")

    @staticmethod
    def _document(where: str, raw: bytes) -> Dict[str, Any]:
        if not raw.strip():
            return {}
        try:
            found = json.loads(raw)
        except ValueError as error:
            raise BoxError("%s: the answer is not JSON" % where, "check that this is a Redfish service") from error
        if not isinstance(found, dict):
            raise BoxError("%s: the answer is not a resource" % where, "check that this is a Redfish service")
        return found


def _listed(value: Any) -> List[Dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _reason(raw: bytes, fallback: str) -> str:
    """The service's own words: its extended message, or the HTTP reason."""
    try:
        error = json.loads(raw).get("error", {})
        extended = _listed(error.get("@Message.ExtendedInfo"))
        words = [str(item["Message"]) for item in extended if item.get("Message")] or [str(error.get("message", ""))]
        return " ".join(words)[:300] or fallback
    except (ValueError, AttributeError):
        return fallback


def links(value: Any) -> List[str]:
    """Paths of a list of links (``[{"@odata.id": ...}]``), or of a single one."""
    items = value if isinstance(value, list) else [value]
    return [str(item["@odata.id"]) for item in items if isinstance(item, dict) and item.get("@odata.id")]
