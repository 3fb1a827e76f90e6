#!/usr/bin/env bash
# Runs the NPU tests on each version of Qualcomm's library that PyPI has, and a file of each on the newest:
#   test_qnn_versions.sh [VERSION...]
# Needs build/release with the tests (`make test-qnn-versions`). Versions are installed into build/qnn-VERSION, 95 MB of
# download and 235 MB of disk each.
set -euo pipefail
cd "$(dirname "$0")/.."

versions=("$@")
((${#versions[@]})) || versions=(2.3.0 2.4.0 2.5.0 2.6.0 2.7.0)
newest=${versions[-1]}
build=build/release
tandem=$build/tandem
prompt="Once upon a time"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
declare -A cells

# Every family in integers and in fp16, loading, chips; `make qnn` runs all of test_compiler_npu with one version.
compiler_tests='Emulator/EveryFamily*:NpuLoad*:CustomChips*:Encodings*'

run_tests() { # VERSION PROGRAM [FILTER]
  local log=$work/$1.$2.log start=$SECONDS result
  if TANDEM_QNN_LIBS=$PWD/build/qnn-$1 timeout 900 "$build/tests/$2" --gtest_filter="${3:-*}" > "$log" 2>&1; then
    result=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) tests?\.$/\1 passed/p' "$log" | tail -n 1)
  else
    result="FAILED"
    failures=$((failures + 1))
    echo "test_qnn_versions.sh: $2 failed with onnxruntime-qnn $1:" >&2
    grep -E '^\[  FAILED  \]|: Failure' "$log" | head -n 20 >&2 || tail -n 5 "$log" >&2
  fi
  cells[$1.$2]="$result, $((SECONDS - start)) s"
}

# The tokens of a story, which are the same with every version.
story() { # VERSION FILE
  TANDEM_QNN_LIBS=$PWD/build/qnn-$1 "$tandem" run "$2" --prompt "$prompt" --max-tokens 24 --greedy 2> "$work/error"
}

for version in "${versions[@]}"; do
  start=$SECONDS
  scripts/install_qnn.sh --version "$version"
  cells[$version.install]="$((SECONDS - start)) s, $(du -sm "build/qnn-$version/" | cut -f1) MB"
  for program in test_qnn_api test_qnn_execute test_qnn_lower; do run_tests "$version" "$program"; done
  run_tests "$version" test_compiler_npu "$compiler_tests"
  TANDEM_QNN_LIBS=$PWD/build/qnn-$version "$tandem" compile models/demo -o "$work/$version.tdm" --target sm8750 \
    --emulator --mode kv --context 128 --quiet
  echo "onnxruntime-qnn $version: ${cells[$version.test_qnn_api]}; ${cells[$version.test_qnn_execute]};" \
    "${cells[$version.test_qnn_lower]}; ${cells[$version.test_compiler_npu]}"
done

scripts/install_qnn.sh --version "$newest" > /dev/null
expected=$(story "$newest" "$work/$newest.tdm") || { cat "$work/error" >&2; exit 1; }
for version in "${versions[@]}"; do
  own=$(story "$version" "$work/$version.tdm" || true)
  later=$(story "$newest" "$work/$version.tdm" || true)
  cells[$version.story]=same
  if [[ -z $own || $own != "$expected" || $later != "$own" ]]; then
    cells[$version.story]=DIFFERENT
    failures=$((failures + 1))
  fi
  # A file of the newest is refused by an older library, in a sentence.
  cells[$version.refusal]=-
  if [[ $version != "$newest" ]]; then
    cells[$version.refusal]=refused
    if story "$version" "$work/$newest.tdm" > /dev/null || ! grep -q "install the QNN libraries that compiled it" "$work/error"; then
      cells[$version.refusal]="NOT REFUSED"
      failures=$((failures + 1))
    fi
  fi
done

row() { printf '| %-7s | %-13s | %-16s | %-16s | %-16s | %-17s | %-9s | %-11s |\n' "$@"; }
echo
row version install test_qnn_api test_qnn_execute test_qnn_lower test_compiler_npu story "$newest's file"
row --- --- --- --- --- --- --- ---
for version in "${versions[@]}"; do
  row "$version" "${cells[$version.install]}" "${cells[$version.test_qnn_api]}" "${cells[$version.test_qnn_execute]}" \
    "${cells[$version.test_qnn_lower]}" "${cells[$version.test_compiler_npu]}" "${cells[$version.story]}" \
    "${cells[$version.refusal]}"
done
((failures == 0)) || { echo "test_qnn_versions.sh: $failures failures" >&2; exit 1; }
