#!/usr/bin/env bash
# Compiles the run-time half for 64-bit ARM (preset arm64) and tests it under qemu's emulation: test_arm.sh [JOBS]
# The CPU back end's tests, and the demo model through tandem-runner: its tokens are those of this machine.
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
cmake --build "$build" --target test_cpu_kernels test_cpu_execute test_c_api tandem_shared tandem-runner -j "$jobs"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
emulate=(qemu-aarch64 -L /usr/aarch64-linux-gnu)

# The library as an app ships it: Android 15 and later load none that is aligned to less than 16 KB.
library=$build/libtandem.so
aarch64-linux-gnu-strip -o "$work/stripped" "$library"
echo "libtandem.so for ARM: $(stat -c %s "$work/stripped") bytes stripped"
for alignment in $(readelf -lW "$library" | awk '$1 == "LOAD" {print $NF}'); do
  ((alignment >= 16384)) || { echo "test_arm.sh: libtandem.so is not aligned to 16 KB" >&2; exit 1; }
done

# Greedy tokens of the demo model, without and with quantized weights. In float all kernels agree to the bit; with
# quantized weights the portable ones do, and wider vectors add in another order.
for recipe in fp32 w4; do
  build/release/tandem compile models/demo -o "$work/$recipe.tdm" --recipe "$recipe" -q
  tell=(run "$work/$recipe.tdm" -p "Tell me a story about a fox named Leo." --greedy --json)
  "${emulate[@]}" "$build/tandem-runner" "${tell[@]}" > "$work/arm.json"
  TANDEM_ISA=portable build/release/tandem "${tell[@]}" > "$work/here.json"
  python3 - "$work/arm.json" "$work/here.json" <<< '
import json, sys
arm, here = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(0 if arm["tokens"] == here["tokens"] and len(here["tokens"]) > 50 else "other tokens on ARM than here")'
  echo "demo model, $recipe: the same tokens on ARM and here"
done
"${emulate[@]}" "$build/tests/test_c_api" tests/data/artifact/v1.tdm
"${emulate[@]}" "$build/tandem-runner" probe "$work/w4.tdm" | tee "$work/probe"
grep -q "^cpu" "$work/probe"

# on_cpu CPU "ITS TABLES" LEFT_OUT: all tests except those that the filter excludes, since they run on an older CPU.
on_cpu() {
  local run=(env TANDEM_EXPECTED_ISAS="$2" "${emulate[@]}" -cpu "$1")
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
echo "test_arm.sh: passed under emulation; the tests of other modules were not compiled for ARM"
