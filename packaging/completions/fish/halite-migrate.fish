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
complete -c halite-migrate -n "__fish_halite_migrate_needs_command" -f -a "check" -d 'Check a Salt configuration for use with halite'
complete -c halite-migrate -n "__fish_halite_migrate_needs_command" -f -a "import" -d 'Copy the data of a stock master to halite\'s own directories'
complete -c halite-migrate -n "__fish_halite_migrate_needs_command" -f -a "export" -d 'Copy new data of halite back to a stock master'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -s c -l config-dir -d 'Directory of the Salt configuration' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -l only -d 'Check only the files of the master or of the minion' -r -f -a "master\t'The master\'s file and the files it includes'
minion\t'The minion\'s file and the files it includes'"
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -l out -d 'How to print the result' -r -f -a "table\t'Human-readable'
json\t'JSON, for programs'"
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -s s -l short -d 'Omit what is supported'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -l from -d 'Directory of the stock master\'s configuration' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -l to -d 'Directory of halite\'s configuration' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -l out -d 'How to print the result' -r -f -a "table\t'Human-readable'
json\t'JSON, for programs'"
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -s n -l dry-run -d 'Change nothing, only show what would be done'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -l delete -d 'Remove keys of minions that the source does not have (any more)'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -s c -l config-dir -d 'Directory of halite\'s configuration; that of the stock master if halite runs with it' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -l to -d 'Directory of the stock master\'s configuration' -r -F
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -l out -d 'How to print the result' -r -f -a "table\t'Human-readable'
json\t'JSON, for programs'"
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -s n -l dry-run -d 'Change nothing, only show what would be done'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -l delete -d 'Remove keys of minions that the source does not have (any more)'
complete -c halite-migrate -n "__fish_halite_migrate_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
