"""Asking services on the storage network over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, Mapping, Optional, Tuple

NO_ANSWER = 0


def answer(url: str, timeout: float, document: Optional[Mapping[str, Any]] = None) -> Tuple[int, str]:
    """Status and body of ``url``, or of a ``document`` posted there as JSON; also of an error answer. Status
    :data:`NO_ANSWER` where nobody answered within ``timeout`` seconds. Never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = None if document is None else json.dumps(document).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        request = urllib.request.Request(url, body, headers)  # noqa: S310 - always http
        with opener.open(request, timeout=timeout) as reply:
            return int(reply.status), str(reply.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        return int(error.code), str(error.read().decode("utf-8", "replace"))
    except (OSError, ValueError):
        return NO_ANSWER, ""
