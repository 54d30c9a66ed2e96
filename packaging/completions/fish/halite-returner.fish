complete -c halite-returner -s h -l help -d 'Print help'
complete -c halite-returner -s V -l version -d 'Print version'
