# Every target but help first sets up .venv, once: tools/setup_venv.py does nothing
# when .venv already matches requirements.txt and pyproject.toml. All but lab and setup
# install requirements-dev.txt, too.
# ARGS="…" passes further arguments on: make lab ARGS="--no-browser --port 8899".
# TORCH=cpu or TORCH=cuda replaces .venv's build of PyTorch: make lab TORCH=cuda.

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev lab check test test-long test-seeds test-math test-stored \
	test-book test-export test-colab test-newest studies run lint bench book publish

# The first Python that the course supports; else python3, whose error says the rest.
# .venv's own starts fastest: what python3 names may be a script that looks for one.
suitable = for p in $(VENV) python3 python3.13 python3.12 python3.11; do \
	"$$p" tools/setup_venv.py --suitable >/dev/null 2>&1 && echo "$$p" && break; done
PYTHON ?= $(or $(shell $(suitable)),python3)
VENV := .venv/bin/python
FIRST := /lab/tree/notebooks/00_start_here.ipynb

help: ## list what make can do here
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## create .venv and install requirements.txt, if that is not done yet
	@$(PYTHON) tools/setup_venv.py

setup-dev: ## the same with requirements-dev.txt, for every target but lab
	@$(PYTHON) tools/setup_venv.py --dev

# Two open lessons share the cores: threads that wait must not spin on them for long, and
# memory that is freed stays at hand (see tools/reproducible.py). The math path is that of
# the stored outputs: it gives their digits, and bfloat16 runs where a virtual machine
# announces Intel's AMX without having it.
MATH := MKL_CBWR=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2
# In a container the user is often root, whom JupyterLab turns away by default.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)
lab: setup ## open the course in JupyterLab, on lesson 00
	@$(if $(AS_ROOT),echo "Root gives --allow-root: JupyterLab listens on localhost only.")
	GOMP_SPINCOUNT=3000 MALLOC_TRIM_THRESHOLD_=1073741824 MALLOC_MMAP_THRESHOLD_=1073741824 \
	$(MATH) \
	$(VENV) -m jupyterlab --notebook-dir=. --LabApp.default_url=$(FIRST) $(AS_ROOT) $(ARGS)

# Python keeps what it compiled, where an image says otherwise, too: the optimizer's first
# step alone imports 800 modules.
export PYTHONDONTWRITEBYTECODE :=

# A process for each core, up to four; what goes to which, conftest.py says.
PARALLEL := -n auto --maxprocesses 4
LESSON_FILES = notebooks/$(LESSON)_*.ipynb notebooks/solutions/$(LESSON)_*.ipynb \
	tests/test_notebooks.py tests/test_exercise.py $(wildcard tests/test_lesson$(LESSON)*.py)

check: lint ## check helpers and pages in a minute or so; LESSON=02 a lesson, executed
ifdef LESSON
	$(VENV) -m pytest -q $(PARALLEL) $(LESSON_FILES) -k "$(LESSON)_ or -$(LESSON) or lesson$(LESSON)"
else
	$(VENV) -m pytest -q $(PARALLEL) -m "not slow and not long" tests \
		--ignore-glob "*/test_exercise*" --ignore-glob "*/test_lesson*" $(ARGS)
endif

test: lint ## check everything: style, helpers, check-up, and every notebook's outputs
	$(VENV) -m pytest $(PARALLEL) $(ARGS)

# Hours; with -k, make goes on after a part that failed.
LONG := test-seeds test-math test-stored test-book test-export test-colab \
	test-newest studies
test-long: lint $(LONG) ## check with more seeds, packages, a browser, and every study

test-seeds: setup-dev ## all tests but notebooks with five seeds, the long ones, too
	$(VENV) -m pytest $(PARALLEL) --seeds 5 -m "" tests checkup/tests $(ARGS)

test-math: setup-dev ## run every notebook on the machine's own math path
	COURSE_MATH=own $(VENV) -m pytest $(PARALLEL) notebooks $(ARGS)

test-stored: setup-dev ## train the stored translators anew and compare
	$(VENV) -m tools.stored --check

# Sphinx has an environment of its own, which no lesson needs.
SPHINX := .cache/book
$(SPHINX)/stamp: book/requirements.txt
	$(PYTHON) -m venv --clear $(SPHINX)
	$(SPHINX)/bin/python -m pip install --quiet --requirement $<
	touch $@

book: setup-dev $(SPHINX)/stamp ## build the course as a site (ARGS=--serve opens it)
	$(VENV) -m book $(ARGS)

test-book: setup-dev $(SPHINX)/stamp ## open every page of the book in a browser (needs Chromium)
	$(VENV) -m pytest tests/book $(ARGS)

# An engine that only the export needs; .venv stays as it is.
CTRANSLATE2 := .cache/ctranslate2
test-export: setup-dev ## export a translator to CTranslate2 and compare (fetches it)
	$(VENV) -m pip install --quiet --no-deps --upgrade --target $(CTRANSLATE2) \
	ctranslate2==4.8.5
	PYTHONPATH=$(CTRANSLATE2) $(VENV) -m pytest tests/test_translator_export.py $(ARGS)

test-colab: setup-dev ## run every lesson as Colab would (ARGS=--colab-torch: its torch too)
	$(VENV) -m tools.colab $(ARGS)

# d2l keeps its pin: the reading is of this release, and later ones pin old packages.
NEWEST := .cache/newest
test-newest: setup-dev ## check everything with the newest release of each package
	$(PYTHON) -m venv --clear $(NEWEST)
	sed '/^-r/d; /^d2l/!s/==.*//' requirements.txt requirements-dev.txt > $(NEWEST)/requirements.txt
	$(NEWEST)/bin/python -m pip install --quiet --requirement $(NEWEST)/requirements.txt
	$(NEWEST)/bin/python -m pytest $(PARALLEL) $(ARGS)

studies: setup ## run the studies and store their tables (NAME=… for one, CHECK=1 compares)
	PYTHONPATH=$(CTRANSLATE2) $(VENV) -m tools.studies $(if $(CHECK),--check) $(NAME)

run: setup-dev ## execute all notebooks and store their outputs (ARGS="path …" for some)
	$(VENV) -m tools.notebooks $(ARGS)

lint: setup-dev ## check style and format of code and notebooks
	$(VENV) -m ruff check .
	$(VENV) -m ruff format --check .

bench: setup-dev ## measure speed and memory beside others (ARGS=course: every lesson)
	$(VENV) -m benchmarks $(ARGS)

publish: setup-dev ## stamp URL=https://github.com/<owner>/<name> into cells and badges
	$(VENV) -m tools.publish $(URL) $(TAG)
