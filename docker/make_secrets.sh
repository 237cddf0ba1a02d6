#!/bin/sh
# Makes the passwords of PostgreSQL and Valkey once: sh docker/make_secrets.sh
# To keep a password of PostgreSQL that exists: POSTGRES_PASSWORD=… sh docker/make_secrets.sh (letters and digits only)
set -eu
folder="$(dirname "$0")/secrets"
if [ -e "$folder" ]; then
    echo "$folder exists already, and is left as it is." >&2
    exit 1
fi
password() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
postgres="${POSTGRES_PASSWORD:-$(password)}"
valkey="$(password)"
case "$postgres" in
    *[!A-Za-z0-9]*)
        echo "POSTGRES_PASSWORD becomes part of a URL: letters and digits only, please." >&2
        exit 1
        ;;
esac
# Users of this machine are kept out by the folder. Inside the containers, users with other numbers read the files.
# The folder gets its name last: if this is interrupted, the next call starts anew.
umask 022
unfinished="$(mktemp -d "$folder.XXXXXX")"
printf '%s' "$postgres" > "$unfinished/postgres_password"
printf 'postgres://tuneboard:%s@postgres:5432/tuneboard' "$postgres" > "$unfinished/database_url"
printf 'requirepass %s\n' "$valkey" > "$unfinished/valkey.conf"
printf 'redis://:%s@valkey:6379/0' "$valkey" > "$unfinished/redis_url"
mv "$unfinished" "$folder"
echo "The passwords are in $folder. Keep a copy in a safe place."
