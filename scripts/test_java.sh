#!/usr/bin/env bash
# Builds and tests the Java and Kotlin interface with Maven: test_java.sh BUILD [Maven's arguments]
# BUILD has tandem, libtandem_jni.so and libtandem_jni_test.so. Results: build/java/tandem.jar, tandem-kotlin.jar.
set -euo pipefail
cd "$(dirname "$0")/.."

build=$1
shift
output=build/java
maven_log=$output/maven.log

# The block of docs/java.md that begins with ```LANGUAGE.
program() { awk -v fence="\`\`\`$1" '$0 == "```" {inside = 0} inside {print} $0 == fence {inside = 1}' docs/java.md; }

mkdir -p "$output/docs/java" "$output/docs/kotlin" "$output/native/io/tandem/native/linux-$(uname -m)"
cp "$build/libtandem_jni.so" "$output/native/io/tandem/native/linux-$(uname -m)/"
program java > "$output/docs/java/Story.java"
{
  echo "package io.tandem.kotlin"
  program kotlin
} > "$output/docs/kotlin/Story.kt"

# -Xcheck:jni writes its complaints to the output, and no test notices.
status=0
mvn -q -B -ntp -f bindings/java/pom.xml -Dtandem.cli="$PWD/$build/tandem" \
  -Dtandem.test.library="$PWD/$build/libtandem_jni_test.so" "$@" verify > "$maven_log" 2>&1 || status=$?
grep -vE '^\S*$|Help 1|full stack trace|-X switch' "$maven_log" || true
((status == 0)) || { echo "test_java.sh: Maven failed; $maven_log has all it said" >&2; exit 1; }
if grep -rnE 'WARNING in native method|WARNING: JNI|FATAL ERROR in native' "$maven_log" "$output"/maven/*/surefire-reports; then
  echo "test_java.sh: the JVM complains about the native code" >&2
  exit 1
fi

for name in tandem tandem-kotlin; do cp "$output/maven/$name/$name.jar" "$output/$name.jar"; done

# The jar by itself, and the program of the docs, against the command line.
expected=$("$build/tandem" run build/demo.tdm -q --greedy -p "Tell me a story about a fox named Leo.")
told=$(java -Xcheck:jni -cp "$output/tandem.jar" "$output/docs/java/Story.java" build/demo.tdm 2> "$output/docs/stats.json")
[[ $told == "$expected" ]] || { echo "test_java.sh: the program of docs/java.md says \"$told\"" >&2; exit 1; }
grep -q '"finish":"stop"' "$output/docs/stats.json"
# A library on java.library.path comes before the one in the jar.
error=$(java -Djava.library.path="$output/docs/kotlin" -Dio.tandem.library="$output/docs/kotlin/Story.kt" \
  -cp "$output/tandem.jar" "$output/docs/java/Story.java" build/demo.tdm 2>&1) &&
  { echo "test_java.sh: io.tandem.library is ignored" >&2; exit 1; }
grep -q 'UnsatisfiedLinkError.*Story.kt' <<< "$error"

# An AAR refuses libraries that no phone could load. ARM Linux has the right machine and alignment: enough for a test.
for wrong in build/no-such-folder "$build"; do
  if scripts/make_aar.sh "$wrong" "$output/wrong.aar" > /dev/null 2>&1 || [[ -e $output/wrong.aar ]]; then
    echo "test_java.sh: make_aar.sh made an AAR from $wrong" >&2
    exit 1
  fi
done
if [[ -f build/arm64/libtandem_jni.so ]]; then
  scripts/make_aar.sh --linux build/arm64 "$output/linux.aar"
else
  echo "test_java.sh: SKIPPED: no AAR was assembled, because build/arm64 has no libtandem_jni.so"
fi
tests=$(cat "$output"/maven/*/surefire-reports/*.xml | grep -c '<testcase')
echo "test_java.sh: $tests tests passed; $output/tandem.jar $(stat -c %s "$output/tandem.jar") bytes"
