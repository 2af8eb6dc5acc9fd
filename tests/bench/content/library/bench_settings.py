#!/usr/bin/python
"""The bench's settings in one execution, with the engine that every stage of g35ctl uses: read, compare, apply, read
back."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.g35.converge import Change, Finding, Stage, act
from ansible.module_utils.g35.host import Host
from ansible.module_utils.g35.managed import file_changes
from ansible.module_utils.g35.plans import File


class Settings(Stage):
    """Files and attributes below the host's root."""

    name = "bench"

    def __init__(self, host: Host, files: dict[str, str], attributes: dict[str, str]) -> None:
        super().__init__(host)
        self.files = tuple(File("/" + path, content) for path, content in files.items())
        self.attributes = attributes

    def read(self) -> dict[str, Any]:
        return {name: self.host.read_value("/" + name) for name in self.attributes}

    def changes(self, state: dict[str, Any]) -> list[Change]:
        todo = file_changes(self.host, self.files)
        for name, value in self.attributes.items():
            if state[name] != value:
                todo.append(Change(name, str(state[name]), value, self._writer(name, value)))
        return todo

    def findings(self, state: dict[str, Any]) -> list[Finding]:
        return [
            Finding("bench.setting", change.what, change.before, change.after, "deploy")
            for change in self.changes(state)
        ]

    def _writer(self, name: str, value: str) -> Any:
        def write() -> None:
            self.host.path("/" + name).parent.mkdir(parents=True, exist_ok=True)
            self.host.write_attribute("/" + name, value)

        return write


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "str", "required": True},
            "action": {"type": "str", "required": True},
            "files": {"type": "dict", "required": True},
            "attributes": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    # The engine notes under /run what it wrote; below this root like everything else.
    stage = Settings(Host(asked["root"]), asked["files"], asked["attributes"])
    result = act(stage, asked["action"], check=module.check_mode).result()
    if result.pop("failed") and asked["action"] != "verify":
        module.fail_json(**result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
