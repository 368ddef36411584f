#!/bin/sh
# Prints the size of the newest wheel in a folder; fails if it is not abi3 or over 5.5 MB. Of these,
# 2.4 MB are dictionaries for languages without spaces: an index has to cut words as others do.
set -eu
. "$(dirname "$0")/lib.sh"
wheel=$(ls -t "$1"/pilum-*.whl | head -n 1)
size=$(wc -c <"$wheel")
echo "$wheel: $((size / 1000)) kB"
case $wheel in
*abi3*) ;;
*) say "not an abi3 wheel" && exit 1 ;;
esac
if [ "$size" -gt 5500000 ]; then
    say "the wheel is over 5.5 MB"
    exit 1
fi
