complete -c halite-sysinspect-minion -l saltfile -d 'File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile' -r -F
complete -c halite-sysinspect-minion -s l -l log-level -d 'Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet' -r -f -a "all\t''
garbage\t''
trace\t''
debug\t''
profile\t''
info\t''
warning\t''
error\t''
critical\t''
quiet\t''"
complete -c halite-sysinspect-minion -l log-file -d 'Log file; overrides the configuration' -r -F
complete -c halite-sysinspect-minion -l log-file-level -d 'Log level of the log file' -r -f
complete -c halite-sysinspect-minion -l register -d 'Fingerprint of the master\'s key to accept, as shown to its operator; overrides the option `sysinspect_fingerprint`' -r -f
complete -c halite-sysinspect-minion -l dialect -d 'Variant of the protocol; overrides the option `sysinspect_dialect`' -r -f -a "seed\t'The protocol as documented: base64 payloads, the id encrypted with the master\'s key'
e3\t'The programs of 2025-12 to 2026-03'"
complete -c halite-sysinspect-minion -l master -d 'Master to use; overrides the option `master`' -r -f
complete -c halite-sysinspect-minion -l id -d 'Machine id; overrides the option `sysinspect_id`' -r -f
complete -c halite-sysinspect-minion -s u -l user -d 'Account to run as; overrides the option `user`' -r -f
complete -c halite-sysinspect-minion -l pid-file -d 'Pid file; by default none is written' -r -F
complete -c halite-sysinspect-minion -s c -l config-dir -d 'Directory of the configuration files; a directory called `salt` means an existing Salt installation' -r -f -a "(__fish_complete_directories)"
complete -c halite-sysinspect-minion -s V -l versions-report -d 'Print the versions of the program, its libraries and the system, and exit'
complete -c halite-sysinspect-minion -l version -d 'Print the version of the program, and exit'
complete -c halite-sysinspect-minion -s d -l daemon -d 'Run in the background; returns when it has started to look for its master'
complete -c halite-sysinspect-minion -l check-config -d 'Check the configuration, print what is wrong with it, and exit: with 0, or with 1 if the program could not run'
complete -c halite-sysinspect-minion -s h -l help -d 'Print help (see more with \'--help\')'
