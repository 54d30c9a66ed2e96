complete -c halite-swarm -l master -d 'Host of the master, halite or stock; several with commas, each as HOST, HOST:RET_PORT or HOST:RET_PORT:PUBLISH_PORT. Minions begin at them in turn, and go to another one if theirs refuses connections or does not answer' -r -f
complete -c halite-swarm -l ret-port -d 'Port of the master\'s request server (its option `ret_port`), if --master does not name it' -r -f
complete -c halite-swarm -l transport -d 'Protocol of both ports: zeromq, tcp or ws' -r -f
complete -c halite-swarm -l ca -d 'The ports have TLS: file with the certificates to trust (PEM)' -r -F
complete -c halite-swarm -l publish-port -d 'Port for publications; by default the one that the master names at sign-in' -r -f
complete -c halite-swarm -l key-type -d 'Type of the keys: `rsa`, or `ed25519`, which is for the handshake alone' -r -f -a "rsa\t''
ed25519\t''"
complete -c halite-swarm -l minions -d 'Number of minions; each needs two open files and about 20 kB. For more than 25000, name several addresses of the master: to one, a host has 64000 ports at most, and soon looks long for a free one' -r -f
complete -c halite-swarm -l prefix -d 'Ids are PREFIX-0, PREFIX-1, ...' -r -f
complete -c halite-swarm -l keys -d 'Directory to keep key pairs in between runs; without it they are generated each time, and a master that knows the ids refuses them' -r -f -a "(__fish_complete_directories)"
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
complete -c halite-swarm -l fun -d 'Mode jobs: function to run on the minions: test.ping, test.echo or test.arg' -r -f
complete -c halite-swarm -l arg -d 'Mode jobs: an argument of the function; may be given several times' -r -f
complete -c halite-swarm -l target -d 'Mode jobs: target of the job' -r -f
complete -c halite-swarm -l target-type -d 'Mode jobs: type of the target: glob, pcre, list, grain, compound, ...' -r -f
complete -c halite-swarm -l cachedir -d 'Mode jobs: cache directory of the master (its option `cachedir`), with the key file used for publishing' -r -f -a "(__fish_complete_directories)"
complete -c halite-swarm -l key-file -d 'Mode jobs: the key file itself, if it is not `.root_key` or that of this account' -r -F
complete -c halite-swarm -l sock-dir -d 'Directory of the master\'s sockets (its option `sock_dir`). Mode jobs: if given, every return must be heard on the event bus, once and unmodified. Mode events: where to listen' -r -f -a "(__fish_complete_directories)"
complete -c halite-swarm -l count -d 'Modes returns, pillar, files, events: how many; by default 10000 returns or events, or 1000 of the others' -r -f
complete -c halite-swarm -l expect -d 'Mode pillar: file with the pillar, as JSON, that every minion must get' -r -F
complete -c halite-swarm -l file -d 'Mode files: the file, as salt://path' -r -f
complete -c halite-swarm -l saltenv -d 'Mode files: environment of the file' -r -f
complete -c halite-swarm -l listeners -d 'Mode events: listeners on the event bus; each must hear every event once and unmodified' -r -f
complete -c halite-swarm -l acknowledged -d 'Write a line `JID ID` for each acknowledged answer or return to this file; each of them must then be in the job cache of every master' -r -F
complete -c halite-swarm -l concurrency -d 'Concurrent requests, for sign-ins and for what --count counts' -r -f
complete -c halite-swarm -l seconds -d 'Longest time of each part of the run; then mode serve exits, the others fail' -r -f
complete -c halite-swarm -l timeout -d 'Seconds to wait for a reply before the request is repeated' -r -f
complete -c halite-swarm -l threads -d 'Threads among which the minions are divided' -r -f
complete -c halite-swarm -l master-pids -d 'Also measure CPU time of the (first) master\'s processes: the pid of its main process, or `auto` for the owner of the port on this host. Not in mode restart, where processes change' -r -f
complete -c halite-swarm -l noise -d 'Sign in as halite\'s minions do, with AES-256-GCM afterwards; the master must be halite\'s'
complete -c halite-swarm -l chunk -d 'Mode files: request one chunk of the file at a time (1 MiB, or all of a smaller file) rather than its hash and all of its chunks'
complete -c halite-swarm -l req -d 'Mode returns: ask the master for a jid with each return, as `salt-call` does. Stock masters need this: they fail on returns for jobs that they have not published'
complete -c halite-swarm -l json -d 'Print the result as JSON'
complete -c halite-swarm -s h -l help -d 'Print help'
complete -c halite-swarm -s V -l version -d 'Print version'
