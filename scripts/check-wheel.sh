#!/bin/sh
# Checks the newest wheel in a folder: it is abi3, small, and works without a compiler.
# For each CPython from 3.11 on that is here, it is installed into a new environment, with nothing
# but that environment on the PATH and with wheels only, and scripts/try-wheel.py runs there; with
# 3.11 also beside the lowest versions of the dependencies.
# Of the size, 2.4 MB are dictionaries for languages without spaces: an index has to cut words as
# others do.
set -eu
. "$(dirname "$0")/lib.sh"
wheel=$(realpath "$(ls -t "$1"/pilum-*.whl | head -n 1)")
script=$(realpath "$(dirname "$0")/try-wheel.py")
lowest=$(realpath "$(dirname "$0")/../requirements/lowest.txt")
size=$(wc -c <"$wheel")
echo "$wheel: $((size / 1000)) kB"
case $wheel in
*abi3*) ;;
*) say "not an abi3 wheel" && exit 1 ;;
esac
if [ "$size" -gt 6500000 ]; then
    say "the wheel is over 6.5 MB"
    exit 1
fi

# Prints an interpreter of a version: one on the PATH that runs, else the newest one of pyenv.
python_of() {
    for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python; do
        if "$python" -c 'import sys, venv, ensurepip' >/dev/null 2>&1; then
            echo "$python"
            return 0
        fi
    done
    return 1
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Tries the wheel with an interpreter, in an environment of a name: try_with PYTHON NAME [PIP...].
try_with() (
    "$1" -m venv "$folder/$2"
    bin="$folder/$2/bin"
    shift 2
    cd "$folder"
    unset PYTHONPATH
    PATH="$bin" CC=/nonexistent CARGO=/nonexistent \
        "$bin/python" -m pip install --quiet --disable-pip-version-check \
        --only-binary :all: "$wheel" "$@"
    PATH="$bin" "$bin/python" "$script"
)

tried=""
for version in 3.11 3.12 3.13 3.14; do
    python=$(python_of "$version") || continue
    try_with "$python" "$version"
    if [ "$version" = 3.11 ]; then
        try_with "$python" lowest --requirement "$lowest"
    fi
    tried="$tried $version"
done
if [ -z "$tried" ]; then
    say "no CPython from 3.11 on to try the wheel with"
    exit 1
fi
echo "installed without a compiler, and tried with CPython$tried"
