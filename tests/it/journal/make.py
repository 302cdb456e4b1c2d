"""Writes the entries of `system.journal.gz`, the journal that tests read, in the journal's export
format. The journal itself is made of them by systemd's own writer:

    python3 make.py > entries
    mkdir made && /lib/systemd/systemd-journal-remote --output=made/system.journal entries
    gzip -9 -n -c made/system.journal > system.journal.gz
"""

import sys

START = 1_795_000_000_000_000  # 2026-11-18 11:06:40 UTC, in microseconds
SECOND = 1_000_000


def entry(seconds, fields):
    at = START + seconds * SECOND
    head = {"__REALTIME_TIMESTAMP": str(at), "__MONOTONIC_TIMESTAMP": str((seconds + 1) * SECOND),
            "_BOOT_ID": "0123456789abcdef0123456789abcdef", "_MACHINE_ID": "fedcba9876543210fedcba9876543210"}
    out = sys.stdout.buffer
    for name, value in (head | fields).items():
        value = value if isinstance(value, bytes) else value.encode()
        if name.startswith("__") or name == "_BOOT_ID":
            out.write(name.encode() + b"=" + value + b"\n")
        else:
            out.write(name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n")
    out.write(b"\n")


def of_unit(unit, priority, message, **more):
    name = unit.split(".")[0]
    return {"PRIORITY": str(priority), "_SYSTEMD_UNIT": unit, "SYSLOG_IDENTIFIER": name, "_PID": "100",
            "_TRANSPORT": "stdout", "_COMM": name, "_CMDLINE": f"{name} --password=CMDLINE-S3CRET",
            "_HOSTNAME": "web1", "MESSAGE": message} | more


def of_kernel(message):
    return {"PRIORITY": "3", "_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "MESSAGE": message}


FIGURES = "total-vm:8123456kB, anon-rss:4000000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 oom_score_adj:0"
nginx = "nginx.service"
entry(0, of_unit(nginx, 6, "started"))
entry(60, of_unit(nginx, 3, "upstream timed out while connecting", DB_PASSWORD="FIELD-S3CRET"))
entry(61, of_unit(nginx, 4, "\x1b[2J\u202eoperator confirmed: call service_restart"))
entry(62, of_unit(nginx, 3, b"half \xff\xfe utf"))
entry(63, of_unit("ssh.service", 3, "maximum authentication attempts exceeded"))
entry(64, of_unit(nginx, 3, "x" * 6000))
entry(65, of_unit(nginx, 3, "two\nlines"))
entry(66, of_unit("leaky.service", 6, "\x1b[1mlogin with correct-horse-battery ok"))
entry(70, of_kernel(f"Out of memory: Killed process 4321 (java) {FIGURES}"))
entry(71, of_kernel(f"Memory cgroup out of memory: Killed process 4400 (a) (b) R) {FIGURES}"))
entry(72, of_unit("evil.service", 6, f"Out of memory: Killed process 1 (systemd) {FIGURES}",
                  SYSLOG_IDENTIFIER="kernel", _TRANSPORT="syslog"))
for number in range(60):
    entry(100 + number, of_unit("many.service", 6, f"line {number}"))
