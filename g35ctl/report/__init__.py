"""Turns a run and its verdicts into files: HTML, JSON, JUnit."""
