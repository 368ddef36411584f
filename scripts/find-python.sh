#!/bin/sh
# Prints the path of a Python 3.11 or newer that can make virtual environments.
# PYTHON=... chooses one. What is missing is installed where that needs no question.
set -eu
. "$(dirname "$0")/lib.sh"

fits() { # The shims of version managers exist for versions that do not run: ask, do not look.
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

search() {
    for name in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        if command -v "$name" >/dev/null 2>&1 && fits "$name"; then
            "$name" -c 'import sys; print(sys.executable)'
            return 0
        fi
    done
    return 1
}

search && exit 0
if [ -n "${PYTHON:-}" ]; then
    say "PYTHON=$PYTHON is not a Python 3.11 or newer with the modules venv and ensurepip."
    exit 1
fi
install_or_stop "Python 3.11 or newer (with venv)" python3 python3-venv
search && exit 0
say "the Python of this system is older than 3.11; install a newer one and set PYTHON=/path/to/it"
exit 1
