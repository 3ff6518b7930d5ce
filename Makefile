# Two commands do everything on a fresh machine: `make demo` and `make test`. Both first make the environment.
# PYTHON=python3.12 make TARGET uses that interpreter, in an environment of its own (.venv-python3.12).

PYTHON ?= python3
VENV ?= .venv$(if $(filter python3 python,$(notdir $(PYTHON))),,-$(notdir $(PYTHON)))

BENCHMARKS ?= inprocess fairness batching growth memory scaling ocr llm_scheduling load_engine
COMPARED ?= inprocess fairness batching
FREE_THREADED ?= python3.13t
TRITON_PYTHON ?= /usr/bin/python3.11

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format bench bench-compare bench-http asan tsan free-threaded chaos fuzz fuzz-serve docs site site-serve wheels wheels-check wheels-reproduce clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup:  ## make .venv with everything that tests, examples and benchmarks need
	@tools/setup.sh $(VENV) $(PYTHON)

demo: setup  ## read the text of real pictures (examples/01_ocr)
	@tools/demo.sh $(VENV)

test: setup  ## run all checks: ruff, clang-format, mypy, ctest, pytest
	@tools/check_system.sh $(PYTHON) tests
	@tools/test.sh $(VENV)

lint: setup  ## check style, format and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	tools/clang_format.sh $(VENV) --dry-run --Werror
	$(VENV)/bin/mypy

format: setup  ## format Python and C++
	$(VENV)/bin/ruff check --fix-only .
	$(VENV)/bin/ruff format .
	tools/clang_format.sh $(VENV) -i

bench: setup  ## measure; BENCHMARKS="batching growth" picks some
	@mkdir -p benchmarks/results
	@for name in $(BENCHMARKS); do \
		printf '\n==> benchmarks/%s.py\n' $$name; \
		$(VENV)/bin/python benchmarks/$$name.py --json benchmarks/results/$$name.jsonl || exit 1; \
	done

bench-compare: setup  ## the same beside peers, which get environments of their own
	@mkdir -p benchmarks/results
	@tools/peer_environment.sh .peers/omniback $(PYTHON) omniback==0.2.24 \
		$$($(VENV)/bin/python -m pip freeze --disable-pip-version-check | grep -E '^(numpy|onnxruntime)==')
	@for name in $(COMPARED); do \
		printf '\n==> benchmarks/%s.py\n' $$name; \
		$(VENV)/bin/python benchmarks/$$name.py --omniback .peers/omniback/bin/python \
			--json benchmarks/results/$$name.jsonl || exit 1; \
	done

bench-http: setup  ## `hami serve` beside other servers (needs wrk; TRITON_PYTHON: a Python 3.11.0 to 3.11.5)
	@mkdir -p benchmarks/results
	@tools/server_environments.sh .peers $(VENV) $(PYTHON) $(TRITON_PYTHON)
	@$(VENV)/bin/python benchmarks/servers.py --peers .peers --json benchmarks/results/servers.jsonl

asan: setup  ## run the tests with AddressSanitizer
	@tools/sanitize.sh $(VENV) address

tsan: setup  ## run the tests with ThreadSanitizer
	@tools/sanitize.sh $(VENV) thread

free-threaded:  ## run the tests of the runtime on a Python without the GIL, if there is one (FREE_THREADED=python3.13t)
	@tools/free_threaded.sh $(FREE_THREADED)

chaos: setup  ## send a million requests through errors, cancels, deadlines and sudden closes
	HAMI_CHAOS_REQUESTS=$${HAMI_CHAOS_REQUESTS:-1000000} $(VENV)/bin/python -m pytest tests/flow/test_chaos.py -s \
		-o faulthandler_timeout=0

fuzz: setup  ## parse a million random texts, plan a million steps of a language model, ask servers a hundred thousand times
	HAMI_FUZZ_EXAMPLES=1000000 $(VENV)/bin/python -m pytest tests/parser -k fuzz --timeout=0
	tools/build_cpp_tests.sh $(VENV) build/cpp
	HAMI_FUZZ_STEPS=1000000 $(VENV)/bin/ctest --test-dir build/cpp -R llm_fuzz --verbose
	$(MAKE) fuzz-serve VENV=$(VENV)

fuzz-serve:
	HAMI_FUZZ_REQUESTS=$${HAMI_FUZZ_REQUESTS:-2000} $(VENV)/bin/python -m pytest tests/serve/test_fuzzed_requests.py \
		-o faulthandler_timeout=0

docs: setup  ## write docs/backends.md from the declarations of the backends, and draw the pictures of the examples
	$(VENV)/bin/python tools/write_backend_docs.py
	$(VENV)/bin/python examples/fetch_models.py
	$(VENV)/bin/python tools/draw_examples.py

site: setup  ## build the documentation as a site into build/site; a link that leads nowhere is an error
	$(VENV)/bin/python -m mkdocs build --strict

site-serve: setup  ## show the site at http://127.0.0.1:8000 while you write
	$(VENV)/bin/python -m mkdocs serve

wheels:  ## build into dist/ the wheels for manylinux2014 and manylinux_2_28, for every CPython found, and an sdist
	@wheels/build.sh

wheels-check:  ## prove the wheels in dist/: tags, symbols, size, and a pipeline in clean environments
	@wheels/check.sh

wheels-reproduce:  ## build the wheels in dist/ once more, in another place, and compare the bytes
	@wheels/reproduce.sh

clean:  ## remove what builds leave behind, environments excepted
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
