# Functions shared by the scripts in this directory.
# shellcheck shell=bash

# Files created by root must be readable by the user that runs the tests.
umask 022

# Perl and sort must not depend on the locale.
export LC_ALL=C

# A make that is started by a script must not inherit flags from the make that started it.
unset MAKEFLAGS MAKELEVEL MFLAGS MAKEOVERRIDES

setup_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck disable=SC2034
top_dir=$(cd "$setup_dir/../.." && pwd -P)

# Copies of the sources are no git repositories.
FASTED_SEED=$("$setup_dir/seed")
export FASTED_SEED

say() { printf '== %s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() {
	warn "$@"
	exit 1
}

is_root() { [[ $(id -u) == 0 ]]; }

# The user that runs servers and tests, because PostgreSQL refuses to run as root.
server_user() {
	if ! is_root; then
		id -un
	elif id postgres >/dev/null 2>&1; then
		echo postgres
	else
		echo nobody
	fi
}

# as_server_user COMMAND...: runs the command as that user, with this environment.
# setpriv is preferred, because it needs no password and starts no session.
as_server_user() {
	local user
	if ! is_root; then
		"$@"
		return
	fi
	user=$(server_user)
	if command -v setpriv >/dev/null; then
		setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups -- "$@"
	elif command -v runuser >/dev/null; then
		runuser -u "$user" -- "$@"
	else
		su -m -s /bin/bash "$user" -c 'exec "$@"' -- bash "$@"
	fi
}

# Makes a directory that is owned by the server's user, with a short path: the path of a
# socket has at most 107 bytes.
make_work_dir() {
	local parent dir
	for parent in "${TMPDIR:-/tmp}" /tmp; do
		[[ ${#parent} -le 40 ]] || continue
		dir=$(as_server_user mktemp -d "$parent/fasted-$1-XXXXXX" 2>/dev/null) || continue
		chmod 755 "$dir"
		echo "$dir"
		return
	done
	die "no temporary directory that user $(server_user) can write"
}

# remove_tree DIR: like rm -rf, but does not enter mounted file systems.
remove_tree() { rm -rf --one-file-system -- "$1"; }

# Prints the pg_config to use: $PG_CONFIG if it is set, else the newest one in Debian's
# directories that has server and headers, else the one on the PATH.
find_pg_config() {
	local candidate
	if [[ -n ${PG_CONFIG:-} ]]; then
		candidate=$(command -v "$PG_CONFIG") && is_usable "$candidate" && echo "$candidate"
		return
	fi
	while read -r candidate; do
		if is_usable "$candidate"; then
			echo "$candidate"
			return
		fi
	done < <(printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -rV)
	candidate=$(command -v pg_config) && is_usable "$candidate" && echo "$candidate"
}

# Checks that a file is the pg_config of a PostgreSQL 15 or later with server and headers.
is_usable() {
	local version
	[[ -x $1 ]] || return 1
	version=$("$1" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
	((version >= 15)) && [[ -x $("$1" --bindir)/postgres ]] &&
		[[ -f $("$1" --pgxs) ]] && [[ -f $("$1" --includedir-server)/postgres.h ]]
}

# Prints the compute capabilities of this machine's GPUs, in the form for cuda.mk; nothing
# if there is no GPU.
gpu_architectures() {
	nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
		tr -d . | sed 's/^90$/90a/' | sort -u | xargs || true
}

# The directory of the demo: one for each user and checkout, so that demo-clean finds
# it.
demo_dir() {
	printf '/tmp/fasted-demo-%s-%s\n' "$(id -u)" "$(cksum <<<"$top_dir" | cut -d' ' -f1)"
}

# claim_dir DIR: makes it, or checks that it belongs to this user, because /tmp is shared.
claim_dir() {
	as_server_user mkdir -m 755 "$1" 2>/dev/null ||
		[[ -d $1 && ! -L $1 && $(stat -c %U "$1") == "$(server_user)" ]] ||
		die "$1 exists and does not belong to user $(server_user): remove it"
}
