#!/bin/sh
# Prints the folder of a cargo and rustc that are new enough for rust/Cargo.toml, and looks for a
# C compiler, which one of the crates needs. With the argument "lint" also for clippy and rustfmt.
set -eu
. "$(dirname "$0")/lib.sh"
need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../rust/Cargo.toml")

fits() { # fits FOLDER: also runs it, for a rustup without a toolchain has the name but no compiler
    [ -x "$1/cargo" ] || return 1
    have=$("$1/rustc" --version 2>/dev/null | cut -d' ' -f2) && [ -n "$have" ] &&
        at_least "$need" "${have%%-*}"
}

search() {
    on_path=$(command -v cargo 2>/dev/null || true)
    for folder in "${on_path%/cargo}" "${CARGO_HOME:-$HOME/.cargo}/bin" /usr/local/cargo/bin /usr/bin; do
        if [ -n "$folder" ] && fits "$folder"; then
            echo "$folder"
            return 0
        fi
    done
    return 1
}

command -v "${CC:-cc}" >/dev/null 2>&1 || install_or_stop "a C compiler" gcc libc6-dev

if ! search >/dev/null; then
    if command -v rustup >/dev/null 2>&1; then
        say "Rust $need or newer is missing; install it with:  rustup toolchain install stable"
        exit 1
    fi
    install_or_stop "Rust $need or newer" rustc-web cargo-web
fi
folder=$(search) || {
    say "Rust $need or newer is missing, and the packages of this system are older."
    say "Install it with rustup, then run make again."
    exit 1
}

if [ "${1:-}" = lint ]; then
    if ! { "$folder/cargo" clippy --version && "$folder/cargo" fmt --version; } >/dev/null 2>&1; then
        if command -v rustup >/dev/null 2>&1; then
            say "clippy or rustfmt is missing; install them with:  rustup component add clippy rustfmt"
            exit 1
        fi
        install_or_stop "clippy or rustfmt" rust-web-clippy rustfmt-web
    fi
fi
echo "$folder"
