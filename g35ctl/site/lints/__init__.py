"""Cross-checks by subject; each lint is a function of a :class:`~g35ctl.site.lints.context.Context`."""
