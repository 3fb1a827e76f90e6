#!/usr/bin/env bash
# Lists the tests that the last run of ctest skipped, and why: skipped_tests.sh BUILD_FOLDER...
# ctest counts a skipped test as passed, and its message is lost among a thousand others.
set -euo pipefail

missing_library=0
for folder in "$@"; do
  log=$folder/Testing/Temporary/LastTest.log
  [[ -f $log ]] || continue
  # GoogleTest lists the names once more at the end, without a time; unittest ends with "OK (skipped=3)".
  count=$(grep -cE '^\[  SKIPPED \] .*\([0-9]+ ms\)$' "$log" || true)
  python=$(sed -nE 's/^OK \(.*skipped=([0-9]+).*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
  ((count + python > 0)) || continue
  echo "skipped in $folder: $((count + python)) tests"
  { grep -hA1 -E ': Skipped$' "$log" | grep -vE ': Skipped$|^--$|^\[' || true
    grep -hE "\.\.\. skipped '" "$log" | sed -E "s/.*skipped ['\"](.*)['\"]$/\1/" || true; } | cut -c -200 | sort | uniq -c | sort -rn
  if grep -qE "libQnnHtp|QNN" <(grep -hA1 -E ": Skipped$|skipped '" "$log"); then missing_library=1; fi
done
if ((missing_library)); then
  echo
  echo "****************************************************************************************"
  echo "** The NPU tests were SKIPPED: Qualcomm's QNN library is not there, or does not fit.  **"
  echo "** What passed says nothing about NPUs. \`make qnn\` installs the library or says why.  **"
  echo "****************************************************************************************"
fi
