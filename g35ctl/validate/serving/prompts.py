"""Prompts of stated length that nobody has cached before. Pure; the standard library alone."""

from __future__ import annotations

import random

_LETTERS = "abcdefghijklmnopqrstuvwxyz "


def text(seed: str, characters: int) -> str:
    """``characters`` characters of text; the same seed gives the same text, and a longer one begins with a shorter."""
    source = random.Random(seed)  # noqa: S311 - load, not secrets
    return "".join(source.choices(_LETTERS, k=characters))


class Conversation:
    """What one user sends, turn after turn: each prompt begins with the whole of the one before."""

    def __init__(self, seed: str, user: int, context: int, new: int, shared: int = 0) -> None:
        """Lengths in characters; ``shared`` of the context are the same for all users of the seed."""
        self._name = f"{seed}/{user}"
        self._new = new
        self._prompt = text(f"{seed}/shared", shared) + text(self._name, max(0, context - shared))
        self.turn = 0

    @property
    def prompt(self) -> str:
        """The present turn's prompt."""
        return self._prompt

    def proceed(self) -> None:
        """Go to the next turn."""
        self.turn += 1
        self._prompt += text(f"{self._name}/{self.turn}", self._new)
