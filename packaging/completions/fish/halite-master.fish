complete -c halite-master -l saltfile -d 'File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile' -r -F
complete -c halite-master -s l -l log-level -d 'Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet' -r -f -a "all\t''
garbage\t''
trace\t''
debug\t''
profile\t''
info\t''
warning\t''
error\t''
critical\t''
quiet\t''"
complete -c halite-master -l log-file -d 'Log file; overrides the configuration' -r -F
complete -c halite-master -l log-file-level -d 'Log level of the log file' -r -f
complete -c halite-master -s u -l user -d 'Account to run as; overrides the option `user`' -r -f
complete -c halite-master -l pid-file -d 'Pid file; overrides the option `pidfile`' -r -F
complete -c halite-master -s c -l config-dir -d 'Directory of the configuration files; a directory called `salt` means an existing Salt installation' -r -f -a "(__fish_complete_directories)"
complete -c halite-master -s V -l versions-report -d 'Print the versions of the program, its libraries and the system, and exit'
complete -c halite-master -l version -d 'Print the version of the program, and exit'
complete -c halite-master -s d -l daemon -d 'Run in the background; returns when the daemon is ready, or has reported why it is not'
complete -c halite-master -l disable-keepalive -d 'Accepted for compatibility; a daemon never restarts itself'
complete -c halite-master -l config-dump -d 'Print the configuration in effect as YAML, and exit'
complete -c halite-master -l sample-config -d 'Print a commented configuration file with all options, and exit'
complete -c halite-master -l check-config -d 'Check the configuration, print what is wrong with it, and exit: with 0, or with 1 if the program could not run'
complete -c halite-master -l topology -d 'Print the process table: sockets and responsibilities of each process'
complete -c halite-master -l prepare -d 'Create directories and key files, hand them over to the account of the option `user`, and exit; for root, before the master starts under that account'
complete -c halite-master -s h -l help -d 'Print help'
