complete -c halite-swarm -l master -d 'Host of the master, halite\'s or a stock one' -r -f
complete -c halite-swarm -l ret-port -d 'Port of the master\'s request server (its option `ret_port`)' -r -f
complete -c halite-swarm -l publish-port -d 'Port of publications; if not given, the one that the master names at sign-in' -r -f
complete -c halite-swarm -l minions -d 'Number of minions; each takes two open files and about 20 kB' -r -f
complete -c halite-swarm -l prefix -d 'Ids are PREFIX-0, PREFIX-1, ...' -r -f
complete -c halite-swarm -l keys -d 'Directory to keep key pairs in from run to run; without it they are made anew, and a master that knows the ids refuses them' -r -f -a "(__fish_complete_directories)"
complete -c halite-swarm -l key-pool -d 'Key pairs that the minions share' -r -f
complete -c halite-swarm -l mode -d 'What the minions do' -r -f -a "signin\t''
serve\t''
ping\t''
jobs\t''
returns\t''
pillar\t''
files\t''
events\t''
restart\t''"
complete -c halite-swarm -l rounds -d 'Mode signin: further sign-ins of each minion' -r -f
complete -c halite-swarm -l jobs -d 'Mode ping: jobs to wait for; mode jobs: jobs to publish' -r -f
complete -c halite-swarm -l fun -d 'Mode jobs: function that the minions are to run: test.ping, test.echo or test.arg' -r -f
complete -c halite-swarm -l arg -d 'Mode jobs: an argument of the function; may be given several times' -r -f
complete -c halite-swarm -l target -d 'Mode jobs: who is to run it' -r -f
complete -c halite-swarm -l target-type -d 'Mode jobs: type of the target: glob, pcre, list, grain, compound, ...' -r -f
complete -c halite-swarm -l cachedir -d 'Mode jobs: cache directory of the master (its option `cachedir`), with the key file that proves who publishes' -r -f -a "(__fish_complete_directories)"
complete -c halite-swarm -l key-file -d 'Mode jobs: the key file itself, where it is not `.root_key` or that of this account' -r -F
complete -c halite-swarm -l sock-dir -d 'Directory of the master\'s sockets (its option `sock_dir`). Mode jobs: if given, every return must be heard on the event bus, once and unharmed. Mode events: where to listen' -r -f -a "(__fish_complete_directories)"
complete -c halite-swarm -l count -d 'Modes returns, pillar, files, events: how many; if not given, 10000 returns or events, or 1000 of the others' -r -f
complete -c halite-swarm -l expect -d 'Mode pillar: file with the pillar, as JSON, that every minion must get' -r -F
complete -c halite-swarm -l file -d 'Mode files: the file, as salt://path' -r -f
complete -c halite-swarm -l saltenv -d 'Mode files: environment of the file' -r -f
complete -c halite-swarm -l listeners -d 'Mode events: listeners on the event bus; each must hear every event once and unharmed' -r -f
complete -c halite-swarm -l concurrency -d 'Requests under way at the same time, for sign-ins and for what --count counts' -r -f
complete -c halite-swarm -l seconds -d 'Longest time of each part of the run; mode serve ends then, the others fail' -r -f
complete -c halite-swarm -l timeout -d 'Seconds to wait for one reply before the request is made again' -r -f
complete -c halite-swarm -l threads -d 'Threads to share the minions among' -r -f
complete -c halite-swarm -l master-pids -d 'Count CPU time of the master\'s processes too: the pid of its main process, or `auto` for the owner of the port on this host. Not in mode restart, where processes change' -r -f
complete -c halite-swarm -l chunk -d 'Mode files: ask for one piece of the file at a time (1 MiB, or all of a smaller file) rather than for its hash and all of its pieces'
complete -c halite-swarm -l req -d 'Mode returns: ask the master for a jid with each return, as `salt-call` does. Stock masters need this: they fail on returns for jobs that they have not published'
complete -c halite-swarm -l json -d 'Print the result as JSON'
complete -c halite-swarm -s h -l help -d 'Print help'
complete -c halite-swarm -s V -l version -d 'Print version'
