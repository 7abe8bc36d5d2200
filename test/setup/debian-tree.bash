# Functions for trees of Debian and Ubuntu below build/, for scripts that need a different
# operating system.
# shellcheck shell=bash disable=SC2154
#
# Each command in a tree runs in its own mount and process namespace, so that no
# mount remains, even if it fails.

# need_root "$@": restarts the script with sudo, unless it is run by root.
need_root() {
	is_root && return
	if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
		exec sudo "$0" "$@"
	fi
	die "root or sudo is needed to make a Debian tree"
}

# inside TREE COMMAND...: runs the command in the tree, with its own /proc and /dev/shm.
# If $overlay is set, changes are written to that directory without fsync and the tree is unchanged.
# If $mounted is set, this directory of the system is mounted read-only at the same path.
inside() {
	local tree=$1
	shift
	unshare --mount --pid --fork --kill-child --propagation private bash -c '
		set -e
		if [[ -n $1 ]]; then
			rm -rf "$1/work"
			mkdir -p "$1/changes" "$1/work" "$1/root"
			mount -t overlay overlay -o "volatile,lowerdir=$0,upperdir=$1/changes,workdir=$1/work" "$1/root"
			set -- "$1/root" "${@:2}"
		else
			set -- "$0" "${@:2}"
		fi
		if [[ -n $2 ]]; then
			mkdir -p "$1$2"
			mount --bind -o ro "$(realpath "$2")" "$1$2"
		fi
		mount -t proc proc "$1/proc"
		mkdir -p "$1/dev/shm"
		mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
		exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
			DEBIAN_FRONTEND=noninteractive "${@:3}"' "$tree" "${overlay:-}" "${mounted:-}" "$@"
}

# sources SUITE: prints its apt sources, with the newest minor version of the server.
sources() {
	local debian=http://deb.debian.org ubuntu=http://archive.ubuntu.com/ubuntu suite
	case $1 in
		noble)
			for suite in noble noble-updates noble-security; do echo "deb $ubuntu $suite main universe"; done
			;;
		trixie)
			for suite in trixie trixie-updates; do echo "deb $debian/debian $suite main"; done
			echo "deb $debian/debian-security trixie-security main"
			;;
		*) echo "deb $debian/debian $1 main" ;;
	esac
}

# keyring SUITE TREE: prints the file of the distribution's keys.  Debian 12 has no package of
# Ubuntu's keys, so Ubuntu's package is downloaded and verified by checksum.
keyring() {
	local keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
	if [[ $1 != noble ]]; then
		keys=/usr/share/keyrings/debian-archive-keyring.gpg
	elif [[ ! -e $keys ]]; then
		/usr/lib/apt/apt-helper download-file \
			http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb \
			"$2.deb" SHA256:36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8 >&2 || return 1
		dpkg-deb --extract "$2.deb" "$2.keys"
		keys=$2.keys$keys
	fi
	echo "$keys"
}

# make_tree TREE SUITE OPTION...: makes the tree by mmdebstrap, unless it exists and was made with the
# same options.  Returns 1 if it exists.  A mirror may be a few days out of date.
make_tree() {
	local tree=$1 suite=$2 ready=$1/.fasted-ready keys
	shift 2
	if printf '%s\n' "$suite" "$@" | cmp -s - "$ready"; then return 1; fi
	say "Making a tree of $suite in $tree"
	drop_tree "$tree"
	mkdir -p "$top_dir/build"
	{
		keys=$(keyring "$suite" "$tree") &&
			sources "$suite" | sed "s|^deb |&[signed-by=$keys] |" | mmdebstrap --mode=root --verbose \
				--aptopt='Acquire::Check-Valid-Until "false"' "$@" "$suite" "$tree" -
	} >"$tree.log" 2>&1 || {
		tail -n 30 "$tree.log" >&2
		die "could not make $tree"
	}
	printf '%s\n' "$suite" "$@" >"$ready"
}

drop_tree() {
	remove_tree "$1"
	rm -rf "$1".{log,deb,keys}
	rmdir "$top_dir/build" 2>/dev/null || true
}
