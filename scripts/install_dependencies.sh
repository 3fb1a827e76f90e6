#!/usr/bin/env bash
# Installs the system packages that are missing: install_dependencies.sh GROUP...
# Groups: build, test, java, python, arm, valgrind, bench, lint, tidy. docs/dependencies.md says what each package is for.
# Does nothing, quickly and without network access, if all are installed.
set -euo pipefail

declare -A packages=(
  [build]="g++ cmake ninja-build pkg-config flatbuffers-compiler libflatbuffers-dev nlohmann-json3-dev
           libcli11-dev libxxhash-dev zlib1g-dev"
  [test]="libgtest-dev libpcre2-dev clang clang-runtime python3 python3-pip"
  # For a python3 of the system's; one of your own has these parts inside.
  [python]="python3 python3-venv python3-dev"
  # GoogleTest's sources come with libgtest-dev and are compiled for ARM; the other libraries' headers do for what is run.
  [arm]="g++-aarch64-linux-gnu qemu-user libgtest-dev"
  [valgrind]="valgrind"
  [bench]="libbenchmark-dev"
  # Versions of clang-format disagree about details; this is the one that the sources are formatted with.
  [lint]="clang-format-14"
  [java]="openjdk-17-jdk-headless maven"
  [tidy]="clang-tidy clang"
)

die() {
  echo "install_dependencies.sh: $*" >&2
  exit 1
}

installed() {
  case $1 in
    clang-runtime) clang_runtime_works ;;
    clang-format-14) command -v clang-format-14 > /dev/null || [[ $(dpkg-query -W -f='${Status}' "$1" 2> /dev/null) == "install ok installed" ]] ;;
    *) [[ $(dpkg-query -W -f='${Status}' "$1" 2> /dev/null) == "install ok installed" ]] ;;
  esac
}

# The sanitizers' and libFuzzer's run-time libraries are in a package whose name contains clang's version, or come with
# clang (Ubuntu 22.04). So we ask the compiler.
clang_runtime_works() {
  command -v clang++ > /dev/null || return 1
  local library
  library=$(clang++ -print-file-name=libclang_rt.fuzzer-x86_64.a)
  [[ -e $library ]] && return 0
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer,address,undefined - -o /dev/null 2> /dev/null
}

# The real name of a package for which we use our own name. Needs apt's lists.
real_name() {
  if [[ $1 == clang-runtime ]]; then
    local version
    version=$(apt-cache depends clang | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    [[ -n $version ]] || die "apt knows no package clang"
    # If there is no such package, the libraries come with clang itself.
    if apt-cache show "libclang-rt-$version-dev" > /dev/null 2>&1; then echo "libclang-rt-$version-dev"; fi
  elif [[ $1 == clang-format-14 ]] && ! apt-cache show clang-format-14 > /dev/null 2>&1; then
    echo clang-format
  else
    echo "$1"
  fi
}

[[ $# -gt 0 ]] || die "say which groups: ${!packages[*]}"
wanted=()
for group in "$@"; do
  [[ -v packages[$group] ]] || die "there is no group \"$group\"; there are: ${!packages[*]}"
  read -r -d '' -a names <<< "${packages[$group]}" || true
  wanted+=("${names[@]}")
done

if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
  # Another system: the build will say what it does not find.
  echo "This is not Debian or Ubuntu, so nothing is installed here. What these are called there, you need:" >&2
  printf '  %s\n' "${wanted[@]}" >&2
  echo "(clang-runtime: the libraries for -fsanitize=address,undefined,fuzzer; docs/dependencies.md has the list.)" >&2
  exit 0
fi

missing=()
for name in "${wanted[@]}"; do
  installed "$name" || missing+=("$name")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo > /dev/null || die "these packages are missing, and there is no sudo to install them: ${missing[*]}"
  as_root=(sudo)
fi
echo "Installing what is missing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
to_install=()
for name in "${missing[@]}"; do
  real=$(real_name "$name")
  [[ -z $real ]] || to_install+=("$real")
done
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${to_install[@]}"
