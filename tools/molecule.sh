#!/usr/bin/env bash
# Runs Molecule scenarios: `local` (those that need no lab), `lab` (from the bottom of the tier to its top), or the ones named.
# Each of the lab's removes its role and what stands on it first, so after the last the tier is whole again.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

anywhere=(switch_config ebof_box)
in_lab=(ebof_target roce_host nvme_host kv_storage mooncake validate)

scenarios=()
for word in "${@:-all}"; do
  case "$word" in
    local) scenarios+=("${anywhere[@]}") ;;
    lab) scenarios+=("${in_lab[@]}") ;;
    all) scenarios+=("${anywhere[@]}" "${in_lab[@]}") ;;
    *) scenarios+=("$word") ;;
  esac
done

needs_lab=no
for scenario in "${scenarios[@]}"; do
  [[ " ${anywhere[*]} " == *" $scenario "* ]] || needs_lab=yes
done

if [ "$needs_lab" = yes ]; then
  # A lab that was off is off again afterwards.
  if ! g35ctl lab status >/dev/null 2>&1; then
    trap 'g35ctl lab down' EXIT
  fi
  g35ctl lab up --install-prerequisites
  g35ctl -i inventories/lab bundle create
fi
for scenario in "${scenarios[@]}"; do
  molecule test --scenario-name "$scenario"
done
