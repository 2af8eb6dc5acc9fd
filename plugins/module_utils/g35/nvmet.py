"""The kernel's NVMe-oF target through configfs: what is there, and the few operations that change it.

The kernel's rules shape the order everywhere here: a port's attributes are refused while a subsystem is linked to it,
a namespace's while it is enabled, a subsystem's serial and model once a host has seen it. Links answer a relative path
when read back, so they are compared by the item they name.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from .dhchap import Keys
from .host import Host
from .plans import Portal, TargetNamespace

ROOT = "/sys/kernel/config/nvmet"
_DEBUG = "/sys/kernel/debug/nvmet"
PORT_ATTRIBUTES = ("trtype", "adrfam", "traddr", "trsvcid")


def subsystem_path(nqn: str) -> str:
    return "%s/subsystems/%s" % (ROOT, nqn)


def port_path(port_id: str) -> str:
    return "%s/ports/%s" % (ROOT, port_id)


def host_path(nqn: str) -> str:
    return "%s/hosts/%s" % (ROOT, nqn)


def compact(identifier: Optional[str]) -> str:
    """A UUID or NGUID in lower case without separators: the kernel adds dashes to what it was given without."""
    return (identifier or "").replace("-", "").replace(":", "").lower()


def read_subsystem(host: Host, nqn: str) -> Dict[str, Any]:
    """``serial``, ``model``, ``allow_any_host``, ``allowed_hosts`` and ``namespaces`` by number (as text)."""
    base = subsystem_path(nqn)
    return {
        "serial": host.read_value(base + "/attr_serial") or "",
        "model": host.read_value(base + "/attr_model") or "",
        "allow_any_host": host.read_value(base + "/attr_allow_any_host") == "1",
        "allowed_hosts": sorted(read_links(host, base + "/allowed_hosts").values()),
        "namespaces": {
            nsid: _read_namespace(host, "%s/namespaces/%s" % (base, nsid)) for nsid in host.list(base + "/namespaces")
        },
    }


def _read_namespace(host: Host, base: str) -> Dict[str, Any]:
    return {
        "device": host.read_value(base + "/device_path") or "",
        "uuid": compact(host.read_value(base + "/device_uuid")),
        "nguid": compact(host.read_value(base + "/device_nguid")),
        "enabled": host.read_value(base + "/enable") == "1",
    }


def read_port(host: Host, port_id: str) -> Dict[str, Any]:
    """The address attributes and ``links``: name of the link -> NQN of the subsystem."""
    base = port_path(port_id)
    state: Dict[str, Any] = {key: host.read_value("%s/addr_%s" % (base, key)) or "" for key in PORT_ATTRIBUTES}
    state["links"] = read_links(host, base + "/subsystems")
    return state


def read_links(host: Host, directory: str) -> Dict[str, str]:
    """Name of each link in a configfs directory -> name of the item it links to."""
    found = {name: host.link_name("%s/%s" % (directory, name)) for name in host.list(directory)}
    return {name: target for name, target in found.items() if target}


def controllers(host: Host, nqn: str) -> Optional[List[str]]:
    """Host NQNs of the subsystem's live controllers; None where this kernel does not tell (before 6.11)."""
    if not host.exists(_DEBUG):
        return None
    base = "%s/%s" % (_DEBUG, nqn)
    names = [name for name in host.list(base) if name.startswith("ctrl")]
    return [host.read_value("%s/%s/hostnqn" % (base, name)) or name for name in names]


def wanted_port(portal: Portal) -> Dict[str, str]:
    """The address attributes of a portal as configfs shows them."""
    return {
        "trtype": portal.transport,
        "adrfam": portal.family,
        "traddr": portal.address,
        "trsvcid": str(portal.port),
    }


# Operations. Each looks at what is there when it runs, so that one that follows another never acts on old news.


def create_subsystem(host: Host, nqn: str, namespaces: Sequence[TargetNamespace]) -> None:
    """Make a subsystem with its identity, namespaces and allowed hosts; not yet reachable. Raises OSError."""
    base = subsystem_path(nqn)
    host.make_directory(base)
    host.write_attribute(base + "/attr_allow_any_host", "0")
    # Frozen as soon as the first host has discovered it: before any link.
    host.write_attribute(base + "/attr_serial", namespaces[0].serial)
    host.write_attribute(base + "/attr_model", namespaces[0].model)
    for namespace in namespaces:
        write_namespace(host, namespace)
    for name in namespaces[0].allowed_hosts:
        allow_host(host, nqn, name)


def write_namespace(host: Host, namespace: TargetNamespace) -> None:
    """Make or rewrite a namespace and enable it. Raises OSError."""
    base = "%s/namespaces/%d" % (subsystem_path(namespace.nqn), namespace.nsid)
    host.make_directory(base)
    if host.read_value(base + "/enable") == "1":
        host.write_attribute(base + "/enable", "0")
    host.write_attribute(base + "/device_path", namespace.device)
    # Left alone, both would be new at every restore, and with them the device names on the hosts.
    host.write_attribute(base + "/device_uuid", namespace.uuid)
    host.write_attribute(base + "/device_nguid", namespace.nguid)
    host.write_attribute(base + "/enable", "1")


def remove_namespace(host: Host, nqn: str, nsid: str) -> None:
    """Disable and remove a namespace; the data on its device stays. Raises OSError."""
    base = "%s/namespaces/%s" % (subsystem_path(nqn), nsid)
    if host.read_value(base + "/enable") == "1":
        host.write_attribute(base + "/enable", "0")
    host.remove_directory(base)


def allow_host(host: Host, nqn: str, host_nqn: str) -> None:
    """Let a host use a subsystem. Raises OSError."""
    host.make_directory(host_path(host_nqn))
    host.make_link(host_path(host_nqn), "%s/allowed_hosts/%s" % (subsystem_path(nqn), host_nqn))


def read_keys(host: Host, host_nqn: str) -> Tuple[str, str]:
    """The keys a host proves itself with, and the box to it; empty where none is set."""
    base = host_path(host_nqn)
    return (host.read_value(base + "/dhchap_key") or "", host.read_value(base + "/dhchap_ctrl_key") or "")


def write_keys(host: Host, host_nqn: str, keys: Keys) -> None:
    """Set the keys of a host, or take them back where they are empty.

    Controllers that are connected keep their session; from here on the host has to prove itself with these. Raises
    OSError.
    """
    host.make_directory(host_path(host_nqn))
    for name, key in (("dhchap_ctrl_key", keys.controller_key), ("dhchap_key", keys.key)):
        path = "%s/%s" % (host_path(host_nqn), name)
        if (host.read_value(path) or "") != key:
            host.write_attribute(path, key + "\n")


def fence(host: Host, nqn: str, allowed: Sequence[str]) -> None:
    """Let exactly these hosts use a subsystem and drop the controllers of all others.

    The kernel keeps the controllers of a host that is no longer allowed, so the subsystem leaves its ports for a
    moment; the allowed hosts reconnect by themselves. Raises OSError.
    """
    linked = unlink_everywhere(host, nqn)
    base = subsystem_path(nqn)
    host.write_attribute(base + "/attr_allow_any_host", "0")
    for name, target in read_links(host, base + "/allowed_hosts").items():
        if target not in allowed:
            host.remove_file("%s/allowed_hosts/%s" % (base, name))
    for name in allowed:
        allow_host(host, nqn, name)
    for port_id in linked:
        link(host, port_id, nqn)


def link(host: Host, port_id: str, nqn: str) -> None:
    """Make a subsystem reachable through a port; the first link opens the port. Raises OSError."""
    host.make_link(subsystem_path(nqn), "%s/subsystems/%s" % (port_path(port_id), nqn))


def unlink(host: Host, port_id: str, nqn: str) -> bool:
    """Take a subsystem off a port, dropping its controllers there; True if it was on it. Raises OSError."""
    directory = port_path(port_id) + "/subsystems"
    names = [name for name, target in read_links(host, directory).items() if target == nqn]
    for name in names:
        host.remove_file("%s/%s" % (directory, name))
    return bool(names)


def unlink_everywhere(host: Host, nqn: str) -> List[str]:
    """Take a subsystem off every port; returns the ports it was on. Raises OSError."""
    return [port_id for port_id in host.list(ROOT + "/ports") if unlink(host, port_id, nqn)]


def remove_subsystem(host: Host, nqn: str) -> List[str]:
    """Unlink, disable and remove a subsystem; returns the ports it was on. Raises OSError."""
    linked = unlink_everywhere(host, nqn)
    base = subsystem_path(nqn)
    for name in read_links(host, base + "/allowed_hosts"):
        host.remove_file("%s/allowed_hosts/%s" % (base, name))
    for nsid in host.list(base + "/namespaces"):
        remove_namespace(host, nqn, nsid)
    host.remove_directory(base)
    return linked


def rebuild_subsystem(host: Host, nqn: str, namespaces: Sequence[TargetNamespace]) -> None:
    """Remove and make a subsystem again: the only way to another serial or model. Raises OSError."""
    linked = remove_subsystem(host, nqn)
    create_subsystem(host, nqn, namespaces)
    for port_id in linked:
        link(host, port_id, nqn)


def write_port(host: Host, portal: Portal) -> None:
    """Make a port or give it another address; what was linked to it is linked again. Raises OSError."""
    port_id = str(portal.port_id)
    base = port_path(port_id)
    host.make_directory(base)
    linked = sorted(read_links(host, base + "/subsystems").values())
    for nqn in linked:
        unlink(host, port_id, nqn)
    for key, value in wanted_port(portal).items():
        host.write_attribute("%s/addr_%s" % (base, key), value)
    for nqn in linked:
        link(host, port_id, nqn)


def remove_port(host: Host, port_id: str) -> None:
    """Remove a port that nothing is linked to. Raises OSError."""
    host.remove_directory(port_path(port_id))


def forget_host(host: Host, host_nqn: str) -> None:
    """Remove a host item unless some subsystem still allows it. Raises OSError."""
    for nqn in host.list(ROOT + "/subsystems"):
        if host_nqn in read_links(host, subsystem_path(nqn) + "/allowed_hosts").values():
            return
    host.remove_directory(host_path(host_nqn))


def is_allowed_somewhere(host: Host, host_nqn: str, except_for: Sequence[str] = ()) -> bool:
    """Whether a subsystem other than ``except_for`` allows this host."""
    return any(
        host.exists("%s/allowed_hosts/%s" % (subsystem_path(nqn), host_nqn))
        for nqn in host.list(ROOT + "/subsystems")
        if nqn not in except_for
    )
