#!/usr/bin/env python3
"""Prints the events of a master's bus. Needs Salt's own Python, of the master's salt_series.

    events_salt.py SOCK_DIR [TAG-PREFIX [COUNT]]
"""
import sys

import salt.utils.event


def main():
    sock_dir, prefix, left = sys.argv[1], "".join(sys.argv[2:3]), int("".join(sys.argv[3:4]) or 0)
    # With opts of salt.config.client_config(...) instead of sock_dir, Salt finds the directory itself.
    with salt.utils.event.get_event("master", sock_dir=sock_dir, opts={}, listen=True) as bus:
        for event in bus.iter_events(tag=prefix, full=True, match_type="startswith"):
            print(event["tag"], event["data"], flush=True)
            left -= 1
            if left == 0:
                break


if __name__ == "__main__":
    main()
