# Short names for `python3 tools/bootstrap.py NAME`; what each does is told by `make`.
# Arguments: make test ARGS="tests/kernel -k slots"
PYTHON ?= python3
NAMES := demo serve test test-all lint fix check bench nightly wheel typescript docs screenshots vendor

.PHONY: help $(NAMES)
.DEFAULT_GOAL := help

help $(NAMES):
	@$(PYTHON) tools/bootstrap.py $@ $(ARGS)
