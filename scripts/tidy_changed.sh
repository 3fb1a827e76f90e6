#!/usr/bin/env bash
# clang-tidy over the sources that differ from a commit: tidy_changed.sh [BASE]
# BASE: by default where this branch left main or, on main itself, the previous commit. Checks: .clang-tidy. At most
# TIDY_LIMIT files (40), for a few minutes; files left out are named, and `make tidy` checks everything.
set -euo pipefail
cd "$(dirname "$0")/.."

tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || { echo "tidy_changed.sh: clang-tidy is missing" >&2; exit 1; }
limit=${TIDY_LIMIT:-40}
jobs=${JOBS:-$(nproc)}

base=${1:-}
if [[ -z $base ]]; then
  for main in origin/main main; do
    base=$(git merge-base HEAD "$main" 2> /dev/null) && break
  done
  if [[ -z $base || $base == "$(git rev-parse HEAD)" ]]; then base=$(git rev-parse --verify --quiet HEAD~1) || base=; fi
fi
if [[ -z $base ]]; then
  echo "tidy_changed.sh: there is no commit to compare with (a shallow clone?); nothing was checked"
  exit 0
fi

mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'tools/*.cpp' 'examples/*.cpp' |
  grep -v '^src/backends/cpu/kernels/' || true)  # Compiled per instruction set, with definitions in headers by design.
if ((${#changed[@]} == 0)); then
  echo "tidy_changed.sh: no source differs from ${base:0:10}"
  exit 0
fi
if ((${#changed[@]} > limit)); then
  echo "tidy_changed.sh: ${#changed[@]} sources differ from ${base:0:10}; the first $limit are checked, not ${changed[*]:limit}"
  changed=("${changed[@]:0:limit}")
fi

# One file at a time, as an editor sees it, and nothing is compiled.
build=build/tidy
cmake --preset release -B "$build" -DTANDEM_UNITY=OFF -DTANDEM_TESTS=OFF > /dev/null
cmake --build "$build" --target tandem_artifact_schema > /dev/null
printf '%s\0' "${changed[@]}" | xargs -0 -P "$jobs" -n 1 "$tidy" -p "$build" --quiet --warnings-as-errors='*'
echo "tidy_changed.sh: ${#changed[@]} sources are in order"
