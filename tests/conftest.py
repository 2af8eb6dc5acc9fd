"""Makes ``ansible.module_utils.g35`` importable in every test."""

import g35ctl  # noqa: F401  (installs the finder)
