# Verbs only; the build itself is Meson's. Every verb installs what is missing first (tools/deps).
PYTHON ?= /usr/bin/python3
BUILD  ?= build
ASAN   ?= build-asan
export PYTHON BUILD

.PHONY: help deps build demo check check-unit check-asan check-api check-crash lint format bench run clean

help:
	@echo "make demo    build, serve, upload and read back real files both ways, compare every byte"
	@echo "make check   build and run every test"
	@echo "make bench   the benchmark table (takes some minutes)"
	@echo "make run     serve in the foreground on 127.0.0.1:9000"
	@echo "make build, deps, format, lint, check-unit, check-asan, check-api, check-crash, clean"

deps:
	@tools/deps

$(BUILD)/build.ninja: | deps
	meson setup $(BUILD) >/dev/null

$(ASAN)/build.ninja: | deps
	meson setup $(ASAN) -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

build: deps $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

demo: build
	@$(PYTHON) tools/demo.py $(BUILD)/src/cli/penstock

run: build
	$(BUILD)/src/cli/penstock serve --data ./penstock-data --listen 127.0.0.1:9000

check: lint check-unit check-asan check-api check-crash
	@echo "check: all of it passed"

check-unit: build
	meson test -C $(BUILD) --suite unit --suite fuzz --print-errorlogs

check-asan: deps $(ASAN)/build.ninja
	@ninja -C $(ASAN) --quiet
	meson test -C $(ASAN) --suite unit --suite fuzz --print-errorlogs --timeout-multiplier 4

check-api: build
	$(PYTHON) -m pytest -q tests/api

check-crash: build
	$(PYTHON) -m pytest -rP tests/crash

lint: deps
	tools/lint

format: deps
	git ls-files '*.c' '*.h' | xargs clang-format -i

bench: build
	$(PYTHON) bench/bench.py $(BUILD)/src/cli/penstock

clean:
	rm -rf $(BUILD) $(ASAN)
