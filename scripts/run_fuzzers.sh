#!/usr/bin/env bash
# Runs every fuzzer of a folder for some seconds: run_fuzzers.sh FOLDER SECONDS JOBS
# Seeds come from fuzz/corpus/<name>/. New inputs are kept in build/fuzz-corpus/<name>/ for the next run; an input that
# breaks something goes to build/fuzz-crashes/, and the script fails.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$1
seconds=$2
jobs=$3
crashes=build/fuzz-crashes
logs=build/fuzz-logs
mkdir -p "$crashes" "$logs"

run_one() {
  local program=$1 name
  name=$(basename "$program")
  name=${name#fuzz_}
  local corpus=("build/fuzz-corpus/$name")
  mkdir -p "${corpus[0]}"
  [[ ! -d fuzz/corpus/$name ]] || corpus+=("fuzz/corpus/$name")
  local log=$logs/$name.log
  if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$crashes/$name-" "${corpus[@]}" > "$log" 2>&1; then
    printf 'fuzz %-16s ok, %s runs\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  else
    printf 'fuzz %-16s FAILED; the end of %s:\n' "$name" "$log"
    tail -n 40 "$log"
    return 1
  fi
}
export -f run_one
export seconds crashes logs

shopt -s nullglob
programs=("$folder"/fuzz_*)
fuzzers=()
for program in "${programs[@]}"; do
  [[ ! -x $program || -d $program ]] || fuzzers+=("$program")
done
[[ ${#fuzzers[@]} -gt 0 ]] || { echo "run_fuzzers.sh: no fuzzers in $folder" >&2; exit 1; }
echo "${#fuzzers[@]} fuzzers, $seconds seconds each, $jobs at a time"
printf '%s\0' "${fuzzers[@]}" | xargs -0 -P "$jobs" -I{} bash -c 'run_one {}'
