# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_halite_migrate_global_optspecs
    string join \n h/help V/version
end

function __fish_halite_migrate_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_halite_migrate_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_halite_migrate_using_subcommand
    set -l cmd (__fish_halite_migrate_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c halite-migrate -n "__fish_halite_migrate_needs_command" -s h -l help -d 'Print help'
complete -c halite-migrate -n "__fish_halite_migrate_needs_command" -s V -l version -d 'Print version'
complete -c halite-migrate -n "__fish_halite_migrate_needs_command" -f -a "check" -d 'Say what halite makes of a Salt configuration'
complete -c halite-migrate -n "__fish_halite_migrate_needs_command" -f -a "import" -d 'Bring what a stock master has to halite\'s own directories'
complete -c halite-migrate -n "__fish_halite_migrate_needs_command" -f -a "export" -d 'Bring what halite has got meanwhile back to a stock master'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -s c -l config-dir -d 'Directory of the Salt configuration' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -l only -d 'Look at the files of the master or of the minion only' -r -f -a "master\t'The master and what it includes'
minion\t'The minion and what it includes'"
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -l out -d 'How to print the result' -r -f -a "table\t'For people'
json\t'For programs'"
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -s s -l short -d 'Leave out what is supported'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -l from -d 'Directory of the stock master\'s configuration' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -l to -d 'Directory of halite\'s configuration' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -l out -d 'How to print the result' -r -f -a "table\t'For people'
json\t'For programs'"
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -s n -l dry-run -d 'Change nothing, only say what would be done'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -l delete -d 'Remove keys of minions that the side that is read does not have (any more)'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -s c -l config-dir -d 'Directory of halite\'s configuration; that of the stock master if halite serves there' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -l to -d 'Directory of the stock master\'s configuration' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -l out -d 'How to print the result' -r -f -a "table\t'For people'
json\t'For programs'"
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -s n -l dry-run -d 'Change nothing, only say what would be done'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -l delete -d 'Remove keys of minions that the side that is read does not have (any more)'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
