"""The metrics collector is a part of stage fabric where the site asks for it, and nowhere otherwise."""

from __future__ import annotations

import json

from ansible.module_utils.g35.exporter import Settings
from ansible.module_utils.g35.metrics_unit import SETTINGS, TIMER
from ansible.module_utils.g35.schema import load
from sites import box_host, gpu_host, lab_site

from g35ctl.plan.build import build
from g35ctl.plan.model import HostPlan
from g35ctl.site.model import Metrics


def planned(host: HostPlan) -> dict[str, str]:
    assert host.fabric is not None
    return {item.path: item.content for item in host.fabric.files if "metrics" in item.path}


def test_it_is_off_by_default_and_on_where_the_site_says() -> None:
    settings = Metrics(enabled=True, directory="/srv/textfiles", interval=15, drift_interval=60)
    hosts = (box_host(1, 2), gpu_host(1, groups=("gpu_hosts", "mooncake_masters"), metrics=settings), gpu_host(2))
    plan = build(lab_site(*hosts))
    assert planned(plan.host("gpu2")) == {} and planned(plan.host("ebof1")) == {}
    files = planned(plan.host("gpu1"))
    assert load(Settings, json.loads(files[SETTINGS])) == Settings(
        "test", "gpu1", "/srv/textfiles", "/var/lib/g35/flash", 60
    )
    fabric = plan.host("gpu1").fabric
    assert fabric is not None and TIMER in [unit.name for unit in fabric.units]
    service = files["/etc/systemd/system/g35-metrics.service"]
    assert "\nCapabilityBoundingSet=\n" in service and "\nProtectSystem=strict\n" in service
    assert 'ReadWritePaths=-"/srv/textfiles"' in service
    assert "\nOnUnitInactiveSec=15\n" in files["/etc/systemd/system/g35-metrics.timer"]


def test_hosts_without_it_are_not_touched_for_it() -> None:
    on = gpu_host(2, metrics=Metrics(enabled=True))
    one, other = build(lab_site(box_host(1, 2), gpu_host(1))), build(lab_site(box_host(1, 2), gpu_host(1), on))
    assert one.host("gpu1").fabric == other.host("gpu1").fabric
