"""What stage inference looks at: what must be there before engines start, and what services say of themselves."""

from __future__ import annotations

import json
import re
import stat
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from .converge import Finding
from .host import Host
from .managed import read_units
from .mooncake import endpoint
from .network import listening_ports
from .plans import Unit
from .plans_inference import EnginePlan, ProgramPlan, RouterPlan

Ask = Callable[[str, float], Tuple[int, str]]
"""Answers a URL within so many seconds with status and body; status 0 without an answer."""

#: seconds; a service that takes longer than this to say how it is, is not well
TIMEOUT = 5.0
#: how engines count what they do: requests that run, that wait, and tokens read and written (vLLM 0.32, SGLang 0.5.23)
_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
_TOKENS = (
    "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
    "sglang:prompt_tokens_total", "sglang:generation_tokens_total",
)  # fmt: skip
_SERIES = re.compile(r"^([a-z:_]+)(?:\{.*\})? (\S+)$", re.MULTILINE)
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what services are told to listen on


def read_service(item: Union[EnginePlan, RouterPlan], asking: Ask) -> Dict[str, Any]:
    """What an engine or a router says of itself: the status of its health (0: no answer), the models it serves, and of
    an engine its ``work``: requests running and waiting, and tokens since its start (None where it does not say)."""
    base = "http://%s" % endpoint(_EVERYWHERE.get(item.address, item.address), item.port)
    running = item.program.mode != "files"
    status = asking(base + "/health", TIMEOUT)[0] if running else 0
    return {
        "unit": item.unit,
        "mode": item.program.mode,
        "endpoint": endpoint(item.address, item.port),
        "healthy": status == 200,
        "status": status,
        "models": _models(base, asking) if status == 200 else [],
        "serves": item.served_name,
        "work": _work(base, asking) if status == 200 and isinstance(item, EnginePlan) else None,
    }


def _work(base: str, asking: Ask) -> Optional[Dict[str, int]]:
    """What an engine has to do and has done, over all its parts; None where it does not say."""
    status, text = asking(base + "/metrics", TIMEOUT)
    sums: Dict[str, float] = {}
    for name, value in _SERIES.findall(text) if status == 200 else ():
        try:
            sums[name] = sums.get(name, 0.0) + float(value)
        except ValueError:
            return None
    found = {}
    for key, names in (("running", _RUNNING), ("waiting", _WAITING), ("tokens", _TOKENS)):
        told = [sums[name] for name in names if name in sums]
        if not told:
            return None
        found[key] = int(sum(told))
    return found


def _models(base: str, asking: Ask) -> List[str]:
    """Models that an OpenAI endpoint names; empty where it does not say."""
    try:
        data = json.loads(asking(base + "/v1/models", TIMEOUT)[1])
        return sorted(str(item["id"]) for item in data["data"])
    except (ValueError, KeyError, TypeError):
        return []


def service_findings(service: Dict[str, Any], starts: Dict[str, int]) -> List[Finding]:
    """A service that does not answer well, or serves another model than clients ask for."""
    if service["mode"] == "files":
        return []
    remedy = "journalctl -u %s" % service["unit"]
    if not service["healthy"]:
        observed = "status %d" % service["status"] if service["status"] else "no answer"
        count = starts.get(service["unit"], 0)
        observed += ", started again %d times" % count if count else ""
        return [Finding("inference.health", service["endpoint"], observed, "healthy", remedy)]
    # A router that was not told about tokenizers calls the models of its workers "unknown".
    if service["models"] and not {service["serves"], "unknown"} & set(service["models"]):
        observed = "serves %s" % ", ".join(service["models"])
        return [Finding("inference.model", service["endpoint"], observed, service["serves"], remedy)]
    return []


def program_findings(host: Host, program: ProgramPlan) -> List[Finding]:
    """What a program needs that g35ctl does not bring."""
    if program.mode == "container" and not host.exists("/usr/bin/podman"):
        expected = "podman, which runs the image"
        return [Finding("inference.podman", "podman", "not installed", expected, "install podman")]
    if program.mode == "pip" and program.environment and not host.exists(program.python):
        remedy = "make the environment, or correct install.environment in g35_inference"
        return [Finding("inference.environment", program.python, "absent", "a Python environment", remedy)]
    return []


def engine_findings(host: Host, engine: EnginePlan) -> List[Finding]:
    """The model, the hub's token and the accelerators of one engine."""
    found: List[Finding] = []
    if engine.program.mode == "files":
        return found
    if engine.model.startswith("/") and not host.exists(engine.model + "/config.json"):
        remedy = "copy the model there, or correct model.path in g35_inference"
        found.append(Finding("inference.model", engine.model, "no config.json there", "a model", remedy))
    if engine.hub_token_file:
        found.extend(_token_findings(host, engine.hub_token_file))
    if engine.device == "cuda" and engine.devices:
        have = len([name for name in host.list("/dev") if re.match(r"^nvidia\d+$", name)])
        if max(engine.devices) >= have:
            expected = "accelerators %s" % ", ".join(str(index) for index in engine.devices)
            remedy = "nvidia-smi; load the driver, or correct devices or parallelism in g35_inference"
            found.append(Finding("inference.devices", engine.name, "%d accelerators" % have, expected, remedy))
    return found


def _token_findings(host: Host, path: str) -> List[Finding]:
    try:
        mode = stat.S_IMODE(host.path(path).stat().st_mode)
    except OSError:
        return [Finding("inference.token", path, "absent", "the model hub's token", "put it there with mode 0600")]
    if mode & 0o077:
        return [Finding("inference.token", path, "mode %04o" % mode, "mode 0600", "chmod 0600 %s" % path)]
    return []


def memory_findings(host: Host, engines: Sequence[EnginePlan]) -> List[Finding]:
    """Engines that take more host memory than there is."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", host.read("/proc/meminfo") or "", re.MULTILINE)
    have = int(match.group(1)) * 1024 if match else 0
    need = sum(item.host_memory for item in engines if item.program.mode != "files")
    if not have or need <= have * 0.95:
        return []
    return [
        Finding(
            "inference.memory", "engines of this host", "%d MiB of memory" % (have >> 20),
            "more than the %d MiB that they take for KV and transfers" % (need >> 20),
            "lower tiers.host_cache or pool.local_buffer_size in g35_inference",
        )
    ]  # fmt: skip


def port_findings(host: Host, engines: Sequence[EnginePlan], routers: Sequence[RouterPlan]) -> List[Finding]:
    """Ports that somebody else listens on. A port of a unit of ours that runs is ours."""
    wanted: Dict[int, str] = {}
    for engine in engines:
        if engine.program.mode != "files":
            wanted[engine.port] = engine.unit
    for router in routers:
        if router.program.mode != "files":
            wanted[router.port] = wanted[router.metrics_port] = router.unit
    taken = sorted(set(wanted) & listening_ports(host))
    if not taken:
        return []
    running = read_units(host, [Unit(name) for name in sorted(set(wanted.values()))])
    return [
        Finding(
            "inference.port", "%d/tcp" % port, "another process listens on it", "free for %s" % wanted[port],
            "ss -ltnp 'sport = :%d'; stop it, or choose another port in g35_inference" % port,
        )
        for port in taken
        if running.get(wanted[port], {}).get("ActiveState", "") in ("inactive", "failed", "")
    ]  # fmt: skip
