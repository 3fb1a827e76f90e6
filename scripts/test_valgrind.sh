#!/usr/bin/env bash
# Runs the demo model briefly under valgrind, which must report nothing: test_valgrind.sh TANDEM
# With both cache formats and with the instruction sets that valgrind supports; AVX-512 is not among them.
# About 20 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

tandem=${1:?say which tandem to test}
command -v valgrind > /dev/null || { echo "test_valgrind.sh: valgrind is missing" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

prompt="Tell me a story about a fox named Leo who lived in a wood and had a friend, an otter, who could swim."
for kv in fp16 u8; do
  "$tandem" compile models/demo -o "$folder/$kv.tdm" --kv "$kv" --context 256 --quiet
  for isa in avx2 portable; do
    TANDEM_ISA=$isa valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
      "$tandem" run "$folder/$kv.tdm" -p "$prompt" --seed 3 -n 6 --threads 2 > /dev/null 2> "$folder/log" || {
      cat "$folder/log" >&2
      echo "test_valgrind.sh: $kv caches, $isa kernels: valgrind complains" >&2
      exit 1
    }
  done
done
echo "test_valgrind.sh: nothing to complain about"
