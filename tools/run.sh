#!/usr/bin/env bash
# Run a command inside .venv with what Spark needs in its environment: a Java runtime, the loopback address and this Python.
set -euo pipefail

root="$(cd "$(dirname "$0")/.." && pwd)"
JAVA_HOME="$("$root/tools/java-home.sh")"
export JAVA_HOME
export PATH="$root/.venv/bin:$JAVA_HOME/bin:$PATH"
export PYSPARK_PYTHON="${PYSPARK_PYTHON:-$root/.venv/bin/python}"
export SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}"
exec "$@"
