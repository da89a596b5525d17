#!/bin/sh
# Boots the Debian in the folder $1 with its own systemd as process 1. Runs in new namespaces (processes, mounts, cgroups,
# IPC, names, network), so nothing of it is left when process 1 is killed.
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
while read -r name major minor; do
	mknod -m 666 "$root/dev/$name" c "$major" "$minor"
done <<-END
	null 1 3
	zero 1 5
	full 1 7
	random 1 8
	urandom 1 9
	tty 5 0
END
mkdir "$root/dev/net" "$root/dev/pts" "$root/dev/shm"
mknod -m 666 "$root/dev/net/tun" c 10 200
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
# The line, the home's network and the neighbours'.
ip link set lo up
ip link add eth0 type veth peer name router
ip link add mesh0 type veth peer name street
ip addr add 192.168.1.2/24 dev eth0
ip addr add 10.20.0.1/16 dev mesh0
for link in eth0 router mesh0 street; do
	ip link set "$link" up
done
ip route add default via 192.168.1.1
cd "$root"
mkdir -p old
pivot_root . old
umount -l old
# What systemd expects of who starts it in a container: without it, services get no credentials.
mount --make-rshared /
exec env -i container=leeway PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb /lib/systemd/systemd --unit=multi-user.target
