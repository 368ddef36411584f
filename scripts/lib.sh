# Shared by the scripts here; POSIX sh, read with ".".
# Whatever is said goes to stderr: stdout carries the answer of a script.

say() {
    echo "pilum: $*" >&2
}

# at_least NEED HAVE: whether version HAVE is NEED or newer.
at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

# Whether packages can be installed without asking: root on Debian, Ubuntu or a relative.
can_install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

# install_or_stop WHAT PACKAGE...: installs Debian packages, or names the command and stops.
install_or_stop() {
    what=$1
    shift
    if ! can_install; then
        say "$what is missing."
        if command -v apt-get >/dev/null 2>&1; then
            say "Install it with:  sudo apt-get update && sudo apt-get install -y $*"
        else
            say "Install it with the package manager of your system, then run make again."
        fi
        exit 1
    fi
    say "$what is missing: installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq </dev/null >&2 || true # an old list may be good enough
    apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2 || {
        say "could not install $*; try:  apt-get update && apt-get install -y $*"
        exit 1
    }
}
