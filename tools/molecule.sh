#!/usr/bin/env bash
# Runs the Molecule scenarios from the bottom of the tier to its top, or the ones named.
# Each removes its role and what stands on it first, so after the last the tier is whole again.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

scenarios=("$@")
if [ ${#scenarios[@]} -eq 0 ]; then
  scenarios=(switch_config ebof_target roce_host nvme_host kv_storage mooncake)
fi

# A lab that was off is off again afterwards.
if ! g35ctl lab status >/dev/null 2>&1; then
  trap 'g35ctl lab down' EXIT
fi
g35ctl lab up --install-prerequisites
g35ctl -i inventories/lab bundle create
for scenario in "${scenarios[@]}"; do
  molecule test --scenario-name "$scenario"
done
