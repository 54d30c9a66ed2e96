# Shared by the scripts here; sourced, not run.

say() { printf '%s\n' "$*" >&2; }
die() { say "ERROR: $*"; exit 1; }

# Installs Debian packages whose test command or file is missing.
# Arguments: pairs of a check (a command name, or a path) and a package.
need_packages() {
    local missing=()
    while [ $# -gt 1 ]; do
        case "$1" in
            /*) [ -e "$1" ] || missing+=("$2") ;;
            *) command -v "$1" >/dev/null 2>&1 || missing+=("$2") ;;
        esac
        shift 2
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        die "please install: ${missing[*]} (as root: apt-get install ${missing[*]})"
    fi
    say "installing ${missing[*]}"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "${missing[@]}"; } >"$LOGS/apt.log" 2>&1 \
        || die "apt-get failed, see $LOGS/apt.log"
}

# What building halite takes: a C++ compiler for ZeroMQ, OpenSSL's headers, Rust.
need_build_tools() {
    need_packages g++ g++ make make pkg-config pkg-config /usr/include/openssl/ssl.h libssl-dev
    command -v cargo >/dev/null 2>&1 || [ ! -f "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
    command -v cargo >/dev/null 2>&1 || die "cargo is missing; install Rust 1.90 or later with rustup (rustup.rs)"
}
