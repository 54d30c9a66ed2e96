complete -c halite-api -l saltfile -d 'File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile' -r -F
complete -c halite-api -s l -l log-level -d 'Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet' -r -f -a "all\t''
garbage\t''
trace\t''
debug\t''
profile\t''
info\t''
warning\t''
error\t''
critical\t''
quiet\t''"
complete -c halite-api -l log-file -d 'Log file; overrides the configuration' -r -F
complete -c halite-api -l log-file-level -d 'Log level of the log file' -r -f
complete -c halite-api -l pid-file -d 'Pid file; there is none without this' -r -F
complete -c halite-api -s c -l config-dir -d 'Directory of the configuration files; a directory called `salt` means an existing Salt installation' -r -f -a "(__fish_complete_directories)"
complete -c halite-api -s V -l versions-report -d 'Print the versions of the program, its libraries and the system, and exit'
complete -c halite-api -l version -d 'Print the version of the program, and exit'
complete -c halite-api -s d -l daemon -d 'Run in the background; returns when the port is bound'
complete -c halite-api -l check-config -d 'Check the configuration, print what is wrong with it, and exit: with 0, or with 1 if the program could not run'
complete -c halite-api -s h -l help -d 'Print help'
