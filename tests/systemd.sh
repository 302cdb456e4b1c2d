#!/bin/bash
# Tests PAR under a real systemd: creates a small Debian root, boots it as a container, installs PAR
# there with install.sh, and checks how the service manager runs it. Undoes everything at the end.
#
#   tests/systemd.sh [BINARY]        [default: target/release/par]
#
# Needs root and the packages mmdebstrap and systemd-container. If the container cannot boot, the
# script says so and exits with 0. If a check fails, it exits with 1.
set -euo pipefail

here=$(cd -- "$(dirname -- "$0")/.." && pwd)
binary=${1:-$here/target/release/par}
began=$SECONDS
passed=0
work=
keeper=

skip() { printf 'skipped: %s\n0 passed, 0 failed, 1 skipped\n' "$1"; exit 0; }
say() { printf '%4ds  %s\n' $((SECONDS - began)) "$*"; }

[ "$(id -u)" = 0 ] || skip 'booting a container needs root'
for tool in mmdebstrap systemd-nspawn unshare nsenter; do
    command -v $tool >/dev/null || skip "$tool is missing: apt-get install mmdebstrap systemd-container"
done
for file in "$binary" "$(dirname -- "$binary")/par-launcher"; do
    [ -x "$file" ] || skip "$file is missing: cargo build --release"
done

clean_up() {
    status=$?
    trap - EXIT
    if [ -n "$keeper" ]; then
        # On TERM, nspawn stops the container. The keeper then removes the cgroups, and its mounts
        # end with it.
        kill "$(cat "$work/nspawn" 2>/dev/null || echo "$keeper")" 2>/dev/null || true
        for _ in $(seq 100); do kill -0 "$keeper" 2>/dev/null || break; sleep 0.1; done
        kill -KILL "$keeper" 2>/dev/null || true
    fi
    [ -z "$work" ] || rm -rf --one-file-system -- "$work"
    exit $status
}
trap clean_up EXIT
work=$(mktemp -d -t par-systemd.XXXXXX)
chmod 755 "$work"
root=$work/root

say 'a Debian root with systemd'
mmdebstrap --quiet --variant=essential --include=systemd,systemd-sysv,dbus bookworm "$root" >"$work/log" 2>&1 ||
    { tail -3 "$work/log" || true; skip 'the Debian root could not be created'; }
mkdir -p "$root/root/par"
cp -R -- "$here/install.sh" "$here/systemd" "$root/root/par/"
cp -- "$binary" "$root/root/par/par"
cp -- "$(dirname -- "$binary")/par-launcher" "$root/root/par/par-launcher"

# Runs nspawn in a private mount namespace: one cgroup2, and a private /run for what nspawn leaves.
# The seccomp filter of nspawn is off because it hides Landlock. /proc and /sys are not masked
# because the kernel refuses a fresh /proc below a masked one. Status 133 is a reboot.
cat >"$work/keep" <<'END'
set -u
mount --make-rprivate /
umount -R /sys/fs/cgroup 2>/dev/null
mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount -t tmpfs tmpfs /run || exit 1
own=/sys/fs/cgroup/par-machine.$$
status=133
while [ $status = 133 ]; do
    mkdir -p "$own"
    (
        echo "$BASHPID" >"$own/cgroup.procs"
        echo "$BASHPID" >"$1/nspawn"
        exec env SYSTEMD_SECCOMP=0 SYSTEMD_NSPAWN_API_VFS_WRITABLE=yes systemd-nspawn --quiet --register=no \
            --keep-unit --private-network --capability=all --hostname=machine --console=pipe -b -D "$1/root"
    ) </dev/null >>"$1/console" 2>&1
    status=$?
    find "$own" -depth -type d -exec rmdir {} + 2>/dev/null
done
END

# enter: runs a command in the namespaces of the container's first process.
# inside: runs a shell line in the container, as its own systemd unit.
enter() { nsenter -t "$leader" -m -u -i -n -p -C -- "$@"; }
inside() {
    enter env -i PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 \
        systemd-run --quiet --pipe --wait --collect -E HOME=/root --working-directory=/root/par \
        bash -euo pipefail -c "$1"
}
# Waits until the container has a first process other than $1 and has finished booting.
booted() {
    leader=
    for _ in $(seq 300); do
        sleep 0.1
        kill -0 "$keeper" 2>/dev/null || return 1
        nspawn=$(cat "$work/nspawn" 2>/dev/null) || continue
        leader=$(awk '{ print $1 }' "/proc/$nspawn/task/$nspawn/children" 2>/dev/null) || continue
        [ -n "$leader" ] && [ "$leader" != "$1" ] || continue
        case $(enter systemctl is-system-running 2>/dev/null) in running | degraded) return 0 ;; esac
    done
    return 1
}

unshare --mount bash "$work/keep" "$work" &
keeper=$!
booted '' || { tail -5 "$work/console" || true; skip 'systemd did not boot in a container here'; }
say "booted: $(enter systemctl --version | head -1)"

check() { # description, a shell line that must succeed inside
    if inside "$2" >"$work/out" 2>&1; then
        passed=$((passed + 1))
        say "ok    $1"
    else
        say "FAIL  $1"
        sed 's/^/      /' "$work/out"
        inside 'journalctl -n 30 --no-pager -u par.service -u "par-launcher@*"' 2>&1 | sed 's/^/      /' || true
        printf '%d passed, 1 failed\n' $passed
        exit 1
    fi
}
# Functions that the checks share.
cat >"$root/root/par/lib" <<'END'
export PAR_KEY_FILE=/root/key
front() { systemctl show -p MainPID --value par.service; }
# The launchers' processes: the one that waits and the one that serves.
tools() {
    for at in /proc/[0-9]*; do
        [ "$(stat -c %U "$at" 2>/dev/null)" != par-tool ] || echo "${at#/proc/}"
    done
}
within() { # seconds, a shell line
    for _ in $(seq "$1"); do if eval "$2"; then return 0; fi; sleep 1; done
    echo "not within $1 s: $2"
    return 1
}
is_up() { systemctl is-active --quiet par.service && par doctor --quick; }
reads() {
    par run 'read_file(path="/var/lib/par/workspace/demo/incoming/1.0.1/VERSION")' | tee /dev/stderr |
        grep '  1\.0\.1$'
}
END

check 'install.sh' './install.sh --binary ./par'
check 'the unit is up, and reported it itself' '
    . ./lib; is_up
    test "$(systemctl show -p Type --value par.service)" = notify
    systemctl status --no-pager par.service | grep "Status: \"listening on"'
check 'there are two users, and the front has no capability' '
    . ./lib
    test "$(stat -c %U /proc/$(front))" = par
    test "$(tools | wc -l)" = 2
    test "$(grep -c "^Cap.*:.0*$" /proc/$(front)/status)" = 5'
check 'doctor finds every protection' '
    par doctor | tee /dev/stderr | grep "^ok    protections .*net namespace.*pid namespace.*landlock.*seccomp"'
check 'a governed call reads a file of the workspace' '
    . ./lib; umask 077; par key create me --role operator > /root/key
    reads; par audit verify'
check 'what no policy permits is refused' '
    . ./lib; par run "read_file(path=\"/etc/shadow\")" | tee /dev/stderr | grep "deny .*par.outside"'
check 'the job deploys once a person has approved it' '
    . ./lib
    sed -i "s/^# release = .*/release = [\"os:root\"]/" /etc/par/par.toml
    par config check; systemctl restart par.service
    code=0; par run "deploy(project=\"demo\", version=\"1.0.0\")" || code=$?; test $code = 4
    id=$(par approval list --json | grep -o "apr_[0-9A-Z]*" | head -1)
    par approval approve "$id" --card "$(par approval show "$id" | tail -1 | grep -o "....$")"
    within 10 "test \"\$(readlink /var/lib/par/workspace/demo/current)\" = releases/1.0.0"'
check 'rules are reloaded while the server runs, or not at all' '
    . ./lib; before=$(front)
    printf "%s\n" "@id(\"closed\") forbid (principal, action, resource is PAR::Host)" \
        "when { context.call.dry_run == false };" > /etc/par/policies/50-closed.cedar
    ! systemctl reload par.service
    par run "health_check()" | grep "health_check .*allow"
    mkdir /root/cases; mv /etc/par/policies/tests /root/cases
    systemctl reload par.service
    par run "health_check()" | grep "health_check .*deny.*closed"
    rm /etc/par/policies/50-closed.cedar; mv /root/cases/tests /etc/par/policies
    systemctl reload par.service; reads; test "$(front)" = "$before"
    par audit show kind:policy.load | tee /dev/stderr | grep -c os:par'
check 'other users reach neither the launchers nor a key' '
    as() { setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }
    test -S /run/par/launcher.sock
    as 65534 test ! -w /run/par/launcher.sock
    as "$(id -u par-tool)" test ! -w /run/par/launcher.sock
    as "$(id -u par-tool)" test ! -x /var/lib/par/data
    ! as 65534 par key create them --role operator'
check 'the key of the model is a credential' '
    . ./lib
    install -m 600 /dev/stdin /etc/par/credentials/llm_api_key <<< not-a-key
    mkdir -p /etc/systemd/system/par.service.d
    printf "[Service]\nLoadCredential=llm_api_key:/etc/par/credentials/llm_api_key\n" \
        > /etc/systemd/system/par.service.d/model.conf
    systemctl daemon-reload; systemctl restart par.service; is_up
    test "$(stat -c %U:%a /run/credentials/par.service/llm_api_key)" = par:400
    rm -r /etc/systemd/system/par.service.d; systemctl daemon-reload; systemctl restart par.service'
check 'a killed front is restarted' '
    . ./lib; before=$(front); systemctl reset-failed par.service
    kill -KILL "$before"
    within 15 "test \$(front) != 0 && test \$(front) != $before && is_up"
    reads; par audit verify'
check 'a killed launcher is replaced' '
    . ./lib; before=$(front)
    kill -KILL $(tools)
    within 15 reads; test "$(front)" = "$before"'
check 'the watchdog kills a front that hangs' '
    . ./lib
    mkdir -p /run/systemd/system/par.service.d
    printf "[Service]\nWatchdogSec=6s\n" > /run/systemd/system/par.service.d/soon.conf
    systemctl daemon-reload; systemctl reset-failed par.service; systemctl restart par.service
    before=$(front); sleep 8; test "$(front)" = "$before"
    kill -STOP "$before"
    within 25 "test \$(front) != 0 && test \$(front) != $before && is_up"
    journalctl -u par.service --no-pager | grep "Watchdog timeout"'
check 'a launcher that hangs is replaced, and the front keeps running' '
    . ./lib; before=$(front); stopped=$(tools)
    kill -STOP $stopped
    within 25 reads; test "$(front)" = "$before"
    kill -CONT $stopped'
check 'stopping is clean and fast' '
    . ./lib; start=$(date +%s); systemctl stop par.service; test $(($(date +%s) - start)) -lt 5
    test "$(systemctl show -p Result --value par.service)" = success
    within 5 "test -z \"\$(tools)\""
    systemctl start par.service; is_up'

was=$leader
enter systemctl reboot 2>/dev/null || true
booted "$was" || { say 'FAIL  the container did not come back'; exit 1; }
check 'everything runs again after a reboot' '. ./lib; within 20 is_up; reads; par audit verify'

check 'running install.sh again changes no edited file' '
    ./install.sh --binary ./par | tee /dev/stderr | grep "par.toml: edited, kept"; grep os:root /etc/par/par.toml'
check 'uninstall removes everything but ledger, workspace and etc/' '
    ./install.sh --uninstall
    test ! -e /usr/bin/par; test ! -e /usr/bin/par-launcher; test -z "$(systemctl list-units --all --plain --no-legend "par*")"
    test -f /var/lib/par/data/ledger.db; test -f /etc/par/par.toml'

enter systemctl poweroff 2>/dev/null || true
for _ in $(seq 100); do kill -0 "$keeper" 2>/dev/null || break; sleep 0.1; done
say 'done'
printf '%d passed, 0 failed\n' $passed
