#!/bin/sh
# Installs the servers that tests start on this machine and that are in no lock file. Once for all
# checkouts: they are kept in ~/.cache/pilum-tests, or below XDG_CACHE_HOME. Tests never build
# anything: what is missing here, or cannot be built, is named here and by the tests that skip.
set -eu
. "$(dirname "$0")/lib.sh"

versitygw=v1.8.0
azurite=3.35.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/pilum-tests
mkdir -p "$cache"

# One at a time, whatever the checkout; the others wait, and then find everything there.
if command -v flock >/dev/null 2>&1; then
    exec 9>"$cache/lock"
    flock --nonblock 9 || {
        say "another checkout is installing the servers: waiting for it"
        flock 9
    }
fi

has_postgresql() {
    command -v initdb >/dev/null 2>&1 || [ -d /usr/lib/postgresql ]
}

install_postgresql() {
    has_postgresql || ! can_install || (install_or_stop PostgreSQL postgresql) || true
    has_postgresql || say "PostgreSQL is missing: some tests skip"
}

# Since 1.21 a Go fetches the newer one that a program asks for.
has_go() {
    have=$(go version 2>/dev/null | sed -n 's/^go version go\([0-9.]*\).*/\1/p')
    [ -n "$have" ] && at_least 1.21 "$have"
}

packaged_go_fits() {
    have=$(apt-cache show golang-go 2>/dev/null | sed -n 's/^Version: 2:\([0-9.]*\).*/\1/p' | head -n 1)
    [ -n "$have" ] && at_least 1.21 "$have"
}

build_versitygw() {
    goal=$cache/versitygw-$versitygw
    [ ! -x "$goal/versitygw" ] || return 0
    if ! has_go && can_install && packaged_go_fits; then
        (install_or_stop "Go (for an S3 server)" golang-go) || true
    fi
    has_go || {
        say "Go 1.21 or newer is missing, to build versitygw, an S3 server: some tests skip"
        return 0
    }
    say "building versitygw, an S3 server: some minutes, once for all checkouts"
    # Nobody debugs it: without the tables for that it is built sooner. GOBIN is a folder of its
    # own, so that what is interrupted is never taken for the program.
    GOBIN=$goal.part go install -v -trimpath -ldflags="-s -w" -gcflags=all=-dwarf=false \
        "github.com/versity/versitygw/cmd/versitygw@$versitygw" 2>&1 |
        awk '{ last = $0 } NR % 100 == 0 { print "pilum:     " NR " packages, now " $0; fflush() } /error|cannot/ { print }
             END { print "pilum:     " NR " packages, the last one " last }' >&2
    [ -x "$goal.part/versitygw" ] || {
        say "versitygw could not be built: some tests skip"
        return 0
    }
    mkdir -p "$goal"
    mv "$goal.part/versitygw" "$goal/versitygw"
    rmdir "$goal.part"
}

install_azurite() {
    goal=$cache/azurite-$azurite
    [ ! -d "$goal" ] || return 0
    command -v npm >/dev/null 2>&1 || {
        say "npm is missing, to install Azurite, an emulator of Azure: a test skips"
        return 0
    }
    say "installing Azurite, an emulator of Azure's object store"
    rm -rf "$goal.part"
    mkdir "$goal.part"
    npm install --silent --no-audit --no-fund --prefix "$goal.part" "azurite@$azurite" >&2 || {
        say "Azurite could not be installed: a test skips"
        return 0
    }
    mv "$goal.part" "$goal"
}

install_postgresql
build_versitygw
install_azurite
