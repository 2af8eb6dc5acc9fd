"""Sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from g35ctl.site.sizes import format_size, parse_size

UNITS = {
    "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
}  # fmt: skip


@given(st.integers(0, 10**6), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " ", "  "]), st.booleans())
def test_every_unit_means_its_factor(number: int, unit: str, space: str, lower: bool) -> None:
    text = f"{space}{number}{space}{unit.lower() if lower else unit}"
    assert parse_size(text) == number * UNITS[unit]


@given(st.integers(0, 2**60))
def test_bytes_are_exact(number: int) -> None:
    assert parse_size(number) == parse_size(str(number)) == parse_size(f"{number} B") == number


@given(st.integers(1, 2**53))
def test_a_formatted_size_reads_back_within_its_precision(number: int) -> None:
    shown = format_size(number)
    value, unit = shown.split()
    assert float(value) * UNITS[unit] == pytest.approx(number, rel=1e-3)


@given(st.integers(1, 1023), st.sampled_from(["KiB", "MiB", "GiB", "TiB"]))
def test_whole_sizes_round_trip(number: int, unit: str) -> None:
    assert format_size(number * UNITS[unit]) == f"{number} {unit}"


@given(st.text().filter(lambda text: not text.strip()[:1].isdigit()))
def test_what_does_not_begin_with_a_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize("value", ["1GX", "12 parsecs", "1.5B", "-1GiB", "1e9", "", True, False, None, [1], 1.5])
def test_nonsense_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        parse_size(value)


@given(st.decimals(0, 10**5, places=2), st.sampled_from(["KB", "MB", "GB", "TB"]))
def test_decimal_fractions_are_exact(number: object, unit: str) -> None:
    """7.68TB is 7680000000000 bytes, not one less."""
    assert parse_size(f"{number}{unit}") == int(number * UNITS[unit])  # type: ignore[operator]
