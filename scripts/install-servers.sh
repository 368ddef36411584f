#!/bin/sh
# Installs the servers that tests start on this machine and that are in no lock file; tests skip
# without. Only where that needs no question: root on Debian or a relative.
set -eu
. "$(dirname "$0")/lib.sh"

can_install || exit 0
[ -d /usr/lib/postgresql ] || (install_or_stop PostgreSQL postgresql) || true
command -v go >/dev/null 2>&1 || (install_or_stop "Go (for an S3 server)" golang-go) || true
