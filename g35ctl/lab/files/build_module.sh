#!/bin/sh
# Build g35dcb for the kernel of a guest tree, inside that tree, with that release's own compiler.
# Usage: build_module.sh TREE   (TREE/usr/src/g35dcb holds the source; called in a private mount namespace)
set -eu
tree=$1
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc "$tree/proc"
# Nothing that a package script starts may outlive the build.
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
chmod 0755 "$tree/usr/sbin/policy-rc.d"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
kernel=$(ls "$tree/lib/modules")
chroot "$tree" apt-get -qq update
# The headers of exactly this kernel: the meta package may already name a newer one.
chroot "$tree" apt-get -qq install --no-install-recommends -o Dpkg::Use-Pty=0 make gcc "linux-headers-$kernel"
chroot "$tree" make -C "/lib/modules/$kernel/build" M=/usr/src/g35dcb modules
