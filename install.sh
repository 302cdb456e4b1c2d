#!/bin/sh
# Installs PAR on this host: binaries, units, users, etc/ and homes. Each step is said before it is done.
#
#   ./install.sh [--dry-run] [--root DIR] [--binary FILE]
#   ./install.sh --uninstall [--dry-run] [--root DIR]
#
#   --binary FILE  what to install, with the par-launcher beside it [default: target/release/par, else
#                  target/debug/par, beside this file]
#   --root DIR     everything below DIR: no users are made and nothing is started
#   --dry-run      say each step and do none
#   --uninstall    remove what was installed; ledger, keys and etc/ stay
#
# May be run again at any time: files of etc/ that were edited are kept, and the shipped ones are put
# beside them as *.new.
set -eu
# What is put in place is for all to read, whatever the caller's own mask.
umask 022

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=
binary=
dry=
action=install
stage=

fail() { printf 'install.sh: %s\n' "$1" >&2; exit "${2:-1}"; }
say() { printf '%s\n' "$*"; }
note() { printf '  %s\n' "$*"; }
# Does a step, unless it is only to be said.
run() { if [ -n "$dry" ]; then note "would: $*"; else "$@"; fi; }

while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) dry=1 ;;
        --root) [ $# -gt 1 ] || fail '--root needs a folder' 2; root=$2; shift ;;
        --binary) [ $# -gt 1 ] || fail '--binary needs a file' 2; binary=$2; shift ;;
        --uninstall) action=uninstall ;;
        -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) fail "unknown option: $1 (see --help)" 2 ;;
    esac
    shift
done
case $root in
    '' | /) root= ;;
    /*) root=${root%/} ;;
    *) root=$PWD/${root%/} ;;
esac

etc=$root/etc/par
home=$root/var/lib/par
share=$root/usr/share/par
units=$root/usr/lib/systemd/system
sysusers=$root/usr/lib/sysusers.d/par.conf
tmpfiles=$root/usr/lib/tmpfiles.d/par.conf
man=$root/usr/share/man/man1
bash_completion=$root/usr/share/bash-completion/completions/par
zsh_completion=$root/usr/share/zsh/vendor-completions/_par
fish_completion=$root/usr/share/fish/vendor_completions.d/par.fish

has() { command -v "$1" >/dev/null 2>&1; }
is_host() { [ -z "$root" ]; }
# Whether there is a service manager to give units to; below --root they are only files.
has_systemd() { has systemctl && { [ -n "$root" ] || [ -d /run/systemd/system ]; }; }

check_rights() {
    if is_host; then
        [ "$(id -u)" = 0 ] || fail 'only root can install on this host. Use sudo, or --root DIR to look at the result.'
    else
        # The nearest folder that is there has to take new ones.
        at=$root
        while [ ! -d "$at" ]; do at=$(dirname -- "$at"); done
        [ -w "$at" ] || fail "may not write in $at. Nothing was changed."
    fi
}

find_binary() {
    if [ -z "$binary" ]; then
        for at in "$here/target/release/par" "$here/target/debug/par" "$here/par"; do
            if [ -x "$at" ]; then binary=$at; break; fi
        done
    fi
    [ -n "$binary" ] || fail 'there is no binary. Build it with `cargo build --release`, or give --binary FILE.' 2
    [ -x "$binary" ] || fail "$binary is no program" 2
    version=$("$binary" --version) || fail "$binary does not run on this host"
    launcher=$(dirname -- "$binary")/par-launcher
    [ -x "$launcher" ] || fail "there is no par-launcher beside $binary. \`cargo build --release\` makes both." 2
    "$launcher" --version >/dev/null || fail "$launcher does not run on this host"
}

# A file is replaced whole, so that a running program keeps the one that it has.
put() { # mode, from, to
    run mkdir -p "$(dirname -- "$3")"
    if [ -n "$dry" ]; then note "would: put $3"; return; fi
    cp -- "$2" "$3.par-new"
    chmod "$1" "$3.par-new"
    mv -f -- "$3.par-new" "$3"
    note "$3"
}

put_binary() {
    say "Binaries: $version"
    put 755 "$binary" "$root/usr/bin/par"
    put 755 "$launcher" "$root/usr/bin/par-launcher"
}

put_manual() {
    say 'Manual and completions'
    if [ -n "$dry" ]; then note "would: write $man/par.1 and completions for bash, zsh and fish"; return; fi
    mkdir -p "$stage/man"
    "$binary" man --dir "$stage/man" >/dev/null
    mkdir -p "$man"
    for page in "$stage"/man/*.1; do
        cp -- "$page" "$man/"
        chmod 644 "$man/${page##*/}"
    done
    note "$man/par*.1"
    for shell in bash zsh fish; do "$binary" completion "$shell" >"$stage/$shell"; done
    put 644 "$stage/bash" "$bash_completion"
    put 644 "$stage/zsh" "$zsh_completion"
    put 644 "$stage/fish" "$fish_completion"
}

put_units() {
    if ! has_systemd; then
        say 'Units: none, since this host does not run systemd'
        return
    fi
    say 'Units and users'
    for unit in par.service par-launcher.socket par-launcher@.service; do
        put 644 "$here/systemd/$unit" "$units/$unit"
    done
    put 644 "$here/systemd/sysusers.d/par.conf" "$sysusers"
    put 644 "$here/systemd/tmpfiles.d/par.conf" "$tmpfiles"
}

make_users() {
    is_host || return 0
    say 'Users: par (the front), par-tool (tools)'
    if has_systemd && has systemd-sysusers; then
        run systemd-sysusers "$sysusers"
        return
    fi
    for user in par par-tool; do
        if id "$user" >/dev/null 2>&1; then
            note "$user is there"
        elif has useradd; then
            run useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin "$user"
        elif has adduser; then
            run adduser -S -D -H -h / -s /sbin/nologin "$user"
        else
            fail "neither useradd nor adduser is there: make the users par and par-tool, and run this again"
        fi
    done
}

# etc/ and data/ where they are not, and then only what changed in the shipped files.
put_home() {
    say "Home: $etc and $home"
    if [ -n "$dry" ]; then
        [ -f "$etc/par.toml" ] || note "would: make $etc and $home"
        note "would: compare the shipped files with those in $etc, and keep every edited one"
        return
    fi
    "$binary" --home "$stage/home" --etc "$stage/etc" init >/dev/null
    mkdir -p "$(dirname -- "$etc")" "$(dirname -- "$home")"
    if [ ! -d "$home/data" ] && [ ! -f "$etc/par.toml" ]; then
        make_home
        note "made $etc and $home"
    else
        [ -d "$home/data" ] || make_home
        merge_etc
    fi
    # What was shipped, to tell an edited file from one that is only older.
    rm -rf -- "$share/etc"
    mkdir -p "$share"
    cp -R -- "$stage/etc" "$share/etc"
    if is_host; then
        mkdir -p "$etc/credentials"
        chmod 700 "$etc/credentials"
    fi
}

make_home() {
    if is_host; then
        "$binary" --home "$home" --etc "$etc" init --user par --tool-user par-tool >/dev/null
    else
        "$binary" --home "$home" --etc "$etc" init >/dev/null
    fi
}

merge_etc() {
    (cd "$stage/etc" && find . -type f | sort) >"$stage/files"
    while IFS= read -r file; do
        file=${file#./}
        case $file in
            policies/tests/*) if has_own_policies; then
                cmp -s -- "$stage/etc/$file" "$etc/$file" && continue
                mkdir -p "$etc/policies/tests"
                cp -- "$stage/etc/$file" "$etc/$file.new"
                note "$file: the policies are edited here; the cases of the shipped ones are $etc/$file.new"
                continue
            fi ;;
        esac
        merge_file "$stage/etc/$file" "$etc/$file" "$share/etc/$file" "$file"
    done <"$stage/files"
}

# Cases and policies belong together: cases of the shipped ones would refuse edited ones at the next start.
has_own_policies() {
    for policy in "$stage"/etc/policies/*.cedar; do
        cmp -s -- "$policy" "$etc/policies/${policy##*/}" || return 0
    done
    return 1
}

merge_file() { # shipped now, in etc/, shipped before, name
    if [ ! -e "$2" ]; then
        if [ -e "$3" ]; then
            note "$4: was removed here, and stays away"
        else
            mkdir -p "$(dirname -- "$2")"
            cp -- "$1" "$2"
            note "$4: new"
        fi
    elif cmp -s -- "$1" "$2"; then
        rm -f -- "$2.new"
    elif [ -e "$3" ] && cmp -s -- "$2" "$3"; then
        cp -- "$1" "$2.par-new"
        mv -f -- "$2.par-new" "$2"
        note "$4: brought up to date"
    elif [ -e "$3" ] && cmp -s -- "$1" "$3"; then
        note "$4: edited here, and kept"
    else
        cp -- "$1" "$2.new"
        note "$4: edited here, and kept; the shipped one is $2.new"
    fi
}

start() {
    if ! has_systemd; then
        say 'To run it, have a supervisor of your own keep this command going, as the owner of the data:'
        note "$root/usr/bin/par --home $home --etc $etc serve"
        if is_host; then note "such as: su -s /bin/sh par -c '/usr/bin/par --home $home --etc $etc serve'"; fi
        return
    fi
    is_host || return 0
    say 'Start'
    run systemd-tmpfiles --create "$tmpfiles"
    run systemctl daemon-reload
    run systemctl enable --now par-launcher.socket
    run systemctl enable par.service
    # Earlier starts that failed must not keep this one from being tried.
    [ -n "$dry" ] || systemctl reset-failed par.service 2>/dev/null || true
    run systemctl restart par.service || fail 'par.service did not start: journalctl -u par.service -n 20 says why.'
}

install_all() {
    check_rights
    find_binary
    if [ -z "$dry" ]; then
        stage=$(mktemp -d)
        trap 'rm -rf -- "$stage"' EXIT
    fi
    put_binary
    put_manual
    put_units
    make_users
    put_home
    start
    if is_host && has_systemd; then
        say 'Next: make a key, and ask'
        note 'par key create me --role operator'
        note 'par doctor'
    fi
    say 'Done.'
}

uninstall() {
    check_rights
    if is_host && has_systemd; then
        say 'Stop'
        run systemctl disable --now par.service par-launcher.socket || true
    fi
    say 'Remove'
    for file in "$root/usr/bin/par" "$root/usr/bin/par-launcher" "$units/par.service" "$units/par-launcher.socket" \
        "$units/par-launcher@.service" "$sysusers" "$tmpfiles" "$bash_completion" "$zsh_completion" \
        "$fish_completion" "$man"/par.1 "$man"/par-*.1; do
        if [ -e "$file" ]; then
            run rm -f -- "$file"
            note "$file"
        fi
    done
    [ ! -d "$share" ] || run rm -rf -- "$share"
    if is_host && has_systemd; then run systemctl daemon-reload; fi
    say 'Kept, for you to remove or to move away:'
    note "$home/data: the ledger and its keys"
    note "$home/workspace: what tools made"
    note "$etc: configuration, policies and tools"
    if is_host; then note 'the users par and par-tool, who own them'; fi
}

case $action in
    install) install_all ;;
    uninstall) uninstall ;;
esac
