#!/usr/bin/env bash
# Runs Molecule scenarios: `local` (those that need no lab), `lab` (from the bottom of the tier to its top), `serving` (those in
# the containers of the serving lab), `all`, or the ones named.
# Each removes its role and what stands on it first, so after the last the tier is whole again.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

anywhere=(switch_config ebof_box)
in_lab=(ebof_target roce_host nvme_host kv_storage mooncake validate)
serving=(inference_vllm inference_router inference_sglang)

scenarios=()
for word in "${@:-all}"; do
  case "$word" in
    local) scenarios+=("${anywhere[@]}") ;;
    lab) scenarios+=("${in_lab[@]}") ;;
    serving) scenarios+=("${serving[@]}") ;;
    all) scenarios+=("${anywhere[@]}" "${in_lab[@]}" "${serving[@]}") ;;
    *) scenarios+=("$word") ;;
  esac
done

# needs NAME...: true when one of these is among the scenarios.
needs() {
  local name
  for name in "$@"; do
    [[ " ${scenarios[*]} " == *" $name "* ]] && return 0
  done
  return 1
}

# A lab that was off is off again afterwards.
leave=()
trap 'for lab in "${leave[@]}"; do g35ctl lab down --kind "$lab"; done' EXIT
# bring_up KIND INVENTORY
bring_up() {
  g35ctl lab status --kind "$1" >/dev/null 2>&1 || leave+=("$1")
  g35ctl lab up --kind "$1" --install-prerequisites
  g35ctl -i "$2" bundle create
}
if needs "${in_lab[@]}"; then bring_up vm inventories/lab; fi
if needs "${serving[@]}"; then bring_up container inventories/serving; fi
for scenario in "${scenarios[@]}"; do
  # Molecule remembers that a scenario was prepared, also from a run that failed, and would skip what removes the role.
  molecule reset --scenario-name "$scenario"
  molecule test --scenario-name "$scenario"
done
