"""Parses argument lists with the published SGLang, unpacked and not installed.

What SGLang imports besides (torch, kernels, CUDA bindings) is replaced by empty modules: nothing is computed here, but
every argument is defined and parsed by SGLang's own code. Needs msgspec, which defines the arguments.

Usage: ``python sglang_driver.py UNPACKED`` with the cases as JSON on stdin; answers with JSON on stdout.
"""

from __future__ import annotations

import abc
import argparse
import dataclasses
import importlib.abc
import importlib.machinery
import io
import json
import os
import sys
import types
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any


def _no(*arguments: Any, **named: Any) -> bool:
    return False


def _called(self: Any, *arguments: Any, **named: Any) -> Any:
    """As a decorator, what it decorates; else anything."""
    return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else _anything("result")()


def _attribute(self: Any, name: str) -> Any:
    if name == "__class_validators__":
        return []
    if name.startswith("__"):
        raise AttributeError(name)
    return _anything(name)()


#: what both the classes and their instances answer: no to every question, nothing in every loop
_ANSWERS: dict[str, Any] = {
    "__bool__": _no, "__contains__": _no, "__lt__": _no, "__gt__": _no, "__le__": _no, "__ge__": _no,
    "__iter__": lambda self: iter(()), "__len__": lambda self: 0, "__int__": lambda self: 0,
    "__getitem__": lambda self, item: self, "__setitem__": _no, "__delitem__": _no,
    "__or__": lambda self, other: self, "__ror__": lambda self, other: self,
    "__enter__": lambda self: self, "__exit__": _no, "__getattr__": _attribute,
}  # fmt: skip
Anything = type("Anything", (abc.ABCMeta,), _ANSWERS)
"""A class that has every attribute and can be called, subscripted and inherited from: it stands for any name."""


def _anything(name: str) -> Any:
    return Anything(name, (), {"__init__": lambda self, *a, **k: None, "__call__": _called, **_ANSWERS})


class Empty(types.ModuleType):
    """A module in which every name is there and means nothing."""

    __path__: list[str] = []  # noqa: RUF012 - what makes it a package

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "99.0.0"
        # Attributes by which SGLang recognizes other hardware.
        if name.startswith("__") or name in ("npu", "musa", "hpu", "xpu", "mps"):
            raise AttributeError(name)
        return _anything(name)


class Stand(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives an empty module for all that is neither Python's own, nor SGLang's, nor needed to define arguments."""

    REAL = frozenset({"sglang", "msgspec", "typing_extensions"})
    #: parts of SGLang that compute, or describe models
    COMPUTING = ("sglang.kernels", "sglang.srt.configs", "sglang.srt.layers", "sglang.srt.models")
    #: other hardware: SGLang looks whether it is there, and here it is not
    ABSENT = frozenset({"torch_npu", "torch_xla", "torch_musa", "habana_frameworks", "mlx"})

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        top = name.partition(".")[0]
        if (
            (top in self.REAL and not name.startswith(self.COMPUTING))
            or top in self.ABSENT
            or top in sys.stdlib_module_names
        ):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def parse(arguments: list[str]) -> dict[str, Any]:
    """What SGLang makes of an argument list; ``error`` where it refuses."""
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(parser)
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            parsed = vars(parser.parse_args(arguments))
    except SystemExit:
        return {"error": said.getvalue().strip().splitlines()[-1]}
    return {name: value for name, value in parsed.items() if isinstance(value, (str, int, float, bool, dict, list))}


def store_config(extra: dict[str, Any]) -> dict[str, Any]:
    """What SGLang's Mooncake store makes of the settings of the pool."""
    from sglang.srt.mem_cache.storage.mooncake_store.mooncake_store import MooncakeStoreConfig

    try:
        return dataclasses.asdict(MooncakeStoreConfig.load_from_extra_config(extra))
    except Exception as error:  # the test shows it
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    unpacked = Path(sys.argv[1])
    sys.path.insert(0, str(unpacked))
    sys.meta_path.insert(0, Stand())
    os.environ["SGLANG_USE_CPU_ENGINE"] = "1"  # or it would look for hardware
    cases = json.load(sys.stdin)
    answers = []
    with redirect_stdout(sys.stderr):
        for case in cases:
            os.environ.update(case.get("environment", {}))
            store = store_config(case["pool"]) if case["pool"] else {}
            answers.append({"parsed": parse(case["arguments"]), "store": store})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
