#!/bin/sh
# Runs the tests of Spark with one of the supported releases of PySpark, and with pandas 2.
# Usage: scripts/test-spark.sh RELEASE [ARGUMENT...]; a release is 4.0, 4.1, 4.2 or 4.3. Further
# arguments go to pytest, in place of all these tests. PYTHON names an interpreter.
set -eu
cd "$(dirname "$0")/.."
release=$1
shift
lock=requirements/spark-$release.lock
[ -f "$lock" ] || { echo "no $lock: PySpark $release is not supported" >&2 && exit 2; }
python=${PYTHON:-$(scripts/find-python.sh)}
tag=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
venv=build/spark-$release-python-$tag
install() {
    "$venv/bin/python" -P -m pip install --quiet --disable-pip-version-check --require-hashes "$@"
}

if ! cmp --silent "$lock" "$venv/installed.lock"; then
    "$python" -m venv --clear "$venv"
    install --requirement requirements/dev.lock
    install --requirement "$lock" # in place of what was installed
    cp "$lock" "$venv/installed.lock"
fi
[ $# -gt 0 ] || set -- -n auto --dist loadfile --no-loadscope-reorder tests/spark
interpreter=$PWD/$venv/bin/python
# Older releases leave sockets open, which Python reports when it finds them.
PYTHONPATH=$PWD PYSPARK_PYTHON=$interpreter PYSPARK_DRIVER_PYTHON=$interpreter \
    "$interpreter" -m pytest -W ignore::pytest.PytestUnraisableExceptionWarning "$@"
