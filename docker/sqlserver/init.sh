#!/bin/bash
# Waits for SQL Server in this container, and makes the databases and the login that the tests use.
#
# usage, inside the container: init.sh
# environment: MSSQL_SA_PASSWORD, as the server was started with; QUEUE_PASSWORD (default: the same)
#
# Safe to run again. Not run by the authors: no container runs where this was written.
set -eu

here=$(dirname "$0")
sqlcmd() {
    /opt/mssql-tools18/bin/sqlcmd -C -I -b -S localhost -U sa -P "$MSSQL_SA_PASSWORD" "$@"
}

for _ in $(seq 120); do
    if sqlcmd -l 2 -Q 'SELECT 1' -o /dev/null 2>/dev/null; then
        ready=yes
        break
    fi
    sleep 1
done
[ "${ready:-}" = yes ] || { echo "init.sh: the server did not answer within 2 minutes" >&2; exit 1; }

sqlcmd -v password="${QUEUE_PASSWORD:-$MSSQL_SA_PASSWORD}" -i "$here/login.sql"
sqlcmd -v name=queue_test snapshot=OFF optimized=OFF -i "$here/database.sql"
sqlcmd -v name=queue_test_rcsi snapshot=ON optimized=OFF -i "$here/database.sql"
sqlcmd -v name=queue_test_optimized snapshot=OFF optimized=ON -i "$here/database.sql"
sqlcmd -v name=queue_test_rcsi_optimized snapshot=ON optimized=ON -i "$here/database.sql"
