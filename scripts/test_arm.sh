#!/usr/bin/env bash
# Compiles the CPU back end for 64-bit ARM (preset arm64) and tests it under qemu's emulation: test_arm.sh [JOBS]
# Each instruction set's kernels run on the oldest CPU that should support them; a CPU must not be offered kernels that
# it lacks. Emulation shows whether results are right; it says nothing about speed or about ARM's memory ordering.
# If a compiler or an emulator is missing, this says so and succeeds, unless REQUIRE_ARM=1.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${1:-$(nproc)}
build=build/arm64

for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  if ! command -v "$tool" > /dev/null; then
    echo "test_arm.sh: SKIPPED, because there is no $tool here: ARM's kernels were not tested" >&2
    [[ ${REQUIRE_ARM:-0} != 1 ]] || exit 1
    exit 0
  fi
done

cmake --preset arm64 > /dev/null
cmake --build "$build" --target test_cpu_kernels test_cpu_execute -j "$jobs"

# on_cpu CPU "ITS TABLES" LEFT_OUT: all tests except those that the filter excludes, since they run on an older CPU.
on_cpu() {
  local run=(env TANDEM_EXPECTED_ISAS="$2" qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu "$1")
  local log=$build/test_$1.log
  if "${run[@]}" "$build/tests/test_cpu_kernels" --gtest_filter="*-$3" > "$log" 2>&1 &&
    "${run[@]}" "$build/tests/test_cpu_execute" >> "$log" 2>&1; then
    echo "$1 ($2): $(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?\.$/\1/p' "$log" | paste -sd+) tests passed"
  else
    cat "$log"
    echo "$1 ($2): FAILED" >&2
    return 1
  fi
}

on_cpu cortex-a53 "portable neon" "" &
cpus=($!)
on_cpu cortex-a76 "portable neon dotprod" "*/portable:*/neon" &
cpus+=($!)
on_cpu max "portable neon dotprod i8mm" "*/portable:*/neon:*/dotprod" &
cpus+=($!)
failed=0
for cpu in "${cpus[@]}"; do wait "$cpu" || failed=1; done
((failed == 0)) || exit 1
echo "test_arm.sh: passed under emulation; the rest of the tests was not compiled for ARM"
