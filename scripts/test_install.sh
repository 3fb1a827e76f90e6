#!/usr/bin/env bash
# test_install.sh BUILD: installs a build into an empty folder and uses it as someone without the sources would:
# headers, CMake's find_package, pkg-config. Checks what the libraries export and need.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
compiler=${CXX:-c++}
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

# ---- Headers: each compiles alone, and TANDEM_API is their only macro ----
for header in "$prefix"/include/tandem/*.h; do
  name=tandem/$(basename "$header")
  echo "#include <$name>" > "$work/header.cpp"
  "$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -I "$prefix/include" \
    "$work/header.cpp" || complain "$name does not compile on its own"
  macros=$("$compiler" -std=c++20 -dM -E -I "$prefix/include" "$work/header.cpp" |
    awk '$2 ~ /^TANDEM/ && $2 != "TANDEM_API" {print $2}')
  [[ -z $macros ]] || complain "$name defines macros: $macros"
done

# ---- Libraries: names, size, what they export and what they need ----
check_library() {  # PATH, a regular expression of what it may export
  local library=$1 allowed=$2 name version
  name=$(basename "$library")
  version=$(sed -n 's/^project(tandem VERSION \([0-9]*\.[0-9]*\).*/\1/p' CMakeLists.txt)
  readelf -d "$library" | grep -q "SONAME.*\[$name\.$version\]" || complain "$name has not the SONAME $name.$version"
  strip -o "$work/stripped" "$library"
  echo "$name: $(stat -Lc %s "$library") bytes, $(stat -c %s "$work/stripped") stripped"
  local extra
  extra=$(nm -DC --defined-only "$library" | cut -d' ' -f3- | grep -vE "$allowed") || true
  [[ -z $extra ]] || complain "$name exports more than its public interface:"$'\n'"$extra"
}
check_library "$runtime" '^((typeinfo|typeinfo name|vtable) for tandem::(Engine|Session)$|tandem::(Engine|Session)::|tandem::(guard_file_mappings|version|mode_name|finish_reason_name|probe|ProbeReport::to_json(\[abi:cxx11\])?)\()'
(($(stat -c %s "$work/stripped") <= most_bytes)) || complain "libtandem.so is larger than $most_bytes bytes"
check_library "$compiler_library" '^tandem::(compile_model|guard_compiler_mappings)\('

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
