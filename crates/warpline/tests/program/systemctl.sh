#!/usr/bin/env bash
# Stands in for systemctl: starts and signals the unit `warpline` with its user, rights, folders and
# commands.
set -euo pipefail

unit=/etc/systemd/system/warpline.service
value() { sed -e ':all' -e '/\\$/{N;s/\\\n//;ball' -e '}' "$unit" | sed -n "s/^$1=//p"; }

case $1 in
enable)
    user=$(value User)
    install -d -o "$user" "/run/$(value RuntimeDirectory)" "/var/log/$(value LogsDirectory)" \
        "/var/lib/$(value StateDirectory)"
    cd "$(value WorkingDirectory)"
    umask "$(value UMask)"
    setpriv --reuid "$user" --regid "$user" --init-groups --no-new-privs \
        --inh-caps=-all,+net_raw --ambient-caps=-all,+net_raw --bounding-set=-all,+net_raw \
        $(value ExecStart) &
    echo $! > /run/warpline.pid
    for _ in $(seq 100); do
        [ -S /run/warpline/warpline.sock ] && break
        sleep 0.1
    done
    ;;
reload)
    MAINPID=$(cat /run/warpline.pid) bash -c "$(value ExecReload)"
    ;;
kill)
    kill "${2/--signal=/-}" "$(cat /run/warpline.pid)"
    ;;
esac
