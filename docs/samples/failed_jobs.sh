#!/bin/sh
# Prints each failed job and its minion as the returns come in.
#
#     failed_jobs.sh [COUNT]      ends after COUNT returns; without COUNT, at Ctrl-C
#
# HALITE_CONFIG_DIR names the configuration directory of the master.
tab=$(printf '\t')
halite-run state.event 'salt/job/*/ret/*' count="${1:--1}" |
    while IFS=$tab read -r tag data; do
        case $data in
        *'"retcode": 0,'* | *'"retcode": 0}'*) ;;
        *) printf 'FAILED %s %s\n' "$tag" "$data" ;;
        esac
    done
