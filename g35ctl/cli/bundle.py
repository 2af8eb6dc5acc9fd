"""``g35ctl bundle``: collect on the controller what hosts without internet need, carry it along, and check it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from g35ctl.cli.common import InventoryOption, inventory_of, output_of, print_data, print_json
from g35ctl.errors import G35Error
from g35ctl.exits import Exit

app = typer.Typer(help="Collect what hosts without internet need", no_args_is_help=True)

_DISTRIBUTION, _RELEASE = "mooncake-transfer-engine-non-cuda", "0.3.13.post1"


@app.command()
def create(
    ctx: typer.Context,
    into: Annotated[Path | None, typer.Option("--into", help="Make a bundle to carry, in this directory")] = None,
    debian: Annotated[
        list[str] | None, typer.Option("--debian", help="RELEASE=MIRROR: its packages too (with --into; repeatable)")
    ] = None,
    rpm: Annotated[
        list[str] | None, typer.Option("--rpm", help="RELEASE: packages through dnf too (with --into; repeatable)")
    ] = None,
    image: Annotated[
        list[str] | None, typer.Option("--image", help="Container image by name (with --into; repeatable)")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Make one wheelhouse, in this directory, whatever the site needs")
    ] = None,
    distribution: Annotated[str | None, typer.Option(help=f"Wheel variant [default: {_DISTRIBUTION}]")] = None,
    release: Annotated[str | None, typer.Option("--release", help=f"Release [default: {_RELEASE}]")] = None,
    python: Annotated[
        list[str] | None, typer.Option("--python", help="3.N or 3.N/aarch64 (repeatable) [default: 3.11]")
    ] = None,
    extra: Annotated[
        list[str] | None, typer.Option("--with", help="NAME==VERSION into the same wheelhouse (repeatable)")
    ] = None,
    inventory: InventoryOption = None,
) -> None:
    """Download what the site's hosts need, with a manifest; does nothing when it is there already.

    Without options the wheels land where deploys of this controller look for them. With --into they are collected in a
    directory to carry to a controller without internet. --output, --distribution, --release, --python and --with make a
    single wheelhouse without asking the site.
    """
    from g35ctl.bundle import wheelhouse

    single = bool(output or distribution or release or python or extra)
    wants = bool(debian or rpm or image)
    if wants and into is None:
        raise typer.BadParameter("--debian, --rpm and --image need --into")
    if single and into is not None:
        raise typer.BadParameter("--into collects what the site says: set g35_mooncake there instead")
    path = inventory_of(ctx, inventory)
    if into is not None:
        _collect(ctx, path, into, tuple(debian or ()), tuple(rpm or ()), tuple(image or ()))
        return
    from g35ctl.engine.planning import is_site

    targets = tuple(wheelhouse.Target.parse(item) for item in python or ("3.11",))
    if not single and Path(path).exists() and is_site(path):
        from g35ctl.bundle.needs import wheels_needed

        _, needs = wheels_needed(path)
        houses = [wheelhouse.create(item.directory, item.distribution, item.version, item.targets) for item in needs]
    else:
        name, version = distribution or _DISTRIBUTION, release or _RELEASE
        place = output or wheelhouse.default_directory(name, version)
        houses = [wheelhouse.create(place, name, version, targets, extras=tuple(extra or ()))]
    if output_of(ctx, None) != "text":
        print_json({"ok": True, "wheelhouse": asdict(houses[0]), "wheelhouses": [asdict(made) for made in houses]})
        return
    for made in houses:
        total = sum(entry.size for entry in made.wheels) / 2**20
        print_data(f"{made.directory}: {len(made.wheels)} wheels for {', '.join(made.targets)}, {total:.1f} MiB")


def _collect(
    ctx: typer.Context, path: str, into: Path, debian: tuple[str, ...], rpm: tuple[str, ...], images: tuple[str, ...]
) -> None:
    from g35ctl.bundle import carried, needs, packages
    from g35ctl.engine.planning import make_plan

    site, wanted = needs.wheels_needed(path)
    plan = make_plan(path)[1]
    repositories: list[packages.Repository] = []
    for item in debian:
        name, _, mirror = item.partition("=")
        if not mirror:
            raise typer.BadParameter(f"{item!r} is not RELEASE=MIRROR", param_hint="--debian")
        repositories.append(packages.DebianPackages(name, mirror, needs.packages_needed(plan, "debian")))
    repositories += [packages.RpmPackages(name, needs.packages_needed(plan, "redhat")) for name in rpm]
    made = carried.create(into, site, wanted, repositories=repositories, images=packages.Images(images))
    if output_of(ctx, None) != "text":
        print_json({"ok": True, "bundle": asdict(made)})
        return
    for kind in ("wheel", "package", "image"):
        found = [item for item in made.items if item.kind == kind]
        if found:
            print_data(f"{len(found)} {kind}s, {sum(item.size for item in found) / 2**20:.1f} MiB")
    print_data(f"{made.directory}: bundle of site {made.site}, {made.size / 2**20:.1f} MiB")


@app.command()
def verify(
    ctx: typer.Context, directory: Annotated[Path, typer.Argument(help="A bundle, or a single wheelhouse")]
) -> None:
    """Compare a bundle or a wheelhouse with its manifest: every digest, every size, nothing more and nothing less."""
    from g35ctl.bundle import carried, wheelhouse

    bundle = carried.is_bundle(directory)
    found = carried.problems(directory) if bundle else wheelhouse.problems(directory)
    if found:
        how = f"--into {directory}" if bundle else f"--output {directory}"
        raise G35Error(
            f"{directory} is not what its manifest says",
            why="\n".join(found),
            next_command=f"remove the directory and run: g35ctl bundle create {how}",
            exit_code=Exit.DEPLOY_FAILED,
        )
    if output_of(ctx, None) == "text":
        print_data(f"{directory}: complete and unaltered")
    else:
        print_json({"ok": True})


@app.command()
def install(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(help="The bundle")],
    inventory: InventoryOption = None,
) -> None:
    """Verify a bundle and put its wheels where deploys of this controller look for them. Needs no network."""
    from g35ctl.bundle import carried
    from g35ctl.bundle.needs import wheels_needed

    _, wanted = wheels_needed(inventory_of(ctx, inventory))
    houses = carried.install(directory, wanted)
    if output_of(ctx, None) != "text":
        print_json({"ok": True, "wheelhouses": [asdict(made) for made in houses]})
        return
    for made in houses:
        print_data(f"{made.directory}: {len(made.wheels)} wheels for {', '.join(made.targets)}")
