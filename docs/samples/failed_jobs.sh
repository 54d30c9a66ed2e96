#!/bin/sh
# Says which jobs have failed on which minion, as it happens.
#
#     failed_jobs.sh [COUNT]      end after so many returns; without, go on until Ctrl-C
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
