# The two commands that matter: make demo, make test. All building is CMake's (CMakePresets.json); this only calls it.
FUZZ_SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help all demo test fuzz tidy format install fresh clean

help: ## what there is
	@echo "libiter: data iterators for training"
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

all: ## the release build, without tests: build/release
	@scripts/need.sh demo
	@echo "+ cmake --preset release && cmake --build build/release    (log: build/release.log)"
	@scripts/build.sh release

demo: ## build, then CIFAR-10 through both loaders, side by side (installs what is missing)
	@scripts/need.sh demo
	@echo "+ cmake --preset release && cmake --build build/release    (log: build/release.log)"
	@scripts/build.sh release
	@scripts/demo.sh

test: ## all tests: gcc, clang, sanitizers, fuzz corpus, install, style (installs what is missing)
	@scripts/need.sh test
	@scripts/test.sh

fuzz: ## search with every fuzz target, FUZZ_SECONDS=600 each
	@scripts/need.sh test
	@scripts/fuzz.sh $(FUZZ_SECONDS)

tidy: ## clang-tidy over all sources
	@scripts/need.sh tidy
	@cmake --preset clang >/dev/null
	@run-clang-tidy -quiet -p build/clang

format: ## clang-format all sources in place
	@find iter loaders transforms engine bench tools examples tests -name '*.[ch]' -not -path '*/corpus/*' 2>/dev/null | xargs clang-format -i

install: all ## install the release build (PREFIX=/usr/local)
	@cmake --install build/release $(if $(PREFIX),--prefix $(PREFIX))
	@if [ "$$(id -u)" = 0 ] && [ -z "$(PREFIX)$(DESTDIR)" ]; then ldconfig; fi # else the loader does not know of it

fresh: ## make demo and make test on a bare system, in a chroot (root only; FRESH="-s trixie -u needed demo")
	@scripts/fresh.sh $(FRESH)

clean: ## remove build/
	@if [ -d build/fresh ]; then umount -l build/fresh/root/proc build/fresh/root/dev/shm 2>/dev/null || true; fi
	@rm -rf --one-file-system build
