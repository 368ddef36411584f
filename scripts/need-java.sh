#!/bin/sh
# Makes sure that Spark will find Java 17 or newer (JAVA_HOME first, then the path, as Spark does).
set -eu
. "$(dirname "$0")/lib.sh"

fits() {
    java=java
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    have=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
    [ -n "$have" ] && [ "$have" -ge 17 ]
}

fits && exit 0
if [ -n "${JAVA_HOME:-}" ]; then
    say "JAVA_HOME=$JAVA_HOME is not a Java 17 or newer; unset it or point it to one."
    exit 1
fi
install_or_stop "Java 17 or newer (for Spark)" openjdk-17-jre-headless
fits && exit 0
say "the java on the path is older than 17; set JAVA_HOME to a newer one"
exit 1
