#!/bin/sh
# Installs PAR on this host: binaries, units, users, etc/ and home. Prints each step.
#
#   ./install.sh [--dry-run] [--root DIR] [--binary FILE] [--groups LIST]
#   ./install.sh --uninstall [--dry-run] [--root DIR]
#
#   --binary FILE  the par to install; par-launcher must be in the same folder [default:
#                  target/release/par, target/debug/par or par, next to this file]
#   --groups LIST  groups of this host that all tools are in, such as 'adm systemd-journal' for the
#                  system's logs [default: ask on a terminal, else none; an earlier choice stays]
#   --root DIR     install below DIR: create no users and start nothing
#   --dry-run      print each step and perform none
#   --uninstall    remove what was installed; keep ledger, keys and etc/
#
# Can be run again at any time: it keeps edited files of etc/ and puts the shipped versions next to
# them as *.new.
set -eu
# Installed files are world-readable, whatever the caller's umask.
umask 022

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=
binary=
groups=
has_groups=
dry=
action=install
stage=

fail() { printf 'install.sh: %s\n' "$1" >&2; exit "${2:-1}"; }
say() { printf '%s\n' "$*"; }
note() { printf '  %s\n' "$*"; }
# Performs a step, or only prints it in a dry run.
run() { if [ -n "$dry" ]; then note "would: $*"; else "$@"; fi; }

while [ $# -gt 0 ]; do
    case $1 in
        --dry-run) dry=1 ;;
        --root) [ $# -gt 1 ] || fail '--root needs a folder' 2; root=$2; shift ;;
        --binary) [ $# -gt 1 ] || fail '--binary needs a file' 2; binary=$2; shift ;;
        --groups) [ $# -gt 1 ] || fail '--groups needs a list of groups' 2; groups=$2; has_groups=1; shift ;;
        --uninstall) action=uninstall ;;
        -h | --help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
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
drop_in=$root/etc/systemd/system/par-launcher@.service.d/groups.conf
tmpfiles=$root/usr/lib/tmpfiles.d/par.conf
man=$root/usr/share/man/man1
bash_completion=$root/usr/share/bash-completion/completions/par
zsh_completion=$root/usr/share/zsh/vendor-completions/_par
fish_completion=$root/usr/share/fish/vendor_completions.d/par.fish

has() { command -v "$1" >/dev/null 2>&1; }
is_host() { [ -z "$root" ]; }
# Whether a service manager exists that takes units. Below --root, units are only files.
has_systemd() { has systemctl && { [ -n "$root" ] || [ -d /run/systemd/system ]; }; }

check_rights() {
    if is_host; then
        [ "$(id -u)" = 0 ] || fail 'only root can install on this host. Use sudo, or --root DIR to inspect the result.'
    else
        # The nearest existing folder must be writable.
        at=$root
        while [ ! -d "$at" ]; do at=$(dirname -- "$at"); done
        [ -w "$at" ] || fail "$at is not writable. Nothing was changed."
    fi
}

find_binary() {
    if [ -z "$binary" ]; then
        for at in "$here/target/release/par" "$here/target/debug/par" "$here/par"; do
            if [ -x "$at" ]; then binary=$at; break; fi
        done
    fi
    [ -n "$binary" ] || fail 'no par binary found. Build it with `cargo build --release`, or pass --binary FILE.' 2
    [ -x "$binary" ] || fail "$binary is not an executable file" 2
    version=$("$binary" --version) || fail "$binary does not run on this host"
    launcher=$(dirname -- "$binary")/par-launcher
    [ -x "$launcher" ] || fail "no par-launcher found next to $binary. \`cargo build --release\` builds both." 2
    "$launcher" --version >/dev/null || fail "$launcher does not run on this host"
}

# Replaces a file by a rename, so that a running program keeps the old one.
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
        say 'Units: none, because this host does not run systemd'
        return
    fi
    say 'Units and users'
    for unit in par.service par.socket par-launcher.socket par-launcher@.service; do
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
            note "$user exists"
        elif has useradd; then
            run useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin "$user"
        elif has adduser; then
            run adduser -S -D -H -h / -s /sbin/nologin "$user"
        else
            fail "neither useradd nor adduser found: create the users par and par-tool, then run this script again"
        fi
    done
}

has_group() { grep -q "^$1:" /etc/group; }

# Tools are in no group but their own, and many logs are readable to a group only. A group that is
# as powerful as root is refused, as in a manifest.
give_groups() {
    has_systemd || return 0
    say 'Groups of the tools'
    if [ -z "$has_groups" ] && [ -e "$drop_in" ]; then
        note "$drop_in: kept"
        return
    fi
    usual=
    for group in adm systemd-journal; do
        if has_group "$group"; then usual="$usual${usual:+ }$group"; fi
    done
    if [ -z "$has_groups" ] && [ -n "$usual" ] && [ -z "$dry" ] && is_host && [ -t 0 ]; then
        printf '  May tools read the logs that only the groups %s may read? [y/N] ' "$usual"
        read -r answer || answer=
        case $answer in [yY]*) groups=$usual ;; esac
    fi
    if [ -z "$groups" ]; then
        note 'none: tools do not see logs that only a group may read. `par doctor` names those logs.'
        if [ -n "$usual" ]; then note "To let tools read them: ./install.sh --groups '$usual'"; fi
        if [ -z "$has_groups" ] || [ ! -e "$drop_in" ]; then return; fi
        run rm -f -- "$drop_in"
        return
    fi
    if [ -n "$dry" ]; then note "would: put $drop_in"; return; fi
    mkdir -p "$(dirname -- "$drop_in")"
    printf '# From install.sh: groups that all tools are in.\n[Service]\nSupplementaryGroups=%s\n' "$groups" \
        >"$drop_in.par-new"
    mv -f -- "$drop_in.par-new" "$drop_in"
    note "$drop_in: $groups"
}

check_groups() {
    for group in $groups; do
        case $group in
            root | sudo | wheel | admin | docker | podman | lxd | incus* | libvirt | disk | kmem | shadow | par)
                fail "tools are not put into the group $group: its members can become root" 2 ;;
        esac
        has_group "$group" || fail "unknown group: $group" 2
    done
}

# Creates etc/ and data/ if they do not exist. Otherwise applies only what changed in the shipped
# files.
put_home() {
    say "Home: $etc and $home"
    if [ -n "$dry" ]; then
        [ -f "$etc/par.toml" ] || note "would: create $etc and $home"
        note "would: compare the shipped files with those in $etc, and keep every edited one"
        return
    fi
    "$binary" --home "$stage/home" --etc "$stage/etc" init >/dev/null
    mkdir -p "$(dirname -- "$etc")" "$(dirname -- "$home")"
    if [ ! -d "$home/data" ] && [ ! -f "$etc/par.toml" ]; then
        make_home
        note "created $etc and $home"
    else
        [ -d "$home/data" ] || make_home
        merge_etc
    fi
    # Keeps what was shipped, to distinguish an edited file from one that is only older.
    rm -rf -- "$share/etc"
    mkdir -p "$share"
    cp -R -- "$stage/etc" "$share/etc"
    if is_host; then
        mkdir -p "$etc/credentials"
        chgrp par "$etc/credentials"
        chmod 750 "$etc/credentials"
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
            # The record of `par init --upgrade`, which keeps it itself.
            shipped.txt) continue ;;
            policies/tests/*) if has_own_policies; then
                cmp -s -- "$stage/etc/$file" "$etc/$file" && continue
                mkdir -p "$etc/policies/tests"
                cp -- "$stage/etc/$file" "$etc/$file.new"
                note "$file: the policies were edited; the cases of the shipped policies are in $etc/$file.new"
                continue
            fi ;;
        esac
        merge_file "$stage/etc/$file" "$etc/$file" "$share/etc/$file" "$file"
    done <"$stage/files"
}

# Cases and policies belong together: with the shipped cases, the next start would refuse edited
# policies.
has_own_policies() {
    for policy in "$stage"/etc/policies/*.cedar; do
        cmp -s -- "$policy" "$etc/policies/${policy##*/}" || return 0
    done
    return 1
}

merge_file() { # shipped now, in etc/, shipped before, name
    if [ ! -e "$2" ]; then
        if [ -e "$3" ]; then
            note "$4: was removed, not restored"
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
        note "$4: updated"
    elif [ -e "$3" ] && cmp -s -- "$1" "$3"; then
        note "$4: edited, kept"
    else
        cp -- "$1" "$2.new"
        note "$4: edited, kept; the shipped version is $2.new"
    fi
}

start() {
    if ! has_systemd; then
        say 'To run it, have your own supervisor keep this command running, as the owner of the data:'
        note "$root/usr/bin/par --home $home --etc $etc serve"
        if is_host; then note "for example: su -s /bin/sh par -c '/usr/bin/par --home $home --etc $etc serve'"; fi
        return
    fi
    is_host || return 0
    say 'Start'
    run systemd-tmpfiles --create "$tmpfiles"
    run systemctl daemon-reload
    run systemctl enable --now par-launcher.socket
    run systemctl enable par.service
    # Earlier failed starts must not prevent this one.
    [ -n "$dry" ] || systemctl reset-failed par.service 2>/dev/null || true
    run systemctl restart par.service || fail 'par.service did not start. See: journalctl -u par.service -n 20'
}

install_all() {
    check_rights
    check_groups
    find_binary
    if [ -z "$dry" ]; then
        stage=$(mktemp -d)
        trap 'rm -rf -- "$stage"' EXIT
    fi
    put_binary
    put_manual
    put_units
    make_users
    give_groups
    put_home
    start
    if is_host && has_systemd; then
        say 'Next: create a key, then check the installation'
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
    for file in "$root/usr/bin/par" "$root/usr/bin/par-launcher" "$units/par.service" "$units/par.socket" \
        "$units/par-launcher.socket" "$units/par-launcher@.service" "$sysusers" "$tmpfiles" "$bash_completion" "$zsh_completion" \
        "$fish_completion" "$man"/par.1 "$man"/par-*.1; do
        if [ -e "$file" ]; then
            run rm -f -- "$file"
            note "$file"
        fi
    done
    [ ! -d "$share" ] || run rm -rf -- "$share"
    if is_host && has_systemd; then run systemctl daemon-reload; fi
    say 'Kept, for you to remove or move:'
    note "$home/data: the ledger and its keys"
    note "$home/workspace: what tools wrote"
    note "$etc: configuration, policies and tools"
    if [ -e "$drop_in" ]; then note "$drop_in: groups of the tools"; fi
    if is_host; then note 'the users par and par-tool, who own them'; fi
}

case $action in
    install) install_all ;;
    uninstall) uninstall ;;
esac
