"""What stage inference is to bring about on one host: engines that use the KV pool, and the routers before them.

Beside plans.py, with the same rules: sizes are bytes, times seconds; field documentation becomes the argument specs.
``@DEVICE:netdev@`` in arguments, variables and files stands for the name of an RDMA device, which only the host knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Tuple

from .plans import File, RuntimePlan, Unit


def _doc(text: str) -> Mapping[str, str]:
    """Metadata of a field: one line that the argument specs and the variable reference show."""
    return {"doc": text}


@dataclass(frozen=True)
class ProgramPlan:
    """Where the program of an engine or a router comes from."""

    mode: str = field(metadata=_doc("pip, container or files"))
    distribution: str = field(metadata=_doc("Name of its wheel"))
    version: str = field(metadata=_doc("Release"))
    python: str = field(metadata=_doc("Interpreter that runs it"))
    environment: str = field(default="", metadata=_doc("An environment that is there already; never changed"))
    image: str = field(default="", metadata=_doc("Image with mode container"))


@dataclass(frozen=True)
class EnginePlan:
    """One running engine."""

    name: str = field(metadata=_doc("Name of the instance"))
    engine: str = field(metadata=_doc("vllm or sglang"))
    role: str = field(metadata=_doc("unified, prefill or decode"))
    unit: str = field(metadata=_doc("Its systemd unit"))
    device: str = field(metadata=_doc("cuda, rocm or cpu"))
    program: ProgramPlan = field(metadata=_doc("Where its program comes from"))
    module: str = field(metadata=_doc("Python module that is run"))
    address: str = field(metadata=_doc("Address of its HTTP interface"))
    port: int = field(metadata=_doc("Port of its HTTP interface"))
    model: str = field(metadata=_doc("Directory of the model, or its name on a hub"))
    served_name: str = field(metadata=_doc("Name that clients ask for"))
    arguments: Tuple[str, ...] = field(metadata=_doc("Its whole argument list"))
    environment: Tuple[str, ...] = field(metadata=_doc("Its variables, NAME=value"))
    devices: Tuple[int, ...] = field(default=(), metadata=_doc("Accelerators by index"))
    protocol: str = field(default="tcp", metadata=_doc("Transport to the pool, rdma or tcp"))
    netdevs: Tuple[str, ...] = field(default=(), metadata=_doc("Network devices whose RDMA devices it uses"))
    config_path: str = field(default="", metadata=_doc("File with its settings of the pool; empty without a pool"))
    config: str = field(default="", metadata=_doc("Content of that file"))
    sharing: str = field(default="", metadata=_doc("Name space of its keys; equal ones share what is cached"))
    bootstrap_port: int = field(default=0, metadata=_doc("Port by which prefill is found; 0 without separation"))
    host_memory: int = field(default=0, metadata=_doc("Host memory it takes for KV and transfers, bytes"))
    start_seconds: int = field(default=1800, metadata=_doc("Longest start, seconds"))
    hub_token_file: str = field(default="", metadata=_doc("File on the host with the model hub's token"))
    writes: Tuple[str, ...] = field(default=(), metadata=_doc("Directories on the host that it may write to"))
    packages: Tuple[str, ...] = field(
        default=(), metadata=_doc("Distributions its environment must have besides, NAME or NAME==VERSION")
    )


@dataclass(frozen=True)
class RouterPlan:
    """One router in front of the engines that serve one model."""

    name: str = field(metadata=_doc("Name of the router"))
    kind: str = field(metadata=_doc("sglang-router or vllm-router"))
    unit: str = field(metadata=_doc("Its systemd unit"))
    program: ProgramPlan = field(metadata=_doc("Where its program comes from"))
    module: str = field(metadata=_doc("Python module that is run"))
    address: str = field(metadata=_doc("Address it listens on"))
    port: int = field(metadata=_doc("Port it listens on"))
    metrics_port: int = field(metadata=_doc("Port of its metrics"))
    served_name: str = field(metadata=_doc("Model it routes to"))
    workers: Tuple[str, ...] = field(metadata=_doc("URLs of its workers"))
    arguments: Tuple[str, ...] = field(metadata=_doc("Its whole argument list"))
    start_seconds: int = field(default=120, metadata=_doc("Longest start, seconds"))


@dataclass(frozen=True)
class InferencePlan:
    """The engines and routers of a host."""

    site: str = field(metadata=_doc("Name of the site"))
    user: str = field(metadata=_doc("Unprivileged user of the services"))
    master_admin: str = field(default="", metadata=_doc("Admin address of the pool's master; empty without a pool"))
    stores: Tuple[str, ...] = field(default=(), metadata=_doc("Units of this host's stores; engines start after them"))
    runtimes: Tuple[RuntimePlan, ...] = field(default=(), metadata=_doc("Python environments to build"))
    engines: Tuple[EnginePlan, ...] = field(default=(), metadata=_doc("Engines"))
    routers: Tuple[RouterPlan, ...] = field(default=(), metadata=_doc("Routers"))
    files: Tuple[File, ...] = field(default=(), metadata=_doc("Files of the stage"))
    units: Tuple[Unit, ...] = field(default=(), metadata=_doc("systemd units of the stage"))
