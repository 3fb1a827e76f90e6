#!/usr/bin/env bash
# A run time with only the CPU's back end (-DTANDEM_BACKENDS=cpu): it builds, contains nothing of the others, loads a
# file for the CPU, and reports what is missing for an NPU's file.
#   scripts/test_cpu_only.sh [JOBS]
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/cpu-only
minimal=$build/examples/minimal
fail() {
  echo "test_cpu_only.sh: $*" >&2
  exit 1
}

# Not optimized: that takes half the time, and nothing here computes much.
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DTANDEM_BACKENDS=cpu \
  -DTANDEM_TESTS=OFF > /dev/null
cmake --build $build --target minimal -j "${1:-$(nproc)}"

# A temporary file instead of a pipe into `grep -q`, whose early exit would count as a failure of the writer.
symbols=$build/symbols.txt
nm -C $minimal > $symbols
grep -q 'tandem::cpu::' $symbols || fail "the example has no CPU back end"
if grep -E 'tandem::(qnn|reference|qnn::abi)::' $symbols; then fail "the example has another back end in it"; fi

$minimal tests/data/artifact/v1.tdm Hello > $build/answer.txt || fail "a file for the CPU was not run"

if said=$($minimal tests/data/artifact/npu.tdm Hello 2>&1); then fail "a file for an NPU was run"; fi
for part in 'back end "qnn"' 'this build has cpu;' '-DTANDEM_BACKENDS="cpu;qnn"'; do
  [[ $said == *"$part"* ]] || fail "\"$part\" is missing in: $said"
done

if cmake -S . -B $build/wrong -G Ninja -DTANDEM_BACKENDS=abacus -DTANDEM_TESTS=OFF > $build/wrong.log 2>&1; then
  fail "an unknown back end was configured"
fi
grep -q 'the back ends are: cpu' $build/wrong.log || fail "the error for an unknown back end does not list those there are"
echo "test_cpu_only.sh: passed"
