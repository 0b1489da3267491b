#!/usr/bin/env bash
# Print the home of a Java runtime that Spark can use, 17 or newer: from JAVA_HOME, the PATH, /usr/lib/jvm,
# else freshly installed with apt when root. Everything but the answer goes to standard error.
set -euo pipefail

oldest=17

say() { echo "java: $*" >&2; }

# "17" for 17.0.15, "8" for 1.8.0_392, nothing for what is not a Java runtime.
major_version() { "$1" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1; }

usable() {
    local version
    [[ -x "$1" ]] || return 1
    version="$(major_version "$1" || true)"
    [[ -n "$version" && "$version" -ge "$oldest" ]]
}

home_of() { dirname "$(dirname "$(readlink -f "$1")")"; }

find_java() {
    local candidate
    for candidate in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" "${JVM_DIRECTORY:-/usr/lib/jvm}"/*/bin/java; do
        if usable "$candidate"; then
            home_of "$candidate"
            return 0
        fi
        if [[ -x "$candidate" ]]; then
            say "passing over $candidate: Spark needs Java $oldest or newer, this is '$(major_version "$candidate" || true)'"
        fi
    done
    return 1
}

install_java() {
    local package
    [[ "$(id -u)" -eq 0 ]] && command -v apt-get >/dev/null || return 1
    say "installing a Java runtime with apt-get"
    apt-get update -qq >&2 || return 1
    for package in openjdk-17-jre-headless default-jre-headless; do
        if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >&2; then
            return 0
        fi
    done
    return 1
}

if find_java || { install_java && find_java; }; then
    exit 0
fi
say "Spark needs a Java runtime $oldest or newer; none was found through JAVA_HOME, the PATH or /usr/lib/jvm, and none could be installed."
say "Install one (Debian, Ubuntu: sudo apt-get install openjdk-17-jre-headless), or set JAVA_HOME to one, and run the command again."
exit 1
