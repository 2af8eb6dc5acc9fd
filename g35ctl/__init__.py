"""g35ctl: puts a G3.5 shared all-flash KV-cache tier into service, and keeps it there.

Importing the package also makes ``ansible.module_utils.g35`` importable on the controller: the code that modules carry
to hosts has one import name everywhere (see :mod:`g35ctl.content`).
"""

from g35ctl.content import install_module_utils_finder

__version__ = "0.1.0"

install_module_utils_finder()
