#!/bin/sh
# Rewrites requirements/*.lock from the ranges in pyproject.toml.
# Usage: scripts/lock.sh PYTHON [ARGUMENT...]; the arguments go to "uv pip compile", such as --upgrade.
set -eu
cd "$(dirname "$0")/.."
python=$1
shift
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools"
"$tools/bin/pip" install --quiet uv

compile() { # compile NAME ARGUMENT...: writes requirements/NAME.lock
    name=$1
    shift
    "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links \
        --custom-compile-command "make lock" --output-file "requirements/$name.lock" "$@"
}

compile dev "$@" --extra dev pyproject.toml
compile demo "$@" --extra demo --constraints requirements/dev.lock pyproject.toml requirements/demo.in
compile docs "$@" --extra docs --constraints requirements/dev.lock pyproject.toml
compile protos "$@" requirements/protos.in

# The supported releases of Spark with pandas 2: what they replace in an environment of dev.lock.
awk '/^[a-z]/ { left_out = /^(pandas|py4j|pyspark)[=[]/ } !left_out && !/^ *#/' requirements/dev.lock \
    > "$tools/constraints.txt"
for version in 4.0 4.1 4.2 4.3; do
    compile "spark-$version" "$@" --no-annotate --constraints "$tools/constraints.txt" \
        "requirements/spark-$version.in"
done
