#!/usr/bin/env bash
# Installs Qualcomm's QNN libraries (the PyPI package onnxruntime-qnn) into a local folder:
#   install_qnn.sh [--version VERSION] [FOLDER]
# FOLDER is build/qnn if not given, and build/qnn-VERSION with a version. The libraries are under Qualcomm's licence: they are installed from the registry, and
# never committed or shipped. Does nothing, quickly and without network access, if a known version is installed.
# QNN_VERSION=2.8.0 install_qnn.sh installs another version into build/qnn; it still has to pass the check at load.
set -euo pipefail
cd "$(dirname "$0")/.."

package=onnxruntime-qnn
# The version that the declarations in src/backends/qnn/api/abi.h were measured on; if it is gone or has no wheel for
# this Python, the newest of the same major version is used.
measured=2.7.0

die() {
  echo "install_qnn.sh: $*" >&2
  exit 1
}

folder=build/qnn
if [[ ${1:-} == --version ]]; then
  [[ ${2:-} =~ ^[0-9]+(\.[0-9]+)+$ ]] || die "--version takes a version such as 2.6.0, not \"${2:-}\""
  QNN_VERSION=$2
  folder=build/qnn-$2
  shift 2
fi
[[ ${1:-} != -* ]] || die "the option $1 is unknown; there is --version VERSION"
folder=${1:-$folder}
version=${QNN_VERSION:-$measured}
libraries=$folder/onnxruntime_qnn
stamp=$folder/.installed

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64 | Linux-aarch64) ;;
  *) die "there are no QNN libraries for $(uname -s) on $(uname -m); Linux on x86-64 or aarch64 is needed" ;;
esac

complete() { [[ -s $1/libQnnHtp.so && -s $1/libQnnSystem.so ]]; }

if [[ -f $stamp ]] && complete "$libraries"; then
  have=$(< "$stamp")
  if [[ ${have%% *} == "$version" || -z ${QNN_VERSION:-} ]]; then
    echo "$package ${have%% *} is already in $folder"
    exit 0
  fi
fi

python=${PYTHON:-python3}
command -v "$python" > /dev/null || die "$python is missing; install Python 3 with pip, or set PYTHON"
"$python" -m pip --version > /dev/null 2>&1 || die "$python has no pip; install python3-pip, or set PYTHON to one that has it"

# Into a temporary folder first: an interrupted installation leaves the old one unchanged.
mkdir -p "$(dirname "$folder")"
fresh=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
log=$fresh/pip.log
install() {
  "$python" -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-compile --only-binary :all: \
    --target "$fresh/files" "$1" > "$log" 2>&1
}
if ! install "$package==$version"; then
  [[ -z ${QNN_VERSION:-} ]] || { tail -n 3 "$log" >&2; die "pip could not install $package $version"; }
  rm -rf "$fresh/files"
  install "$package>=${measured%.*},<$((${measured%%.*} + 1))" || {
    tail -n 3 "$log" >&2
    die "pip could not install $package: a network and a Python that it has wheels for (3.11 to 3.13) are needed"
  }
fi
complete "$fresh/files/onnxruntime_qnn" ||
  die "$package has no libQnnHtp.so and libQnnSystem.so where they are expected; this script knows version $measured"
got=$("$python" - "$fresh/files" << 'EOF'
import importlib.metadata, sys
for distribution in importlib.metadata.distributions(path=[sys.argv[1]]):
    print(distribution.version)
    break
EOF
)
echo "$got" > "$fresh/files/.installed"
rm -rf "$folder"
mv "$fresh/files" "$folder"
echo "installed $package $got into $folder ($(du -sh "$folder" | cut -f1))"
