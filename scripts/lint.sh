#!/usr/bin/env bash
# Cheap rules that need no build: formatting, lengths of functions and files, tabs, stray spaces, comments at the top of
# headers, tests in the folder that mirrors the code they test.
# lint.sh --fix formats the sources in place.
set -euo pipefail
cd "$(dirname "$0")/.."

format=$(command -v clang-format-14 || command -v clang-format) || { echo "lint.sh: clang-format is missing" >&2; exit 1; }

folders=()
for folder in include src tests bench fuzz tools examples bindings; do
  [[ ! -d $folder ]] || folders+=("$folder")
done
mapfile -t sources < <(find "${folders[@]}" \( -name '*.h' -o -name '*.cpp' -o -name '*.c' \) -not -path '*/data/*' | sort)

if [[ ${1:-} == --fix ]]; then
  "$format" -i "${sources[@]}"
  exit 0
fi

failures=0
complain() {
  echo "lint: $*" >&2
  failures=$((failures + 1))
}

"$format" --dry-run -Werror "${sources[@]}" || complain "formatting; \`make format\` puts it right"

for file in "${sources[@]}"; do
  lines=$(wc -l < "$file")
  if ((lines > 600)); then complain "$file has $lines lines, and 600 are the limit: split it"; fi
  if [[ $file == *.h ]]; then
    case $(head -n 1 "$file") in
      '//'* | '#pragma once') ;;
      *) complain "$file should begin with a comment that says what lives there" ;;
    esac
    # A header that is compiled once per instruction set says that it is included more than once.
    grep -qE '^#pragma once$|^// .*[Ii]ncluded (twice|once per|more than once)|no include guard' "$file" ||
      complain "$file has no #pragma once"
  fi
done

# Longer ones are listed with their reasons.
allowed=$(sed -E '/^(#|$)/d; s/ .*//' scripts/long_functions.txt)
while IFS=' ' read -r location lines name; do
  file=${location%%:*}
  if grep -qxF "$file:$name" <<< "$allowed"; then continue; fi
  complain "$file:$name has $lines lines, and 60 are the limit: split it"
done < <(scripts/long_functions.py 60 "${sources[@]}")
while IFS=: read -r file name; do
  [[ -n $(scripts/long_functions.py 60 "$file" 2> /dev/null | grep -E " $name\$") ]] ||
    complain "scripts/long_functions.txt: $file:$name is not long any more; take it out"
done <<< "$allowed"

# tests/X tests src/X. In addition: separate programs, shared code, and tests from the outside.
while read -r folder; do
  case $folder in
    bench | cli | fault | support | tools | runtime/allocations | runtime/no_memory | runtime/parallel) ;;
    *) [[ -d src/$folder ]] || complain "tests/$folder tests no folder of src/: move it to what it tests" ;;
  esac
done < <(find tests -name '*_test.cpp' -printf '%P\n' | xargs -n 1 dirname | sort -u)

# A library never ends the program or prints (docs/architecture.md); the command line and the tools may.
library_sources=$(find src \( -path src/cli -o -path src/backends/qnn/worker \) -prune -o \( -name '*.h' -o -name '*.cpp' \) -print)
# shellcheck disable=SC2086
if grep -nE '\b(abort|exit|_Exit|terminate)\(|std::(cout|cerr|clog)|\b(printf|puts|fputs)\(|\bassert\(' \
  $library_sources | grep -vE '^\S+:[0-9]+:\s*//'; then
  complain "a library must not end the program or print"
fi

# What runs models starts no process (docs/architecture.md): an app may not be allowed to, and does not expect it. The
# compiler half may.
compiler_half='^src/(cli|compiler|eval|deploy|models|quant|reference|weights|checkpoint|library|backends/qnn/(compile|lower|worker))/'
# shellcheck disable=SC2046
if grep -nP '\b(v?fork|posix_spawnp?|popen|system(?=\((?!\)))|exec(l|le|lp|v|ve|vp|vpe))\(|<spawn\.h>' \
  $(grep -vE "$compiler_half" <<< "$library_sources") | grep -vE '^\S+:[0-9]+:\s*//'; then
  complain "a library that runs models must not start processes"
fi

# Nor does it use what Android's C and C++ libraries lack at API 26, or what apps may not call there.
# shellcheck disable=SC2046
if grep -nP '\b(aligned_alloc|getentropy|pthread_cancel|pthread_setaffinity_np|shm_open|sem_open|memfd_create|execinfo|backtrace_symbols|fmemopen|getifaddrs|glob|syncfs|quick_exit|at_quick_exit|timespec_get|pthread_getname_np)\(|std::(stop_token|jthread|format)\b|<(stop_token|execinfo\.h|format|source_location)>' \
  $(grep -vE "$compiler_half" <<< "$library_sources") | grep -vE '^\S+:[0-9]+:\s*//'; then
  complain "what runs models must do without this: Android has it later than API 26 or not at all"
fi

# Back ends are behind an interface (docs/architecture.md, "A back end"): code that names one of them outside its folder
# could not be built without it.
backends=$(sed -n 's/^set(TANDEM_BACKENDS_IN_SOURCES \(.*\))$/\1/p' src/backends/backends.cmake | tr ' ' '|')
[[ -n $backends ]] || complain "src/backends/backends.cmake has no list of back ends"
if grep -rnE "#include \"backends/($backends)/|\"($backends)\"|\b($backends)::" --include='*.h' --include='*.cpp' \
  include src/base src/ir src/artifact src/runtime src/compiler src/deploy src/eval src/cli src/reference src/weight_layout \
  src/backends/interface src/backends/registry | grep -vE '//.*"'; then
  complain "only a back end's own folder names it; ask the registry (src/backends/registry, compiler/backend_compiler.h)"
fi

# The command line prints only through src/cli/output.h, which escapes text from files and survives a closed terminal.
if grep -nE 'std::(cout|cerr|clog|cin)|\b(printf|fprintf|puts|fputs|fputc|putchar|fwrite)\(|\b(stdout|stderr)\b' \
  src/cli/*.h src/cli/*.cpp | grep -vE '^src/cli/output\.(h|cpp):|^\S+:[0-9]+:\s*//'; then
  complain "the command line prints through src/cli/output.h and reads through src/cli/input.h"
fi

for extra in cmake docs scripts .ci Makefile README.md CONTRIBUTING.md CHANGELOG.md CMakeLists.txt; do
  [[ ! -e $extra ]] || folders+=("$extra")
done
texts=$(find "${folders[@]}" \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.c' -o -name '*.cmake' -o -name '*.txt' -o -name '*.md' -o -name '*.sh' -o -name '*.fbs' \
  -o -name run -o -name Makefile \) -type f -not -path '*/data/*')
# shellcheck disable=SC2086
if grep -nP '[ \t]+$' $texts; then complain "spaces at the end of a line"; fi
# shellcheck disable=SC2086
if grep -nP '\t' $(grep -v '^Makefile$' <<< "$texts"); then complain "tabs"; fi

for script in scripts/*.sh .ci/run; do
  [[ -x $script ]] || complain "$script is not executable"
  bash -n "$script" || complain "$script does not parse"
done

if ((failures > 0)); then
  echo "lint: $failures complaints" >&2
  exit 1
fi
echo "lint: ${#sources[@]} sources are in order"
