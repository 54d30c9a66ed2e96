#!/bin/bash
# Starts PostgreSQL and MariaDB for make_sql_states.py: on sockets below /tmp/halite-sql only, with data of their own there.
# Needs Debian's postgresql, postgresql-contrib and mariadb-server, and root. Prints how to stop them.
set -e
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1) top=/tmp/halite-sql
mkdir -p $top
if [ ! -d $top/pgdata ]; then
  install -d -o postgres $top/pgdata $top/pg
  su postgres -s /bin/sh -c "cd /; $bin/initdb -D $top/pgdata -A trust -E UTF8 --locale=C.UTF-8" > $top/log
fi
su postgres -s /bin/sh -c "cd /; $bin/pg_ctl -D $top/pgdata -w -l $top/pgdata/log -o \"-k $top/pg -c listen_addresses='' -c fsync=off\" start" > $top/log
if [ ! -d $top/mydata ]; then
  install -d -o mysql $top/mydata $top/my
  mariadb-install-db --no-defaults --user=mysql --datadir=$top/mydata --auth-root-authentication-method=normal > $top/log 2>&1
fi
setsid mariadbd --no-defaults --user=mysql --datadir=$top/mydata --socket=$top/my/s --skip-networking --pid-file=$top/my/pid > $top/my/log 2>&1 &
until mariadb --no-defaults -uroot -S $top/my/s -e "delete from mysql.global_priv where user = ''; flush privileges" 2> $top/log; do sleep 0.2; done
echo "kill $(head -1 $top/pgdata/postmaster.pid) $(cat $top/my/pid)"
