#!/bin/sh
# Prints the size of the newest wheel in a folder; fails if it is not abi3 or over 5 MB.
set -eu
. "$(dirname "$0")/lib.sh"
wheel=$(ls -t "$1"/pilum-*.whl | head -n 1)
size=$(wc -c <"$wheel")
echo "$wheel: $((size / 1000)) kB"
case $wheel in
*abi3*) ;;
*) say "not an abi3 wheel" && exit 1 ;;
esac
if [ "$size" -gt 5000000 ]; then
    say "the wheel is over 5 MB"
    exit 1
fi
