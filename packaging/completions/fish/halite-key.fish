complete -c halite-key -l saltfile -d 'File with defaults for options by command; by default SALT_SALTFILE, ./Saltfile or ~/.salt/Saltfile' -r -F
complete -c halite-key -l log-file -d 'Log file; overrides the configuration' -r -F
complete -c halite-key -l log-file-level -d 'Log level of the log file' -r -f
complete -c halite-key -s u -l user -d 'Account to work as; only root can switch to another one' -r -f
complete -c halite-key -l rotate-aes-key -d 'Whether to rotate the session key when keys are deleted or rejected; overrides the option `rotate_aes_key`' -r -f
complete -c halite-key -l preserve-minions -d 'Whether to keep grains, pillar and mine of accepted minions when their keys are deleted' -r -f
complete -c halite-key -s l -l list -d 'List keys: pre, un or unaccepted; acc or accepted; rej or rejected; den or denied; all' -r -f
complete -c halite-key -s a -l accept -d 'Accept pending keys' -r -f
complete -c halite-key -s r -l reject -d 'Reject pending keys' -r -f
complete -c halite-key -s p -l print -d 'Print keys' -r -f
complete -c halite-key -s d -l delete -d 'Delete keys, in any state' -r -f
complete -c halite-key -s f -l finger -d 'Show fingerprints, including those of the master\'s own keys' -r -f
complete -c halite-key -l finger-form -d 'Input of a fingerprint' -r -f -a "body\t'the lines between BEGIN and END: the same as `key.finger` on a minion, suitable for `master_finger`, shown by salt-key of 3006 and 3007'
text\t'the whole text: shown by salt-key of 3008'"
complete -c halite-key -l gen-keys -d 'Create the key pair NAME.pem and NAME.pub and show its fingerprint; an existing pair is left unchanged' -r -f
complete -c halite-key -l gen-keys-dir -d 'Directory of that pair' -r -f -a "(__fish_complete_directories)"
complete -c halite-key -l keysize -d 'Size of a new key in bits, at least 2048; by default the option `keysize`' -r -f
complete -c halite-key -l key-type -d 'Type of that pair: `rsa`, or `ed25519`, which only halite\'s masters and minions know' -r -f -a "rsa\t''
ed25519\t''"
complete -c halite-key -l priv -d 'Private key to sign with, instead of `master_sign_key_name` in `pki_dir`' -r -F
complete -c halite-key -l pub -d 'Public key to sign, instead of `master.pub` in `pki_dir`' -r -F
complete -c halite-key -l signature-path -d 'Directory of the signature file, instead of `pki_dir`' -r -f -a "(__fish_complete_directories)"
complete -c halite-key -l out -l output -d 'How to show results: nested, highstate, json, yaml, raw, txt, pprint, table, key, no_return, quiet, newline_values_only' -r -f -a "nested\t''
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
complete -c halite-key -l out-indent -l output-indent -d 'Indentation in columns; -1 puts json on one line' -r -f
complete -c halite-key -l out-file -l output-file -d 'Write results to this file' -r -F
complete -c halite-key -l state-output -l state_output -d 'States: full, terse, mixed, changes, filter' -r -f -a "full\t''
terse\t''
mixed\t''
changes\t''
filter\t''"
complete -c halite-key -l state-verbose -l state_verbose -d 'States: show successful ones as well' -r -f
complete -c halite-key -l state-profile -l state_profile -d 'States: end with the N that took longest; 10 if N is left out' -r -f
complete -c halite-key -l username -d 'User; prompted for if missing' -r -f
complete -c halite-key -l password -d 'Password; prompted for if missing. Other users of this host can see it in the process list' -r -f
complete -c halite-key -l log-level -d 'Log level on the terminal: all, garbage, trace, debug, profile, info, warning, error, critical, quiet' -r -f -a "all\t''
garbage\t''
trace\t''
debug\t''
profile\t''
info\t''
warning\t''
error\t''
critical\t''
quiet\t''"
complete -c halite-key -l auth -l eauth -l external-auth -d 'Authenticate with this system: pam, ldap, file' -r -f -a "pam\t''
ldap\t''
file\t''"
complete -c halite-key -s c -l config-dir -d 'Directory of the configuration files; a directory called `salt` means an existing Salt installation' -r -f -a "(__fish_complete_directories)"
complete -c halite-key -s V -l versions-report -d 'Print the versions of the program, its libraries and the system, and exit'
complete -c halite-key -l version -d 'Print the version of the program, and exit'
complete -c halite-key -s q -l quiet -d 'Suppress messages; results are still shown'
complete -c halite-key -s y -l yes -d 'Answer yes to all questions'
complete -c halite-key -s L -l list-all -d 'List all keys'
complete -c halite-key -s A -l accept-all -d 'Accept all pending keys'
complete -c halite-key -s R -l reject-all -d 'Reject all pending keys'
complete -c halite-key -l include-all -d 'Old form of --include-rejected when accepting and of --include-accepted when rejecting'
complete -c halite-key -l include-accepted -d 'Reject accepted keys too'
complete -c halite-key -l include-rejected -d 'Accept rejected keys too'
complete -c halite-key -l include-denied -d 'Accept or reject denied keys too'
complete -c halite-key -s P -l print-all -d 'Print all keys'
complete -c halite-key -s D -l delete-all -d 'Delete all keys'
complete -c halite-key -s F -l finger-all -d 'Show all fingerprints'
complete -c halite-key -l gen-signature -d 'Sign the master\'s public key for minions that verify it'
complete -c halite-key -l auto-create -d 'Create the signing key pair if it does not exist'
complete -c halite-key -l out-file-append -l output-file-append -d 'Append to the file of --out-file'
complete -c halite-key -l no-color -l no-colour -d 'No colours'
complete -c halite-key -l force-color -l force-colour -d 'Colours even if the output is not a terminal'
complete -c halite-key -s T -l make-token -d 'Store a token, so that the next commands need no password'
complete -c halite-key -l hard-crash -d 'Accepted for compatibility; errors of the program itself always show their location'
complete -c halite-key -s h -l help -d 'Print help (see more with \'--help\')'
