#!/usr/bin/env bash
# Compiles every header of include/ and src/ alone: check_headers.sh [JOBS] [BASE]
# With BASE: only those that differ from that commit. All of them take minutes.
# A header that relies on what others include before it would break the next file that includes it first. The sources
# are compiled several at a time (cmake/modules.cmake), so nothing else would catch it. No code is generated, and clang
# is used if available: it takes half of gcc's time.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=${1:-$(nproc)}
compiler=${CXX:-$(command -v clang++ || command -v g++)} || { echo "check_headers.sh: there is no C++ compiler" >&2; exit 1; }

# Excluded: kernels' bodies, which are compiled once for each instruction set, after the header of its vectors.
mapfile -t headers < <(find include src -name '*.h' -not -path 'src/backends/cpu/kernels/generic_*' \
  -not -path 'src/backends/cpu/kernels/simd_*' -not -path 'src/backends/cpu/kernels/linear_int_*' \
  -not -path 'src/backends/cpu/kernels/amx_*' -not -path 'src/quant/scale_search_lanes.h' | sort)
if [[ -n ${2:-} ]]; then
  mapfile -t headers < <(comm -12 <(printf '%s\n' "${headers[@]}") <(git diff --name-only "$2" -- '*.h' | sort))
fi
((${#headers[@]} > 0)) || { echo "check_headers.sh: no header differs from $2"; exit 0; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
printf '%s\0' "${headers[@]}" |
  xargs -0 -P "$jobs" -n 1 "$compiler" -std=c++20 -fsyntax-only -Wno-pragma-once-outside-header -Isrc -Iinclude -x c++ \
    2> "$log" || failed=1
if ((failed)); then
  grep -E 'error:' "$log" >&2 || cat "$log" >&2
  echo "check_headers.sh: these headers do not compile alone; include what they use" >&2
  exit 1
fi
echo "check_headers.sh: ${#headers[@]} headers compile alone"
