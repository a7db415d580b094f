PYTHON ?= python3
BIN := .venv/bin
WITH := .venv/.with-

.PHONY: help run test docs coverage bench clean

help:
	@echo "make run       the paper's Figure 2, five seeds at full length: one to two minutes, a table and a page"
	@echo "make test      check style, types and layers, and run all tests but the longest, which .ci/bounds has"
	@echo "make docs      build the documentation site, build/site/index.html: a few minutes"
	@echo "make coverage  which lines of src no test reaches; compiled loops are not counted"
	@echo "make bench     measure speed, memory and accuracy"
	@echo "make clean     remove .venv and everything that was built"
	@echo
	@echo "The first of run, test, docs, coverage and bench sets up .venv, which takes a few minutes."
	@echo "Another Python (3.11 or newer): make PYTHON=/path/to/python run"

run: $(WITH)mujoco,report
	$(BIN)/fpi reproduce figure2 --engine compiled

test: $(WITH)dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pytest -m "not long"

docs: $(WITH)docs
	rm -rf build/site
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d build/doctrees docs build/site
	@echo "Open build/site/index.html"

coverage: $(WITH)dev
	$(BIN)/pytest -m "" -k "not ctrl_c" --cov --cov-report=term-missing:skip-covered

bench: $(WITH)dev
	$(BIN)/python -m benchmarks

.NOTPARALLEL: # there is one .venv

# fpi and the extras in the name of the stamp, which is touched last: an install that broke off is done again.
$(WITH)%: pyproject.toml
	@command -v $(PYTHON) > /dev/null || { echo "fpi needs Python 3.11 or newer, and there is no $(PYTHON) here." \
		"Install it, or name another: make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("fpi needs Python 3.11 or newer, and \
	$(PYTHON) is %d.%d. Name another: make PYTHON=/path/to/python" % sys.version_info[:2])'
	@echo "Setting up .venv for [$*]; this takes a few minutes and happens once."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

clean:
	rm -rf .venv build dist .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
