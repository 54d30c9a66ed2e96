complete -c halite-call -l saltfile -d 'File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile' -r -F
complete -c halite-call -s l -l log-level -d 'Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet' -r -f -a "all\t''
garbage\t''
trace\t''
debug\t''
profile\t''
info\t''
warning\t''
error\t''
critical\t''
quiet\t''"
complete -c halite-call -l log-file -d 'Log file; overrides the configuration' -r -F
complete -c halite-call -l log-file-level -d 'Log level of the log file' -r -f
complete -c halite-call -l no-parse -d 'Keyword arguments whose values are not parsed, separated by commas' -r -f
complete -c halite-call -l out -l output -d 'How to show results: nested, highstate, json, yaml, raw, txt, pprint, table, key, no_return, quiet, newline_values_only' -r -f -a "nested\t''
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
complete -c halite-call -l out-indent -l output-indent -d 'Indentation in columns; -1 puts json on one line' -r -f
complete -c halite-call -l out-file -l output-file -d 'Write results to this file' -r -F
complete -c halite-call -l state-output -l state_output -d 'States: full, terse, mixed, changes, filter' -r -f -a "full\t''
terse\t''
mixed\t''
changes\t''
filter\t''"
complete -c halite-call -l state-verbose -l state_verbose -d 'States: show successful ones as well' -r -f
complete -c halite-call -l state-profile -l state_profile -d 'States: end with the N that took longest; 10 if N is left out' -r -f
complete -c halite-call -l file-root -d 'Directory of the files and states, with --local; overrides the option `file_roots`. Several are searched in turn' -r -f -a "(__fish_complete_directories)"
complete -c halite-call -l pillar-root -d 'Directory of the pillar, with --local; overrides the option `pillar_roots`. Several are searched in turn' -r -f -a "(__fish_complete_directories)"
complete -c halite-call -l master -d 'Master to use; overrides the option `master`' -r -f
complete -c halite-call -l id -d 'Minion id; overrides the option `id`' -r -f
complete -c halite-call -s t -l auth-timeout -l timeout -d 'Seconds to wait for the answer to a sign-in; overrides the option `auth_timeout`' -r -f
complete -c halite-call -s m -l module-dirs -l module_dirs -d 'Further directory with modules in Python; in addition to the option `module_dirs`' -r -f -a "(__fish_complete_directories)"
complete -c halite-call -l states-dir -l states_dir -d 'Further directory with state modules in Python; in addition to the option `states_dirs`' -r -f -a "(__fish_complete_directories)"
complete -c halite-call -l cachedir -d 'Accepted for compatibility; a single process does not need it' -r -f -a "(__fish_complete_directories)"
complete -c halite-call -l module-executors -d 'Executors that run the function, as YAML; overrides the option `module_executors`' -r -f
complete -c halite-call -l executor-opts -d 'Options of the executors, as YAML; overrides the option `executor_opts`' -r -f
complete -c halite-call -l return -d 'Returners that get the result, separated by commas; overrides the option `return`' -r -f
complete -c halite-call -l return-config -l return_config -d 'Alternative configuration of the returners' -r -f
complete -c halite-call -l return-kwargs -l return_kwargs -d 'Settings of the returners, as YAML' -r -f
complete -c halite-call -s c -l config-dir -d 'Directory of the configuration files; a directory called `salt` means an existing Salt installation' -r -f -a "(__fish_complete_directories)"
complete -c halite-call -s V -l versions-report -d 'Print the versions of the program, its libraries and the system, and exit'
complete -c halite-call -l version -d 'Print the version of the program, and exit'
complete -c halite-call -l hard-crash -d 'Accepted for compatibility; errors of the program itself always show their location'
complete -c halite-call -l out-file-append -l output-file-append -d 'Append to the file of --out-file'
complete -c halite-call -l no-color -l no-colour -d 'No colours'
complete -c halite-call -l force-color -l force-colour -d 'Colours even if the output is not a terminal'
complete -c halite-call -l local -d 'Work without a master: no sign-in, nothing is sent; files and pillar come from file_roots and pillar_roots of this host'
complete -c halite-call -s g -l grains -d 'Show the grains'
complete -c halite-call -s d -l doc -l documentation -d 'Show the documentation of the functions whose names start with FUNCTION, or of all'
complete -c halite-call -l progress -d 'Show the result of each state on standard error as soon as it is there'
complete -c halite-call -l output-diff -l output_diff -d 'Show only states that changed something or failed'
complete -c halite-call -l no-return-event -d 'Do not send the result to the master'
complete -c halite-call -l retcode-passthrough -d 'Exit with the retcode of the function'
complete -c halite-call -l metadata -l print-metadata -d 'Show the whole return, not just the value'
complete -c halite-call -l refresh-grains-cache -l refresh_grains_cache -d 'Accepted for compatibility; grains are never cached'
complete -c halite-call -s h -l help -d 'Print help'
