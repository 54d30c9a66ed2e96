complete -c halite-run -l saltfile -d 'File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile' -r -F
complete -c halite-run -s l -l log-level -d 'Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet' -r -f -a "all\t''
garbage\t''
trace\t''
debug\t''
profile\t''
info\t''
warning\t''
error\t''
critical\t''
quiet\t''"
complete -c halite-run -l log-file -d 'Log file; overrides the configuration' -r -F
complete -c halite-run -l log-file-level -d 'Log level of the log file' -r -f
complete -c halite-run -s t -l timeout -d 'Seconds to wait for minions; overrides the option `timeout`' -r -f
complete -c halite-run -l jid -d 'Job id to use' -r -f
complete -c halite-run -s a -l auth -l eauth -l external-auth -d 'Authenticate with this system: pam, ldap, file' -r -f -a "pam\t''
ldap\t''
file\t''"
complete -c halite-run -l username -d 'User; prompted for if missing' -r -f
complete -c halite-run -l password -d 'Password; prompted for if missing. Other users of this host can see it in the process list' -r -f
complete -c halite-run -l no-parse -d 'Keyword arguments whose values are not parsed, separated by commas' -r -f
complete -c halite-run -l out -l output -d 'How to show results: nested, highstate, json, yaml, raw, txt, pprint, table, key, no_return, quiet, newline_values_only' -r -f -a "nested\t''
highstate\t''
json\t''
yaml\t''
raw\t''
txt\t''
pprint\t''
table\t''
key\t''
no_return\t''
quiet\t''
newline_values_only\t''"
complete -c halite-run -l out-indent -l output-indent -d 'Indentation in columns; -1 puts json on one line' -r -f
complete -c halite-run -l out-file -l output-file -d 'Write results to this file' -r -F
complete -c halite-run -l state-output -l state_output -d 'States: full, terse, mixed, changes, filter' -r -f -a "full\t''
terse\t''
mixed\t''
changes\t''
filter\t''"
complete -c halite-run -l state-verbose -l state_verbose -d 'States: show successful ones as well' -r -f
complete -c halite-run -l state-profile -l state_profile -d 'States: end with the N that took longest; 10 if N is left out' -r -f
complete -c halite-run -s c -l config-dir -d 'Directory of the configuration files; a directory called `salt` means an existing Salt installation' -r -f -a "(__fish_complete_directories)"
complete -c halite-run -s V -l versions-report -d 'Print the versions of the program, its libraries and the system, and exit'
complete -c halite-run -l version -d 'Print the version of the program, and exit'
complete -c halite-run -s d -l doc -l documentation -d 'Show the documentation of a function, of a module, or of all'
complete -c halite-run -l async -d 'Run the function in a separate process and return at once; the result goes to the bus and the job cache'
complete -c halite-run -l quiet -d 'Do not show the result'
complete -c halite-run -l args-stdin -d 'Read further arguments from standard input, one per line'
complete -c halite-run -l order -d 'Execute an order from standard input, for programs on this host'
complete -c halite-run -l show-jid -d 'Print the job id'
complete -c halite-run -l skip-grains -d 'Accepted for compatibility: runners need no grains'
complete -c halite-run -s T -l make-token -d 'Store a token, so that the next commands need no password'
complete -c halite-run -l hard-crash -d 'Accepted for compatibility; errors of the program itself always show their location'
complete -c halite-run -l out-file-append -l output-file-append -d 'Append to the file of --out-file'
complete -c halite-run -l no-color -l no-colour -d 'No colours'
complete -c halite-run -l force-color -l force-colour -d 'Colours even if the output is not a terminal'
complete -c halite-run -s h -l help -d 'Print help'
