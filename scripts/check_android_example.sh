#!/usr/bin/env bash
# Compiles the Kotlin of examples/android against Android 15's classes, after `make java`: check_android_example.sh
# No part of CI: it downloads 185 MB (org.robolectric:android-all). It sees types and names; resources, Gradle's files and
# what happens on a device it does not. REPOSITORY: Maven's local one.
set -euo pipefail
cd "$(dirname "$0")/.."

repository=${REPOSITORY:-$HOME/.m2/repository}
android=15-robolectric-12650502
work=build/java/android-check
mkdir -p "$work/classes"
mvn -q -B -ntp -Dmaven.repo.local="$repository" dependency:get -Dtransitive=false \
  -Dartifact="org.robolectric:android-all:$android"

# The compiler that `make java` used, and the libraries that the app has.
compiler=$(find "$repository/org/jetbrains" -name '*.jar' -not -name '*-test*' | tr '\n' ':')
libraries=$(find "$repository/org/jetbrains" -name 'kotlin-stdlib-2*.jar' -o -name 'kotlinx-coroutines-core-jvm-*.jar' | tr '\n' ':')

# What Android's build makes of the resources.
{
  echo "package io.tandem.example; public final class R {"
  echo "public static final class layout { public static final int activity_main = 0; }"
  echo "public static final class id {"
  sed -n 's/.*android:id="@+id\/\([a-z_]*\)".*/public static final int \1 = 0;/p' examples/android/app/src/main/res/layout/*.xml
  echo "} public static final class string {"
  sed -n 's/.*<string name="\([a-z_]*\)".*/public static final int \1 = 0;/p' examples/android/app/src/main/res/values/*.xml
  echo "} }"
} > "$work/R.java"
javac -d "$work/classes" "$work/R.java"

java -cp "$compiler" org.jetbrains.kotlin.cli.jvm.K2JVMCompiler -no-stdlib -no-reflect -Werror -jvm-target 1.8 \
  -cp "$repository/org/robolectric/android-all/$android/android-all-$android.jar:$work/classes:$libraries:build/java/tandem.jar:build/java/tandem-kotlin.jar" \
  -d "$work/classes" examples/android/app/src
echo "check_android_example.sh: the example's Kotlin compiles against Android 15"
