"""What a bundle collects for the hosts of a site."""

from __future__ import annotations

import pytest
import tier_sample

from g35ctl.bundle.needs import packages_needed


@pytest.mark.parametrize(("family", "pinger"), [("debian", "iputils-ping"), ("redhat", "iputils")])
def test_hosts_without_internet_get_what_stages_and_suites_use(family: str, pinger: str) -> None:
    packages = packages_needed(tier_sample.plan(), family)
    assert {"nvme-cli", "xfsprogs", "nftables", "perftest", "fio", pinger} <= set(packages)
