# Two commands matter: `make demo` (a whole tier in the virtual machine lab) and `make test` (everything that proves it).
SHELL := /bin/bash
BIN := .venv/bin
LAB := inventories/lab
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo test setup lint unit package browser playbooks roles lab-test molecule upstream serving soak docs bench clean help

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## Python environment in .venv
	@tools/bootstrap.sh

demo: setup ## Build or reuse the lab image, boot the lab, deploy, print the verdict and the report's path
	@$(BIN)/g35ctl lab up --install-prerequisites
	@$(BIN)/g35ctl -i $(LAB) bundle create
	@$(BIN)/g35ctl -i $(LAB) deploy --yes

test: lint unit playbooks package browser roles upstream lab-test ## Everything that runs in continuous integration

lint: setup ## Formatting, types, playbooks, YAML, shell, generated documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/yamllint --strict .
	$(BIN)/ansible-lint --offline
	$(BIN)/python docs/generate.py --check

unit: setup ## Fast tests: no root, no network, no lab
	$(BIN)/pytest tests/unit -n 2

playbooks: setup ## Real ansible-playbook on this machine alone: what runs leave behind, secrets, mitogen
	$(BIN)/pytest tests/playbooks -n 2

package: setup ## The wheel, installed into an empty environment outside the checkout
	$(BIN)/pytest tests/package

browser: setup ## The report in headless Chromium: silent, alone, every chart drawn, readable on paper
	@tools/browser.sh
	$(BIN)/pytest tests/browser

lab-test: setup ## End to end in the virtual machine lab
	$(BIN)/pytest tests/lab -v -m 'lab and not soak'

roles: setup ## The roles that need no lab, each on its own: check mode, converge, idempotence, verify
	tools/molecule.sh local

mooncake: setup ## The published wheel on the loopback device: two masters, a killed leader, restarts of a store
	$(BIN)/pytest tests/mooncake -v -m mooncake

molecule: setup ## Every role on its own, those with kernel parts in the virtual machine lab
	tools/molecule.sh

upstream: setup ## Every argument list and file of engines and routers, read by the published packages (fetched once)
	$(BIN)/pytest tests/upstream

serving: setup ## The serving lab: containers with a real engine on the CPU, three cache paths
	$(BIN)/pytest tests/lab/test_serving.py -v -m serving

soak: setup ## The long matrices: interruptions in every stage, reboots, faults, suites, fleet life (hours in emulation)
	$(BIN)/pytest tests/lab -v -m soak

docs: setup ## Regenerate the variable reference and the roles' argument specs
	$(BIN)/python docs/generate.py

bench: setup ## Figures (never asserted)
	$(BIN)/python tests/bench/plan_scale.py
	$(BIN)/python tests/bench/deploy_scale.py --hosts 10

clean: ## Remove what builds and tests left in the tree
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
