"""The kernel's NVMe-oF target through configfs: what is there, and the few operations that change it.

The kernel's rules shape the order everywhere here: a port's attributes are refused while a subsystem is linked to it,
a namespace's while it is enabled, a subsystem's serial and model once a host has seen it. Links answer a relative path
when read back, so they are compared by the item they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .dhchap import Keys
from .host import Host
from .plans import ControllerIds, Portal, TargetNamespace

ROOT = "/sys/kernel/config/nvmet"
#: what the kernel takes controller identifiers from unless told otherwise
ALL_CONTROLLER_IDS = (1, 65519)
_DEBUG = "/sys/kernel/debug/nvmet"
PORT_ATTRIBUTES = ("trtype", "adrfam", "traddr", "trsvcid")
#: a port that says so takes connections with TLS only
TLS_REQUIRED = "required"
#: in place of a list of hosts: whoever comes
ANY_HOST = "*"


@dataclass(frozen=True)
class Identity:
    """What all subsystems of a box have in common. Empty and None leave what the kernel has."""

    firmware: str = ""
    controller_ids: Optional[ControllerIds] = None


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
        "firmware": host.read_value(base + "/attr_firmware"),
        "controller_ids": [_number(host, "%s/attr_cntlid_%s" % (base, end)) for end in ("min", "max")],
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
        "buffered_io": host.read_value(base + "/buffered_io") == "1",
        "ana_group": _number(host, base + "/ana_grpid") or 1,
    }


def _number(host: Host, path: str) -> Optional[int]:
    """An attribute that is a number; None where this kernel does not have it."""
    text = host.read_value(path)
    return int(text) if text is not None and text.isdigit() else None


def read_port(host: Host, port_id: str) -> Dict[str, Any]:
    """The address attributes and ``links``: name of the link -> NQN of the subsystem."""
    base = port_path(port_id)
    state: Dict[str, Any] = {key: host.read_value("%s/addr_%s" % (base, key)) or "" for key in PORT_ATTRIBUTES}
    # Only what is set beyond plain text: kernels before 6.7 do not have the first, and call the second by other words.
    state["tls"] = host.read_value(base + "/addr_tsas") == "tls1.3"
    state["treq"] = host.read_value(base + "/addr_treq") or ""
    state["links"] = read_links(host, base + "/subsystems")
    state["max_queue_size"] = _number(host, base + "/param_max_queue_size")
    state["ana"] = {
        group: host.read_value("%s/ana_groups/%s/ana_state" % (base, group)) or ""
        for group in host.list(base + "/ana_groups")
    }
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


def port_differs(state: Dict[str, Any], portal: Portal) -> bool:
    """Whether a port, as :func:`read_port` read it, has another address or lets in what the portal does not."""
    if state["tls"] != portal.tls or (portal.tls and state["treq"] != TLS_REQUIRED):
        return True
    return any(state[key] != value for key, value in wanted_port(portal).items())


def namespace_text(state: Dict[str, Any]) -> str:
    """A namespace for people."""
    return "%s%s, uuid %s, nguid %s, %s" % (
        state["device"],
        " (buffered)" if state["buffered_io"] else "",
        state["uuid"],
        state["nguid"],
        "enabled" if state["enabled"] else "disabled",
    )


def identity_text(serial: str, model: str, firmware: str) -> str:
    """What a subsystem presents, for people."""
    return "serial %s, model %s%s" % (serial, model, ", firmware %s" % firmware if firmware else "")


def port_text(state: Dict[str, Any]) -> str:
    """A port for people."""
    size = ", %d entries per queue" % state["max_queue_size"] if state["max_queue_size"] else ""
    secured = ", TLS 1.3 %s" % state.get("treq", TLS_REQUIRED) if state.get("tls") else ""
    return "%s %s:%s%s%s" % (state["trtype"], state["traddr"], state["trsvcid"], secured, size)


# Operations. Each looks at what is there when it runs, so that one that follows another never acts on old news.


def create_subsystem(host: Host, nqn: str, namespaces: Sequence[TargetNamespace], identity: Identity) -> None:
    """Make a subsystem with its identity, namespaces and allowed hosts; not yet reachable. Raises OSError."""
    base = subsystem_path(nqn)
    host.make_directory(base)
    host.write_attribute(base + "/attr_allow_any_host", "1" if namespaces[0].allowed_hosts == (ANY_HOST,) else "0")
    # Frozen as soon as the first host has discovered it: before any link.
    host.write_attribute(base + "/attr_serial", namespaces[0].serial)
    host.write_attribute(base + "/attr_model", namespaces[0].model)
    if identity.firmware and host.exists(base + "/attr_firmware"):
        host.write_attribute(base + "/attr_firmware", identity.firmware)
    if identity.controller_ids:
        write_controller_ids(host, nqn, identity.controller_ids)
    for namespace in namespaces:
        write_namespace(host, namespace)
    for name in namespaces[0].allowed_hosts:
        if name != ANY_HOST:
            allow_host(host, nqn, name)


def write_controller_ids(host: Host, nqn: str, want: ControllerIds) -> None:
    """Set the range of controller identifiers; controllers that exist keep theirs. Raises OSError."""
    base = subsystem_path(nqn)
    values = [("min", want.lowest), ("max", want.highest)]
    # Each write must leave the lowest below the highest.
    if want.highest > (_number(host, base + "/attr_cntlid_min") or 0):
        values.reverse()
    for end, value in values:
        host.write_attribute("%s/attr_cntlid_%s" % (base, end), str(value))


def write_ana_group(host: Host, namespace: TargetNamespace) -> None:
    """Move a namespace to its ANA group; hosts are told and go on. Raises OSError."""
    base = "%s/namespaces/%d" % (subsystem_path(namespace.nqn), namespace.nsid)
    host.write_attribute(base + "/ana_grpid", str(namespace.ana_group))


def write_ana_state(host: Host, port_id: str, group: str, state: str) -> None:
    """Make an ANA group of a port say ``state``; hosts are told. Raises OSError."""
    base = "%s/ana_groups/%s" % (port_path(port_id), group)
    host.make_directory(base)
    host.write_attribute(base + "/ana_state", state)


def remove_ana_group(host: Host, port_id: str, group: str) -> None:
    """Remove an ANA group of a port. Raises OSError."""
    host.remove_directory("%s/ana_groups/%s" % (port_path(port_id), group))


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
    if (host.read_value(base + "/buffered_io") == "1") != namespace.buffered_io:
        host.write_attribute(base + "/buffered_io", str(int(namespace.buffered_io)))
    if (_number(host, base + "/ana_grpid") or 1) != namespace.ana_group:
        write_ana_group(host, namespace)
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


def open_to_all(host: Host, nqn: str, _: Sequence[str] = ()) -> None:
    """Let any host use a subsystem; the kernel wants the list of single hosts to be empty first. Raises OSError."""
    base = subsystem_path(nqn)
    for name in read_links(host, base + "/allowed_hosts"):
        host.remove_file("%s/allowed_hosts/%s" % (base, name))
    host.write_attribute(base + "/attr_allow_any_host", "1")


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


def rebuild_subsystem(host: Host, nqn: str, namespaces: Sequence[TargetNamespace], identity: Identity) -> None:
    """Remove and make a subsystem again: the only way to another serial or model. Raises OSError."""
    linked = remove_subsystem(host, nqn)
    create_subsystem(host, nqn, namespaces, identity)
    for port_id in linked:
        link(host, port_id, nqn)


def write_port(host: Host, portal: Portal, max_queue_size: int = 0) -> None:
    """Make a port or give it another address or queue size; what was linked to it is linked again. Raises OSError."""
    port_id = str(portal.port_id)
    base = port_path(port_id)
    host.make_directory(base)
    linked = sorted(read_links(host, base + "/subsystems").values())
    for nqn in linked:
        unlink(host, port_id, nqn)
    for key, value in wanted_port(portal).items():
        host.write_attribute("%s/addr_%s" % (base, key), value)
    if portal.tls:
        host.write_attribute(base + "/addr_tsas", "tls1.3")
        host.write_attribute(base + "/addr_treq", TLS_REQUIRED)
    elif host.read_value(base + "/addr_tsas") == "tls1.3":
        # In this order: "not specified" is refused while TLS is on.
        host.write_attribute(base + "/addr_tsas", "none")
        host.write_attribute(base + "/addr_treq", "not specified")
    if max_queue_size and host.exists(base + "/param_max_queue_size"):
        host.write_attribute(base + "/param_max_queue_size", str(max_queue_size))
    for nqn in linked:
        link(host, port_id, nqn)


def remove_port(host: Host, port_id: str) -> None:
    """Remove a port that nothing is linked to. Raises OSError."""
    for group in host.list(port_path(port_id) + "/ana_groups"):
        if group != "1":  # the kernel's own, which goes with the port
            remove_ana_group(host, port_id, group)
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
