#!/usr/bin/env bash
# test_install.sh BUILD: installs a build into an empty folder and uses it as someone without the sources would:
# headers, CMake's find_package, pkg-config. Checks what the libraries export and need.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
compiler=${CXX:-c++}
c_compiler=${CC:-cc}
most_bytes=3000000  # Of libtandem.so, stripped.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
complain() {
  echo "test_install: $*" >&2
  failures=$((failures + 1))
}

prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" > "$work/install.log"
libdir=$(dirname "$(find "$prefix" -name 'libtandem.so')")
runtime=$libdir/libtandem.so
compiler_library=$libdir/libtandem-compiler.so

# ---- Headers: each compiles alone, and TANDEM_API is their only macro; tandem.h is C11 and has some for C programs ----
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
for header in "$prefix"/include/tandem/*.h; do
  name=tandem/$(basename "$header")
  allowed='^TANDEM_API$'
  echo "#include <$name>" > "$work/header.cpp"
  if [[ $name == tandem/tandem.h ]]; then
    allowed='^TANDEM_(API|[A-Z_]+_INIT)$'
    cp "$work/header.cpp" "$work/header.c"
    "$c_compiler" -std=c11 "${warnings[@]}" -fsyntax-only -I "$prefix/include" "$work/header.c" ||
      complain "$name does not compile as C11"
    "$compiler" -std=c++11 "${warnings[@]}" -fsyntax-only -I "$prefix/include" "$work/header.cpp" ||
      complain "$name does not compile as C++11"
  fi
  "$compiler" -std=c++20 "${warnings[@]}" -fsyntax-only -I "$prefix/include" "$work/header.cpp" ||
    complain "$name does not compile on its own"
  macros=$("$compiler" -std=c++20 -dM -E -I "$prefix/include" "$work/header.cpp" |
    awk '$2 ~ /^TANDEM/ {sub(/\(.*/, "", $2); print $2}' | grep -vE "$allowed") || true
  [[ -z $macros ]] || complain "$name defines macros: $macros"
done

# ---- Libraries: names, size, what they export and what they need ----
check_library() {  # PATH, a file with the names that it exports, sorted
  local library=$1 list=$2 name version
  name=$(basename "$library")
  version=$(sed -n 's/^project(tandem VERSION \([0-9]*\.[0-9]*\).*/\1/p' CMakeLists.txt)
  readelf -d "$library" | grep -q "SONAME.*\[$name\.$version\]" || complain "$name has not the SONAME $name.$version"
  strip -o "$work/stripped" "$library"
  echo "$name: $(stat -Lc %s "$library") bytes, $(stat -c %s "$work/stripped") stripped"
  # Without the marks of libstdc++'s second ABI, which other standard libraries lack.
  nm -DC --defined-only "$library" | cut -d' ' -f3- | sed 's/::__cxx11//g; s/\[abi:cxx11\]//g' | LC_ALL=C sort -u |
    diff "$list" - > "$work/exports" ||
    complain "$name exports (>) or lacks (<) what $list does not or does have:"$'\n'"$(grep '^[<>]' "$work/exports")"
}
check_library "$runtime" src/library/tandem.exports
(($(stat -c %s "$work/stripped") <= most_bytes)) || complain "libtandem.so is larger than $most_bytes bytes"
check_library "$compiler_library" src/library/tandem_compiler.exports
# Every function of the C interface is exported, and nothing else is named like one.
declared=$(grep -oE '\btandem_[a-z_]+\(' include/tandem/tandem.h | sort -u)
for function in $(sed -n '/^tandem_[a-z_]*$/p' src/library/tandem.exports); do
  grep -qx "$function(" <<< "$declared" || complain "libtandem.so exports $function, which tandem.h does not declare"
done
for function in $(sed -n 's/^TANDEM_API .*\b\(tandem_[a-z_]*\)(.*/\1/p' include/tandem/tandem.h); do
  grep -qx "$function" src/library/tandem.exports || complain "libtandem.so does not export $function of tandem.h"
done

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
foreign=$(needed "$runtime" | grep -vE '^(libstdc\+\+|libc\+\+|libm|libgcc_s|libc|libdl|libpthread|ld-linux.*)\.so') || true
[[ -z $foreign ]] || complain "libtandem.so needs more than the C and C++ run time:"$'\n'"$foreign"

# The library that runs models starts no process.
started=$(nm -D --undefined-only "$runtime" |
  grep -oE '\b(v?fork|posix_spawnp?|popen|system|exec(l|le|lp|v|ve|vp|vpe|veat)|clone3?)\b') || true
[[ -z $started ]] || complain "libtandem.so can start processes: $started"

# ---- Programs that use the installation ----
prompt="Tell me a story about a fox named Leo."
mkdir "$work/consumer"
cp tests/install/* "$work/consumer/"
"$prefix/bin/tandem" compile models/demo -o "$work/demo.tdm" -q
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$prefix" > "$work/consumer.log"
cmake --build "$work/consumer/build" >> "$work/consumer.log" || { cat "$work/consumer.log"; exit 1; }
export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046
"$compiler" -std=c++20 -o "$work/ask_pkg_config" "$work/consumer/ask.cpp" $(pkg-config --cflags --libs tandem) \
  -Wl,-rpath,"$libdir"
# shellcheck disable=SC2046
"$compiler" -std=c++20 -o "$work/compile_pkg_config" "$work/consumer/compile.cpp" \
  $(pkg-config --cflags --libs tandem-compiler) -Wl,-rpath,"$libdir"

# In C: the program of docs/c-api.md, which is examples/minimal.c.
sed -n '/^```c$/,/^```$/p' docs/c-api.md | sed '1d;$d' > "$work/minimal.c"
cmp "$work/minimal.c" examples/minimal.c || complain "docs/c-api.md has another program than examples/minimal.c"
# shellcheck disable=SC2046
"$c_compiler" -std=c11 "${warnings[@]}" -o "$work/minimal_c" "$work/minimal.c" $(pkg-config --cflags --libs tandem) \
  -Wl,-rpath,"$libdir"
"$work/minimal_c" "$work/demo.tdm" "$prompt" > "$work/answer_c"
"$prefix/bin/tandem" run "$work/demo.tdm" -p "$prompt" --greedy -q > "$work/answer_tandem"
sed '$d' "$work/answer_c" | cmp - "$work/answer_tandem" || complain "the C program answers otherwise than tandem"
tail -n 1 "$work/answer_c"
if "$work/minimal_c" "/no such file" "$prompt" 2> "$work/error_c"; then complain "the C program answers without a file"; fi
grep -q '^error: /no such file: no such file$' "$work/error_c" || complain "the C program does not say what is wrong"

"$work/ask_pkg_config" "$work/demo.tdm" "$prompt" | tee "$work/answer"
grep -q '^hybrid length$' "$work/answer" || complain "the answer is not as long as it should be"
for program in ask_shared ask_static; do
  "$work/consumer/build/$program" "$work/demo.tdm" "$prompt" | cmp - "$work/answer" || complain "$program answers otherwise"
done

"$prefix/bin/tandem" compile models/demo -o "$work/by_tandem.tdm" --recipe w8 --context 256 --prefill 16 --kv fp16 -q
for program in "$work/compile_pkg_config" "$work/consumer/build/compile"; do
  rm -f "$work/by_library.tdm"
  "$program" models/demo "$work/by_library.tdm" || complain "$(basename "$program") failed"
  cmp "$work/by_library.tdm" "$work/by_tandem.tdm" || complain "the library compiles another file than the program"
done
"$work/consumer/build/compile_and_ask" models/demo "$work/both.tdm" || complain "compiling and running in one process failed"
cmp "$work/both.tdm" "$work/demo.tdm" || complain "the library's defaults are not those of the program"

# The library finds build/qnn, and the worker in its own folder.
if [[ -e build/qnn/onnxruntime_qnn/libQnnHtp.so ]]; then
  "$work/consumer/build/compile_and_ask" models/demo "$work/npu.tdm" sm8750 || complain "compiling for an NPU failed"
else
  echo "test_install: nothing was compiled for an NPU, because Qualcomm's library is not in build/qnn (make qnn)"
fi

if ((failures > 0)); then
  echo "test_install: $failures complaints" >&2
  exit 1
fi
echo "test_install: what is installed can be used"
