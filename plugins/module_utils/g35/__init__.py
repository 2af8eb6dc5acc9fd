"""Code shared by the modules that travel to hosts, the boot units, the planner and the tests.

One import name everywhere: ``ansible.module_utils.g35`` (see g35ctl/content.py). Inside, only relative imports, only
the standard library, and nothing newer than Python 3.9: this code runs on every supported host.
"""
