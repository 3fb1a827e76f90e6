#!/usr/bin/env bash
# Unpacks a Java run time for 64-bit ARM into build/arm-jvm, for tests under emulation, and prints where its `java` is.
# Debian's own package, by apt with lists and a status of its own: the system gets neither a foreign architecture nor a
# package.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/build/arm-jvm
java=$folder/root/usr/lib/jvm/java-17-openjdk-arm64/bin/java
if [[ ! -x $java ]]; then
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/debs"
  options=(-qq -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" -o Dir::State::status=/dev/null
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update >&2
  (cd "$folder/debs" && apt-get "${options[@]}" download openjdk-17-jre-headless zlib1g >&2)
  for package in "$folder"/debs/*.deb; do dpkg -x "$package" "$folder/root"; done
  rm -rf "$folder/lists" "$folder/cache" "$folder/debs"
fi
[[ -x $java ]] || { echo "install_arm_jvm.sh: the package has no $java" >&2; exit 1; }
echo "$java"
