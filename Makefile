# make builds, make demo shows it, make test tests it. All building is CMake's (CMakePresets.json); this file only calls it.
FUZZ_SECONDS ?= 600
STEP ?= build

.DEFAULT_GOAL := all
.PHONY: help all deps demo test wheel fuzz tidy docs onednn format install fresh clean

help: ## this list
	@echo "libiter: data iterators for training"
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

all: ## the release build, without tests, in build/release (the default; installs nothing)
	@scripts/need.sh -n build
	@echo "+ cmake --preset release && cmake --build build/release    (log: build/release.log)"
	@scripts/build.sh release

deps: ## install what a build needs, by apt, as root or with sudo (STEP=test, docs, wheel: what those need)
	@echo "+ scripts/need.sh $(STEP)    (installs what is missing)"
	@scripts/need.sh $(STEP)

demo: ## make deps, build, then CIFAR-10 through both loaders in turns, a small trainer, photos
	@$(MAKE) --no-print-directory deps STEP=build
	@$(MAKE) --no-print-directory all
	@scripts/demo.sh

test: ## make deps, then all tests: gcc, clang, sanitizers, fuzz corpus, install, style
	@$(MAKE) --no-print-directory deps STEP=test
	@scripts/test.sh

wheel: ## make deps, then the Python wheel in dist/, with the library, iterbench and iterpack
	@$(MAKE) --no-print-directory deps STEP=wheel
	@scripts/wheel.sh

fuzz: ## make deps, then search with every fuzz target, FUZZ_SECONDS=600 each
	@$(MAKE) --no-print-directory deps STEP=test
	@scripts/fuzz.sh $(FUZZ_SECONDS)

tidy: ## make deps, then clang-tidy over all sources
	@$(MAKE) --no-print-directory deps STEP=tidy
	@cmake --preset clang >/dev/null
	@run-clang-tidy -quiet -p build/clang

docs: ## make deps, then the documentation with the reference: build/docs/index.html
	@$(MAKE) --no-print-directory deps STEP=docs
	@scripts/docs.sh

onednn: ## make deps, then oneDNN 3.2, by pip, to PREFIX=/usr/local: with AVX2 the next make has a faster trainer
	@$(MAKE) --no-print-directory deps STEP=onednn
	@scripts/onednn.sh $(PREFIX)

format: ## clang-format all sources in place
	@find iter loaders transforms engine diagnose bench tools examples tests -name '*.[ch]' -not -path '*/corpus/*' 2>/dev/null | xargs clang-format -i

install: all ## install the release build (PREFIX=/usr/local)
	@cmake --install build/release $(if $(PREFIX),--prefix $(PREFIX))
	@if [ "$$(id -u)" = 0 ] && [ -z "$(PREFIX)$(DESTDIR)" ]; then ldconfig; fi # else the loader does not find the library

fresh: ## make demo and make test on a bare system, in a chroot (as root; FRESH="-s trixie -u needed demo")
	@scripts/fresh.sh $(FRESH)

clean: ## remove build/ and dist/
	@if [ -d build/fresh ]; then umount -l build/fresh/root/proc build/fresh/root/dev/shm 2>/dev/null || true; fi
	@rm -rf --one-file-system build dist
