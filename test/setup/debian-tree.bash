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
# If $overlay is set, changes are written to that directory and the tree is unchanged.
# If $mounted is set, this directory of the system is mounted read-only at the same path.
inside() {
	local tree=$1
	shift
	unshare --mount --pid --fork --kill-child --propagation private bash -c '
		set -e
		if [[ -n $1 ]]; then
			mkdir -p "$1/changes" "$1/work" "$1/root"
			mount -t overlay overlay -o "lowerdir=$0,upperdir=$1/changes,workdir=$1/work" "$1/root"
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

# ubuntu_keys DIR: prints the file of Ubuntu's keys.  If Debian has no package of them, Ubuntu's
# package is downloaded to DIR and verified by checksum.
ubuntu_keys() {
	local keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg dir=$1
	if [[ ! -e $keys ]]; then
		/usr/lib/apt/apt-helper download-file \
			http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb \
			"$dir/keys.deb" SHA256:36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8 >&2
		dpkg-deb --extract "$dir/keys.deb" "$dir"
		keys=$dir$keys
	fi
	echo "$keys"
}

# bootstrap SUITE TREE: installs the base system.  An older debootstrap lacks newer Ubuntu suites,
# so the script of an older suite is used, which is identical.
bootstrap() {
	local dir keys status=0
	if [[ $1 != noble ]]; then
		debootstrap --variant=minbase "$1" "$2"
		return
	fi
	dir=$(mktemp -d)
	{
		keys=$(ubuntu_keys "$dir") &&
			debootstrap --variant=minbase --keyring="$keys" "$1" "$2" http://archive.ubuntu.com/ubuntu gutsy
	} || status=$?
	remove_tree "$dir"
	return "$status"
}

# make_tree TREE SUITE PACKAGE...: makes the tree unless it exists with exactly these packages.
# Returns 1 if it exists.  Trees of a suite are copies of build/SUITE-base.
make_tree() {
	local tree=$1 suite=$2 ready=$1/.fasted-ready base=$top_dir/build/$2-base
	shift 2
	if printf '%s\n' "$suite" "$@" | cmp -s - "$ready"; then return 1; fi
	say "Making a tree of $suite in $tree"
	remove_tree "$tree"
	if [[ ! -e $base/.fasted-ready ]]; then
		remove_tree "$base"
		mkdir -p "$base"
		bootstrap "$suite" "$base" >"$base.log" || {
			tail -n 30 "$base.log" "$base/debootstrap/debootstrap.log" >&2
			die "debootstrap failed"
		}
		touch "$base/.fasted-ready"
	fi
	cp -ax "$base" "$tree"
	rm "$ready"
	sources "$suite" >"$tree/etc/apt/sources.list"
	# no service is started in the tree, and no cluster is created
	printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
	chmod 755 "$tree/usr/sbin/policy-rc.d"
	mkdir -p "$tree/etc/postgresql-common/createcluster.d"
	echo 'create_main_cluster = false' >"$tree/etc/postgresql-common/createcluster.d/fasted.conf"
	# accept a mirror that is a few days out of date
	echo 'Acquire::Check-Valid-Until "false";' >"$tree/etc/apt/apt.conf.d/fasted"
	{
		inside "$tree" apt-get -y -q update &&
			inside "$tree" apt-get -y -q --no-install-recommends install "$@" &&
			inside "$tree" apt-get clean
	} >"$tree.log" 2>&1 </dev/null || {
		tail -n 30 "$tree.log" >&2
		die "could not install the packages in $tree"
	}
	printf '%s\n' "$suite" "$@" >"$ready"
}

drop_tree() {
	remove_tree "$1"
	rm -f "$1.log"
	rmdir "$top_dir/build" 2>/dev/null || true
}
