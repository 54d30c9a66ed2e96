complete -c halite -l saltfile -d 'File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile' -r -F
complete -c halite -s l -l log-level -d 'Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet' -r -f -a "all\t''
garbage\t''
trace\t''
debug\t''
profile\t''
info\t''
warning\t''
error\t''
critical\t''
quiet\t''"
complete -c halite -l log-file -d 'Log file; overrides the configuration' -r -F
complete -c halite -l log-file-level -d 'Log level of the log file' -r -f
complete -c halite -s t -l timeout -d 'Seconds of silence after which missing minions are asked whether they are still running the job' -r -f
complete -c halite -s b -l batch-size -l batch -d 'Run on this many minions at a time: a number or a percentage' -r -f
complete -c halite -l batch-wait -d 'Seconds to wait before a free slot in the batch is filled' -r -f
complete -c halite -l batch-safe-limit -d 'Run in batches when at least this many minions match' -r -f
complete -c halite -l batch-safe-size -d 'Size of such a batch' -r -f
complete -c halite -l subset -d 'Pick this many of the matching minions at random' -r -f
complete -c halite -l args-separator -d 'Separator between the arguments of several functions' -r -f
complete -c halite -l return -d 'Returners on the minions, separated by commas' -r -f
complete -c halite -l return_config -d 'Alternative configuration of the returner' -r -f
complete -c halite -l return_kwargs -d 'Options of the returner, as YAML' -r -f
complete -c halite -l module-executors -d 'Executors on the minions, as YAML' -r -f
complete -c halite -l executor-opts -d 'Options of the executors, as YAML' -r -f
complete -c halite -l metadata -d 'Metadata kept with the job, as YAML' -r -f
complete -c halite -l no-parse -d 'Keyword arguments whose values are not parsed, separated by commas' -r -f
complete -c halite -l delimiter -d 'Separator of the components of a grain or pillar target' -r -f
complete -c halite -s a -l auth -l eauth -l external-auth -d 'Authenticate with this system: pam, ldap, file' -r -f -a "pam\t''
ldap\t''
file\t''"
complete -c halite -l username -d 'User; prompted for if missing' -r -f
complete -c halite -l password -d 'Password; prompted for if missing. Other users of this host can see it in the process list' -r -f
complete -c halite -l out -l output -d 'How to show results: nested, highstate, json, yaml, raw, txt, pprint, table, key, no_return, quiet, newline_values_only' -r -f -a "nested\t''
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
complete -c halite -l out-indent -l output-indent -d 'Indentation in columns; -1 puts json on one line' -r -f
complete -c halite -l out-file -l output-file -d 'Write results to this file' -r -F
complete -c halite -l state-output -l state_output -d 'States: full, terse, mixed, changes, filter' -r -f -a "full\t''
terse\t''
mixed\t''
changes\t''
filter\t''"
complete -c halite -l state-verbose -l state_verbose -d 'States: show successful ones as well' -r -f
complete -c halite -l state-profile -l state_profile -d 'States: end with the N that took longest; 10 if N is left out' -r -f
complete -c halite -s c -l config-dir -d 'Directory of the configuration files; a directory called `salt` means an existing Salt installation' -r -f -a "(__fish_complete_directories)"
complete -c halite -s V -l versions-report -d 'Print the versions of the program, its libraries and the system, and exit'
complete -c halite -l version -d 'Print the version of the program, and exit'
complete -c halite -s s -l static -d 'Collect all returns and show them together at the end'
complete -c halite -l async -d 'Print the jid and do not wait'
complete -c halite -l here -d 'In a cluster: only to minions that are connected to this master, also while it cannot reach the others'
complete -c halite -l failhard -d 'Stop a batch run at the first minion that fails'
complete -c halite -s v -l verbose -d 'Show the jid and the expected minions before the returns'
complete -c halite -s p -l progress -d 'Show progress on standard error'
complete -c halite -l show-jid -d 'Show the jid'
complete -c halite -l hide-timeout -d 'Do not list minions that did not return'
complete -c halite -l summary -d 'Show a summary after the returns'
complete -c halite -s d -l doc -l documentation -d 'Show the documentation of a function or module'
complete -c halite -l preview-target -d 'Only print which minions match the target'
complete -c halite -l args-stdin -d 'Read more arguments from standard input, one per line'
complete -c halite -l output-diff -d 'Show only states with changes, as differences'
complete -c halite -l start-event -d 'Ask minions (3008 and later) to announce that they have received the job'
complete -c halite -l config-dump -d 'Print the configuration in effect as YAML, and exit'
complete -c halite -l hard-crash -d 'Accepted for compatibility; errors of the program itself always show their location'
complete -c halite -s E -l pcre -d 'The target is a regular expression on ids'
complete -c halite -s L -l list -d 'The target is a list of ids, separated by commas or blanks'
complete -c halite -s G -l grain -d 'The target is a grain: key:glob'
complete -c halite -s P -l grain-pcre -d 'The target is a grain: key:regex'
complete -c halite -s I -l pillar -d 'The target is a pillar key: key:glob'
complete -c halite -s J -l pillar-pcre -d 'The target is a pillar key: key:regex'
complete -c halite -s N -l nodegroup -d 'The target is a node group of the configuration'
complete -c halite -s C -l compound -d 'The target is an expression with and, or, not and prefixes such as G@ and L@'
complete -c halite -s S -l ipcidr -d 'The target is an address or network'
complete -c halite -s R -l range -d 'The target is a range expression; as halite has no range server, it matches no minion'
complete -c halite -s H -l hosts -d 'The hosts of rosters, which only salt-ssh has; it matches no minion'
complete -c halite -s T -l make-token -d 'Store a token, so that the next commands need no password'
complete -c halite -l out-file-append -l output-file-append -d 'Append to the file of --out-file'
complete -c halite -l no-color -l no-colour -d 'No colours'
complete -c halite -l force-color -l force-colour -d 'Colours even if the output is not a terminal'
complete -c halite -s h -l help -d 'Print help'
