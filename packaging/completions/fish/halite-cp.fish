complete -c halite-cp -l saltfile -d 'File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile' -r -F
complete -c halite-cp -s l -l log-level -d 'Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet' -r -f -a "all\t''
garbage\t''
trace\t''
debug\t''
profile\t''
info\t''
warning\t''
error\t''
critical\t''
quiet\t''"
complete -c halite-cp -l log-file -d 'Log file; overrides the configuration' -r -F
complete -c halite-cp -l log-file-level -d 'Log level of the log file' -r -f
complete -c halite-cp -s t -l timeout -d 'Seconds of silence after which missing minions are asked whether they are still running the job' -r -f
complete -c halite-cp -l out -l output -d 'How to show results: nested, highstate, json, yaml, raw, txt, pprint, table, key, no_return, quiet, newline_values_only' -r -f -a "nested\t''
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
complete -c halite-cp -l out-indent -l output-indent -d 'Indentation in columns; -1 puts json on one line' -r -f
complete -c halite-cp -l out-file -l output-file -d 'Write results to this file' -r -F
complete -c halite-cp -l state-output -l state_output -d 'States: full, terse, mixed, changes, filter' -r -f -a "full\t''
terse\t''
mixed\t''
changes\t''
filter\t''"
complete -c halite-cp -l state-verbose -l state_verbose -d 'States: show successful ones as well' -r -f
complete -c halite-cp -l state-profile -l state_profile -d 'States: end with the N that took longest; 10 if N is left out' -r -f
complete -c halite-cp -s c -l config-dir -d 'Directory of the configuration files; a directory called `salt` means an existing Salt installation' -r -f -a "(__fish_complete_directories)"
complete -c halite-cp -s V -l versions-report -d 'Print the versions of the program, its libraries and the system, and exit'
complete -c halite-cp -l version -d 'Print the version of the program, and exit'
complete -c halite-cp -s C -l chunked -d 'Send in chunks: large files, binary files, whole directories'
complete -c halite-cp -s n -l no-compression -d 'Do not compress the chunks'
complete -c halite-cp -s E -l pcre -d 'The target is a regular expression on ids'
complete -c halite-cp -s L -l list -d 'The target is a list of ids, separated by commas or blanks'
complete -c halite-cp -s G -l grain -d 'The target is a grain: key:glob'
complete -c halite-cp -s P -l grain-pcre -d 'The target is a grain: key:regex'
complete -c halite-cp -s N -l nodegroup -d 'The target is a node group of the configuration'
complete -c halite-cp -l hard-crash -d 'Accepted for compatibility; errors of the program itself always show their location'
complete -c halite-cp -l out-file-append -l output-file-append -d 'Append to the file of --out-file'
complete -c halite-cp -l no-color -l no-colour -d 'No colours'
complete -c halite-cp -l force-color -l force-colour -d 'Colours even if the output is not a terminal'
complete -c halite-cp -s h -l help -d 'Print help'
