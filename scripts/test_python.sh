#!/usr/bin/env bash
# test_python.sh BUILD: makes a wheel of bindings/python that links the libraries of a build, installs it into a fresh
# virtual environment under build/python and runs its tests there. PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/release}
python=${PYTHON:-python3}
work=$PWD/build/python

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  { echo "test_python.sh: $("$python" --version) is too old; set PYTHON to 3.10 or newer" >&2; exit 1; }
rm -rf "$work/prefix" "$work/venv" "$work"/*.whl
cmake --install "$build" --prefix "$work/prefix" > /dev/null
config=$(dirname "$(find "$work/prefix" -name tandemConfig.cmake)")

"$python" -m venv "$work/venv"
pip=("$work/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" wheel --no-deps --wheel-dir "$work" ./bindings/python \
  --config-settings build-dir="$work/cmake" --config-settings cmake.define.tandem_DIR="$config"
wheel=("$work"/tandem-*.whl)
echo "${wheel[0]#"$PWD"/}: $(stat -c %s "${wheel[0]}") bytes"
"${pip[@]}" install "${wheel[0]}" mypy==2.4.1

# From another folder, so that the installed package is tested and not the one in the tree.
cd "$work"
TANDEM_ROOT=$OLDPWD TANDEM_PROGRAM=$OLDPWD/$build/tandem "$work/venv/bin/python" -m unittest discover \
  --start-directory "$OLDPWD/bindings/python/tests" --top-level-directory "$OLDPWD/bindings/python/tests" "${@:2}"
"$work/venv/bin/python" -m mypy --strict --package tandem --cache-dir "$work/mypy"
