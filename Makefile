# Every target but help first sets up .venv, once: tools/setup_venv.py does nothing
# when .venv already matches requirements.txt and pyproject.toml.
# ARGS="…" passes further arguments on: make lab ARGS="--no-browser --port 8899".

.DEFAULT_GOAL := help
.PHONY: help setup lab test test-browser test-colab run lint bench publish

# The first Python that the course supports; else python3, whose error says the rest.
suitable = for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" tools/setup_venv.py --suitable >/dev/null 2>&1 && echo "$$p" && break; done
PYTHON ?= $(or $(shell $(suitable)),python3)
VENV := .venv/bin/python
FIRST := /lab/tree/notebooks/00_start_here.ipynb

help: ## list what make can do here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## create .venv and install requirements.txt, if that is not done yet
	@$(PYTHON) tools/setup_venv.py

# Two open lessons share the cores: threads that wait must not spin on them for long, and
# memory that is freed stays at hand (see tools/reproducible.py).
lab: setup ## open the course in JupyterLab, on lesson 00
	GOMP_SPINCOUNT=3000 MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824 \
	$(VENV) -m jupyterlab --notebook-dir=. --LabApp.default_url=$(FIRST) $(ARGS)

# A process for each core, up to four, and each file, notebooks too, in one of them.
PARALLEL := -n auto --maxprocesses 4 --dist loadfile

test: lint ## check everything: style, helpers, laws, and every notebook's outputs
	$(VENV) -m pytest $(PARALLEL) $(ARGS)

test-browser: setup ## open a lesson in a browser and move its widgets (needs Chromium)
	$(VENV) -m pytest tests/browser $(ARGS)

test-colab: setup ## run every lesson as Colab would (ARGS=--colab-torch: its torch too)
	$(VENV) -m tools.colab $(ARGS)

run: setup ## execute all notebooks and store their outputs (ARGS="path …" for some)
	$(VENV) -m tools.notebooks run $(ARGS)

lint: setup ## check style and format of code and notebooks
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check .

bench: setup ## measure speed, memory and growth beside others (ARGS=toy, course: more)
	$(VENV) -m benchmarks $(ARGS)

publish: setup ## stamp URL=https://github.com/<owner>/<name> into cells and badges
	$(VENV) -m tools.publish $(URL) $(TAG)
