# The entry point. CMake builds everything (CMakePresets.json); this file calls it and the scripts in the right order.
# Missing system packages are installed first, on Debian and Ubuntu; docs/dependencies.md lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
# Seconds that `make fuzz` gives to each fuzzer, and `make check` to each of its shorter runs.
FUZZ_SECONDS ?= 60
TEST_FUZZ_SECONDS ?= 15
# A shape that tandem-make-checkpoint knows; the checkpoint takes 1.2 GB under build/.
BENCH_SHAPE ?= qwen3-0.6b
PROMPT ?= Tell me a story about a fox named Leo.

TANDEM := build/release/tandem
CMAKE_BUILD := cmake --build

.PHONY: help
help: ## Say what there is to make (this)
	@echo "tandem: a Hugging Face decoder becomes one file that runs in your process"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  JOBS=$(JOBS) (compile jobs), FUZZ_SECONDS=$(FUZZ_SECONDS) (for each fuzzer), PROMPT=\"...\" (for the demo)"

.PHONY: demo
demo: configured ## Build, compile the demo model and let it tell a story
	$(CMAKE_BUILD) build/release --target tandem -j $(JOBS)
	$(TANDEM) compile models/demo -o build/demo.tdm
	$(TANDEM) run build/demo.tdm -p "$(PROMPT)"

# A fresh build folder is configured without the tests, which would need more packages. An existing one is left alone.
.PHONY: configured
configured: deps-build
	@test -f build/release/CMakeCache.txt || cmake --preset release -DTANDEM_TESTS=OFF -DTANDEM_WERROR=OFF

.PHONY: build
build: configured ## Build build/release/tandem and the libraries; then `cmake --install build/release --prefix DIR`
	$(CMAKE_BUILD) build/release --target tandem tandem-qnn-worker tandem_libraries -j $(JOBS)

.PHONY: test-install
test-install: build ## Install into an empty folder and use it from there, with CMake and with pkg-config
	scripts/test_install.sh build/release

# PYTHON names the interpreter; PyPI is needed for what builds the wheel, for numpy and for mypy.
.PHONY: python
python: build ## Make the Python package's wheel in build/python and run its tests in a fresh environment
	@scripts/install_dependencies.sh build python
	scripts/test_python.sh build/release

# Skipped tests are listed at the end, where they are noticed.
.PHONY: test
test: test-release ## Run the tests of the release build; `make check` has those that take longer
	@echo "make test: all passed; \`make check\` has the NPU tests, the sanitizers, the fuzzers and ARM"
	@scripts/skipped_tests.sh build/release

.PHONY: test-release
test-release: deps-test
	cmake --preset release -DTANDEM_TESTS=ON -DTANDEM_WERROR=ON
	$(CMAKE_BUILD) build/release -j $(JOBS)
	ctest --test-dir build/release --output-on-failure --timeout 900 -j $(JOBS) -LE npu

.PHONY: check
check: ## Run what takes longer: headers alone, NPU tests, ASan and UBSan, the fuzzers for a while, ARM's kernels
	@$(MAKE) --no-print-directory check-headers
	@$(MAKE) --no-print-directory test-npu
	@$(MAKE) --no-print-directory test-asan
	@$(MAKE) --no-print-directory test-fuzz
	@$(MAKE) --no-print-directory test-arm
	@echo "make check: all passed"
	@scripts/skipped_tests.sh build/release build/asan

.PHONY: check-headers
check-headers: deps-test ## Compile every header alone
	scripts/check_headers.sh $(JOBS)

# The benchmarks are compiled, so that they stay in step with the code, but not run.
# Without Qualcomm's library everything else is tested, and scripts/skipped_tests.sh lists what was not.
.PHONY: test-npu
test-npu: deps-test deps-bench
	@scripts/install_qnn.sh || echo "make check: going on without Qualcomm's library: the NPU tests will be SKIPPED" >&2
	cmake --preset release -DTANDEM_TESTS=ON -DTANDEM_WERROR=ON -DTANDEM_BENCHMARKS=ON
	$(CMAKE_BUILD) build/release -j $(JOBS)
	ctest --test-dir build/release --output-on-failure --timeout 900 -L npu

# Tests and fuzzers share one build with clang: the libraries are compiled once for both. The command line is excluded:
# it takes long to compile, and its test runs in the release build.
.PHONY: build-asan
build-asan: deps-test
	cmake --preset asan
	$(CMAKE_BUILD) build/asan --target tests/all tools/all fuzz/all -j $(JOBS)

.PHONY: test-asan
test-asan: build-asan
	ctest --test-dir build/asan --output-on-failure --timeout 900 -j $(JOBS) --exclude-regex '^cli'

# Only multi-threaded code: everything would take as long as test-asan.
TSAN_TESTS := test_base test_cpu_execute test_runtime_parallel test_c_api
.PHONY: test-tsan
test-tsan: deps-test ## Look for data races: the thread pool, kernels and sessions in parallel
	cmake --preset tsan
	$(CMAKE_BUILD) build/tsan --target $(TSAN_TESTS) -j $(JOBS)
	build/tsan/tests/test_base --gtest_brief=1 --gtest_filter='ThreadPool.*:Guarded.*:MappingGuard.*'
	build/tsan/tests/test_cpu_execute --gtest_brief=1
	build/tsan/tests/test_runtime_parallel --gtest_brief=1
	build/tsan/tests/test_c_api tests/data/artifact/v1.tdm

.PHONY: test-cpu-only
test-cpu-only: deps-build ## Build a run time with the CPU's back end alone, and see that it refuses other files
	scripts/test_cpu_only.sh $(JOBS)

.PHONY: test-valgrind
test-valgrind: build ## Run the demo model under valgrind: nothing undefined is read, nothing leaks
	@scripts/install_dependencies.sh valgrind
	scripts/test_valgrind.sh $(TANDEM)

.PHONY: test-fuzz
test-fuzz: build-asan
	scripts/run_fuzzers.sh build/asan/fuzz $(TEST_FUZZ_SECONDS) $(JOBS)

# Without a cross compiler and an emulator it says so and continues; REQUIRE_ARM=1 makes that a failure.
REQUIRE_ARM ?= 0
.PHONY: test-arm
test-arm: build ## Compile the run time for 64-bit ARM and test it under emulation
	@scripts/install_dependencies.sh build arm || echo "make test-arm: packages are missing" >&2
	@REQUIRE_ARM=$(REQUIRE_ARM) scripts/test_arm.sh $(JOBS)

.PHONY: fuzz
fuzz: deps-test ## Run every fuzzer for FUZZ_SECONDS
	cmake --preset fuzz
	$(CMAKE_BUILD) build/fuzz --target fuzz/all -j $(JOBS)
	scripts/run_fuzzers.sh build/fuzz/fuzz $(FUZZ_SECONDS) $(JOBS)

.PHONY: bench
bench: deps-bench ## Measure the demo model, one of a real shape, and the kernels
	@test -f build/release/CMakeCache.txt || cmake --preset release -DTANDEM_TESTS=OFF -DTANDEM_WERROR=OFF
	cmake --preset release -DTANDEM_BENCHMARKS=ON
	$(CMAKE_BUILD) build/release --target tandem tandem-make-checkpoint bench/all -j $(JOBS)
	bench/end_to_end.py build/release --shape demo
	bench/end_to_end.py build/release --shape $(BENCH_SHAPE)
	build/release/bench/bench_kernels

QNN_TESTS := test_qnn_api test_qnn_lower test_qnn_execute test_compiler_npu
.PHONY: qnn
qnn: deps-test ## Install Qualcomm's QNN library into build/qnn and run the tests that use it
	scripts/install_qnn.sh
	cmake --preset release -DTANDEM_TESTS=ON
	$(CMAKE_BUILD) build/release --target tandem tandem-qnn-worker $(QNN_TESTS) -j $(JOBS)
	ctest --test-dir build/release --output-on-failure --timeout 900 -L npu
	@scripts/skipped_tests.sh build/release

# Maven's own output is quiet; MAVEN_ARGUMENTS=-o works offline, -Dtandem.generations=10000 runs the whole leak test.
MAVEN_ARGUMENTS ?=
.PHONY: java
java: configured ## Build build/java/tandem.jar and tandem-kotlin.jar, and test them in a JVM
	@scripts/install_dependencies.sh java
	cmake build/release -DTANDEM_JNI=ON > /dev/null
	$(CMAKE_BUILD) build/release --target tandem tandem_jni tandem_jni_test -j $(JOBS)
	$(TANDEM) compile models/demo -o build/demo.tdm --quiet
	scripts/test_java.sh build/release $(MAVEN_ARGUMENTS)

.PHONY: android
android: deps-build ## Build libtandem, libtandem_jni and tandem-runner for phones with the NDK in ANDROID_NDK_HOME
	@test -f "$${ANDROID_NDK_HOME:?set it to the folder of an Android NDK}/build/cmake/android.toolchain.cmake" || \
	  { echo "make android: ANDROID_NDK_HOME=$$ANDROID_NDK_HOME is not the folder of an Android NDK" >&2; exit 1; }
	cmake --preset android-arm64
	$(CMAKE_BUILD) --preset android-arm64 -j $(JOBS)

.PHONY: test-arm-java
test-arm-java: ## After `make java` and `make test-arm`: the Java interface on 64-bit ARM under emulation
	scripts/test_arm_java.sh $(JOBS)

JNI_LIBS ?= build/android-arm64
.PHONY: aar
aar: ## Assemble build/java/tandem.aar from `make java` and JNI_LIBS=FOLDER of libtandem_jni.so for 64-bit ARM
	scripts/make_aar.sh $(JNI_LIBS)

.PHONY: test-qnn-versions
test-qnn-versions: deps-test ## Run NPU tests on each version of Qualcomm's library that PyPI has (slow; 480 MB of downloads)
	cmake --preset release -DTANDEM_TESTS=ON
	$(CMAKE_BUILD) build/release --target tandem tandem-qnn-worker $(QNN_TESTS) -j $(JOBS)
	scripts/test_qnn_versions.sh

.PHONY: lint
lint: deps-lint ## Check formatting, lengths of functions and other cheap rules
	scripts/lint.sh

.PHONY: format
format: deps-lint ## Format all sources in place
	scripts/lint.sh --fix

.PHONY: tidy-changed
tidy-changed: deps-tidy ## Run clang-tidy over the sources that this branch changes
	JOBS=$(JOBS) scripts/tidy_changed.sh

.PHONY: tidy
tidy: deps-tidy ## Run clang-tidy over all sources (slow)
	JOBS=$(JOBS) TIDY_LIMIT=100000 scripts/tidy_changed.sh "$$(git hash-object -t tree /dev/null)"

.PHONY: deps
deps: ## Install all system packages that are missing
	scripts/install_dependencies.sh build test python arm valgrind bench lint tidy

.PHONY: deps-build deps-test deps-bench deps-lint deps-tidy
deps-build deps-test deps-bench deps-lint deps-tidy: deps-%:
	@scripts/install_dependencies.sh build $*

.PHONY: clean
clean: ## Remove build/
	rm -rf build
